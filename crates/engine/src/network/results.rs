//! The results that both ends of a test exchange, as iperf3 has them, with our figures added.

use serde_json::{json, Map, Value};

use crate::network::lane::Counts;
use crate::network::watched::Figures;

/// iperf3's number of the stream that was opened as the `index`-th: 1, 3, 4, 5, …
#[must_use]
pub fn stream_id(index: usize) -> u64 {
    if index == 0 {
        1
    } else {
        index as u64 + 2
    }
}

/// What one end reports of one stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamReport {
    /// What was counted in the timed region.
    pub counts: Counts,
    /// What was counted before it.
    pub omitted: Counts,
    /// Segments sent again; none from a receiver, or with UDP.
    pub retransmits: Option<u64>,
    /// Length of the timed region at that end, s.
    pub elapsed_s: f64,
    /// TCP's figures at that end for what it sends.
    pub tcp: Option<Figures>,
    /// What ended it at that end before the test was over; 0 for nothing.
    pub errno: i32,
}

/// What one end reports of a test.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Streams in the order of opening; none for a stream that it did not mention.
    pub streams: Vec<Option<StreamReport>>,
    /// CPU time over its timed region, s, in user mode and in the kernel.
    pub cpu_s: (f64, f64),
    /// The congestion control of its sockets.
    pub congestion: String,
    /// The length of its timed region, s.
    pub elapsed_s: f64,
    /// It is one of ours.
    pub ours: bool,
    /// It sends, by TCP.
    pub has_retransmits: bool,
}

impl Report {
    /// The JSON that goes over the wire.
    #[must_use]
    pub fn to_json(&self, output: Option<String>) -> Value {
        let percent = |seconds: f64| if self.elapsed_s > 0.0 { 100.0 * seconds / self.elapsed_s } else { 0.0 };
        let streams: Vec<Value> = self
            .streams
            .iter()
            .enumerate()
            .filter_map(|(index, report)| report.as_ref().map(|report| (index, report)))
            .map(|(index, report)| {
                let all_packets = report.counts.highest.saturating_add(report.omitted.highest);
                json!({
                    "id": stream_id(index),
                    "bytes": report.counts.bytes,
                    "retransmits": report.retransmits.map_or(-1, |count| count as i64),
                    "jitter": report.counts.jitter_ns as f64 / 1e9,
                    "errors": report.counts.lost.saturating_add(report.omitted.lost),
                    "omitted_errors": report.omitted.lost,
                    "packets": all_packets,
                    "omitted_packets": report.omitted.highest,
                    "start_time": 0,
                    "end_time": report.elapsed_s,
                    "hwdyno": {
                        "operations": report.counts.operations,
                        "reordered": report.counts.reordered,
                        "duplicates": report.counts.duplicates,
                        "tcp": report.tcp.map(Figures::to_json),
                        "errno": report.errno,
                    },
                })
            })
            .collect();
        let mut fields = Map::new();
        fields.insert("cpu_util_total".into(), json!(percent(self.cpu_s.0 + self.cpu_s.1)));
        fields.insert("cpu_util_user".into(), json!(percent(self.cpu_s.0)));
        fields.insert("cpu_util_system".into(), json!(percent(self.cpu_s.1)));
        fields.insert("sender_has_retransmits".into(), json!(if self.has_retransmits { 1 } else { -1 }));
        if !self.congestion.is_empty() {
            fields.insert("congestion_used".into(), json!(self.congestion));
        }
        fields.insert("streams".into(), Value::Array(streams));
        if let Some(output) = output {
            fields.insert("server_output_text".into(), json!(output));
        }
        fields.insert("hwdyno".into(), json!({"cpu_user_s": self.cpu_s.0, "cpu_system_s": self.cpu_s.1}));
        Value::Object(fields)
    }

