//! The histogram that both languages read: this crate must write it, `tests/analysis/test_histograms.py` must read it.

use hwdyno_engine::parts::Histogram;
use serde_json::Value;

#[test]
fn the_engine_writes_the_golden_histogram() {
    let golden: Value = serde_json::from_str(include_str!("../../../tests/data/golden_histogram.json")).unwrap();
    let mut histogram = Histogram::new();
    for i in 0..1000_u64 {
        histogram.record_many(i * i * 37, 1 + (i % 3) as u32);
    }
    assert_eq!(histogram.to_json(), golden["histogram"]);
    assert!((histogram.mean() - golden["mean"].as_f64().unwrap()).abs() < 1e-6);
    for pair in golden["quantiles"].as_array().unwrap() {
        assert_eq!(histogram.quantile(pair[0].as_f64().unwrap()), pair[1].as_u64().unwrap(), "{pair}");
    }
}
