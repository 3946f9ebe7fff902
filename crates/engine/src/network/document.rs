//! A test as the server saw it, in the shape of `iperf3 -s -J`'s document; valid also where the test failed.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{json, Map, Value};

use crate::network::results::{stream_id, Report, StreamReport};
use crate::network::settings::Settings;

/// What a server knows of one test at its end, however it ended.
#[derive(Debug, Clone, Default)]
pub struct Course {
    /// What the client requested.
    pub settings: Option<Settings>,
    /// What was counted here.
    pub here: Option<Report>,
    /// What the client reported.
    pub there: Option<Report>,
}

/// Makes the document; `error` is why the test failed, if it did.
#[must_use]
pub fn document(course: &Course, client: IpAddr, cookie: &str, error: Option<&str>) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut start = json!({
        "version": format!("hwdyno {}", env!("CARGO_PKG_VERSION")),
        "timestamp": {"timesecs": now},
        "accepted_connection": {"host": client.to_string()},
        "cookie": cookie,
    });
    let mut end = Map::new();
    if let Some(settings) = &course.settings {
        start["test_start"] = json!({
            "protocol": if settings.udp { "UDP" } else { "TCP" },
            "num_streams": settings.streams,
            "blksize": settings.block,
            "omit": settings.omit_s,
            "duration": settings.runtime_s,
            "bytes": settings.bytes,
            "blocks": settings.blocks,
            "reverse": i32::from(settings.down && !settings.up),
            "bidir": i32::from(settings.down && settings.up),
            "target_bitrate": settings.rate_bits_s,
            "tos": settings.socket.tos,
        });
        start["connected"] = (0..settings.total())
            .map(|index| json!({"socket": stream_id(index), "remote_host": client.to_string()}))
            .collect();
        if let Some(here) = &course.here {
            put_end(settings, here, course.there.as_ref(), &mut end);
        }
    }
    let mut whole = json!({"start": start, "intervals": [], "end": end});
    if let Some(error) = error {
        whole["error"] = json!(error);
    }
    whole
}

fn put_end(settings: &Settings, here: &Report, there: Option<&Report>, end: &mut Map<String, Value>) {
    let none = StreamReport::default();
    let of = |report: Option<&Report>, index: usize| {
        report.and_then(|report| report.streams.get(index).copied().flatten()).unwrap_or(none)
    };
    let mut streams = Vec::new();
    for (name, up, used) in [("", true, settings.up), ("down", false, settings.down)] {
        if !used {
            continue;
        }
        let suffix = if name == "down" && settings.up { "_bidir_reverse" } else { "" };
        let (mut sent, mut received) = (StreamReport::default(), StreamReport::default());
        for index in (0..settings.total()).filter(|index| settings.goes_up(*index) == up) {
            let (ours, theirs) = (of(Some(here), index), of(there, index));
            let (from, to) = if up { (theirs, ours) } else { (ours, theirs) };
            streams.push(stream(settings, index, up, &from, &to));
            for (sum, one) in [(&mut sent, &from), (&mut received, &to)] {
                sum.counts.add(&one.counts);
                sum.counts.jitter_ns = sum.counts.jitter_ns.max(one.counts.jitter_ns);
                sum.elapsed_s = sum.elapsed_s.max(one.elapsed_s);
                if let Some(count) = one.retransmits {
                    sum.retransmits = Some(sum.retransmits.unwrap_or(0).saturating_add(count));
                }
            }
        }
        end.insert(format!("sum_sent{suffix}"), figures(settings, &sent, !up));
        end.insert(format!("sum_received{suffix}"), figures(settings, &received, !up));
        if settings.udp {
            end.insert(format!("sum{suffix}"), figures(settings, &received, !up));
        }
    }
    end.insert("streams".into(), Value::Array(streams));
    let share = |seconds: f64, of: f64| if of > 0.0 { 100.0 * seconds / of } else { 0.0 };
    let (user, system) = here.cpu_s;
    let (far_user, far_system) = there.map_or((0.0, 0.0), |there| there.cpu_s);
    let far_s = there.map_or(0.0, |there| there.elapsed_s);
    end.insert(
        "cpu_utilization_percent".into(),
        json!({
            "host_total": share(user + system, here.elapsed_s),
            "host_user": share(user, here.elapsed_s),
            "host_system": share(system, here.elapsed_s),
            "remote_total": share(far_user + far_system, far_s),
            "remote_user": share(far_user, far_s),
            "remote_system": share(far_system, far_s),
        }),
    );
    for (name, report) in [("receiver_tcp_congestion", Some(here)), ("sender_tcp_congestion", there)] {
        let name = match (name, settings.up) {
            ("receiver_tcp_congestion", false) => "sender_tcp_congestion",
            ("sender_tcp_congestion", false) => "receiver_tcp_congestion",
            (name, _) => name,
        };
        if let Some(used) = report.map(|report| &report.congestion).filter(|used| !used.is_empty() && !settings.udp) {
            end.insert(name.into(), json!(used));
        }
    }
}

fn figures(settings: &Settings, one: &StreamReport, sender: bool) -> Value {
    let bits_s = if one.elapsed_s > 0.0 { one.counts.bytes as f64 * 8.0 / one.elapsed_s } else { 0.0 };
    let mut fields = json!({
        "start": 0, "end": one.elapsed_s, "seconds": one.elapsed_s, "bytes": one.counts.bytes,
        "bits_per_second": bits_s, "sender": sender,
    });
    if settings.udp {
        let packets = one.counts.highest;
        fields["jitter_ms"] = json!(one.counts.jitter_ns as f64 / 1e6);
        fields["lost_packets"] = json!(one.counts.lost);
        fields["packets"] = json!(packets);
        fields["lost_percent"] = json!(if packets > 0 { 100.0 * one.counts.lost as f64 / packets as f64 } else { 0.0 });
    } else if let Some(count) = one.retransmits {
        fields["retransmits"] = json!(count);
    }
    fields
}

fn stream(settings: &Settings, index: usize, up: bool, sender: &StreamReport, receiver: &StreamReport) -> Value {
    let with_socket = |one: &StreamReport| {
        let mut fields = figures(settings, one, !up);
        fields["socket"] = json!(stream_id(index));
        fields
    };
    if settings.udp {
        let mut fields = with_socket(receiver);
        fields["out_of_order"] = json!(receiver.counts.reordered);
        return json!({"udp": fields});
    }
    let mut sent = with_socket(sender);
    if let Some(tcp) = &sender.tcp {
        sent["max_snd_cwnd"] = json!(tcp.cwnd_max_bytes);
        sent["max_rtt"] = json!(tcp.rtt_max_us);
        sent["min_rtt"] = json!(tcp.rtt_min_us);
        sent["mean_rtt"] = json!(tcp.rtt_mean_us as u64);
    }
    json!({"sender": sent, "receiver": with_socket(receiver)})
}