    /// What the other end reports of a test of `count` streams; what it leaves out is absent, nonsense is 0.
    #[must_use]
    pub fn from_json(fields: &Value, count: usize) -> Self {
        let number = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_f64).filter(|n| n.is_finite()).unwrap_or(0.0).max(0.0)
        };
        let empty = Vec::new();
        let stream_list = fields.get("streams").and_then(Value::as_array).unwrap_or(&empty);
        let mut elapsed_s: f64 = 0.0;
        let streams: Vec<_> = (0..count)
            .map(|index| {
                let id = stream_id(index);
                let stream = stream_list.iter().find(|stream| stream.get("id").and_then(Value::as_u64) == Some(id))?;
                let whole = |name: &str| number(stream, name) as u64;
                let extension = stream.get("hwdyno");
                let extension_of = |name: &str| extension.map(|extension| number(extension, name) as u64);
                let packets = whole("packets").saturating_sub(whole("omitted_packets"));
                let lost = whole("errors").saturating_sub(whole("omitted_errors"));
                let lasted = (number(stream, "end_time") - number(stream, "start_time")).max(0.0);
                elapsed_s = elapsed_s.max(lasted);
                Some(StreamReport {
                    counts: Counts {
                        bytes: whole("bytes"),
                        operations: extension_of("operations").unwrap_or(packets.saturating_sub(lost)),
                        highest: packets,
                        lost,
                        reordered: extension_of("reordered").unwrap_or(0),
                        duplicates: extension_of("duplicates").unwrap_or(0),
                        jitter_ns: (number(stream, "jitter") * 1e9) as u64,
                    },
                    omitted: Counts::default(),
                    retransmits: stream.get("retransmits").and_then(Value::as_u64),
                    elapsed_s: lasted,
                    tcp: extension.and_then(|extension| extension.get("tcp")).and_then(Figures::from_json),
                    errno: extension_of("errno").and_then(|errno| i32::try_from(errno).ok()).unwrap_or(0),
                })
            })
            .collect();
        let extension = fields.get("hwdyno");
        let cpu = |name: &str, share: &str| {
            extension.map_or_else(|| number(fields, share) / 100.0 * elapsed_s, |extension| number(extension, name))
        };
        Self {
            cpu_s: (cpu("cpu_user_s", "cpu_util_user"), cpu("cpu_system_s", "cpu_util_system")),
            congestion: fields.get("congestion_used").and_then(Value::as_str).unwrap_or("").chars().take(15).collect(),
            has_retransmits: fields.get("sender_has_retransmits").and_then(Value::as_i64).is_some_and(|n| n > 0),
            ours: extension.is_some(),
            elapsed_s,
            streams,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_wire() {
        let counts =
            Counts { bytes: 5000, operations: 7, highest: 10, lost: 3, reordered: 1, duplicates: 2, jitter_ns: 4000 };
        let omitted = Counts { highest: 5, lost: 1, ..Counts::default() };
        let tcp = Some(Figures { pmtu_bytes: 1500, ..Figures::default() });
        let stream = StreamReport { counts, omitted, retransmits: Some(9), elapsed_s: 2.0, tcp, errno: 104 };
        let sent = Report {
            streams: vec![Some(stream), None, Some(stream)],
            cpu_s: (0.5, 1.5),
            congestion: "cubic".into(),
            elapsed_s: 2.0,
            ours: true,
            has_retransmits: true,
        };
        let read = Report::from_json(&sent.to_json(None), 3);
        assert_eq!(read.cpu_s, (0.5, 1.5));
        assert!(read.streams[1].is_none() && read.ours && read.has_retransmits);
        let first = read.streams[0].unwrap();
        assert_eq!((first.counts.highest, first.counts.lost, first.counts.duplicates), (10, 3, 2));
        assert_eq!((first.counts.bytes, first.retransmits), (5000, Some(9)));
        assert_eq!((first.tcp, first.errno), (tcp, 104));
    }

    #[test]
    fn nonsense_is_nothing() {
        let read =
            Report::from_json(&json!({"streams": [{"id": 1, "bytes": -5, "packets": 1e300}], "cpu_util_user": "x"}), 2);
        assert_eq!(read.streams[0].unwrap().counts.bytes, 0);
        assert!(read.streams[1].is_none());
    }
}
