//! Histograms as digits in a text: whoever merges those of hundreds of ranks has no time to read numbers one by one.

use serde_json::Value;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Replaces the `buckets` of every histogram of a reading by `packed`: two little-endian `u32` a bucket, its index and its
/// count, each byte as two hexadecimal digits. A histogram that does not fit into those stays as it is.
pub fn pack(reading: &mut Value) {
    let streams = reading.get_mut("streams").and_then(Value::as_array_mut);
    for stream in streams.into_iter().flatten() {
        let kinds = stream.get_mut("latency_ns").and_then(Value::as_object_mut);
        for (_, histogram) in kinds.into_iter().flatten() {
            let digits = histogram.get("buckets").and_then(Value::as_array).and_then(|buckets| digits_of(buckets));
            if let (Some(digits), Some(histogram)) = (digits, histogram.as_object_mut()) {
                histogram.remove("buckets");
                histogram.insert("packed".into(), digits.into());
            }
        }
    }
}

fn digits_of(buckets: &[Value]) -> Option<String> {
    let mut digits = String::with_capacity(16 * buckets.len());
    for bucket in buckets {
        for number in bucket.as_array()? {
            for byte in u32::try_from(number.as_u64()?).ok()?.to_le_bytes() {
                digits.push(char::from(DIGITS[usize::from(byte >> 4)]));
                digits.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    Some(digits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_histogram_is_packed_and_what_does_not_fit_stays() {
        let mut reading = json!({"streams": [
            {"latency_ns": {"total": {"count": 5, "buckets": [[1, 2], [700, 3]]}}},
            {"latency_ns": {"total": {"buckets": [[1, 5_000_000_000_u64]]}}},
            {"name": "none"},
        ]});
        pack(&mut reading);
        let packed = json!({"count": 5, "packed": "0100000002000000bc02000003000000"});
        assert_eq!(reading["streams"][0]["latency_ns"]["total"], packed);
        assert_eq!(reading["streams"][1]["latency_ns"]["total"]["buckets"][0][0], 1);
        pack(&mut json!({"streams": 1}));
        pack(&mut json!(null));
    }
}
