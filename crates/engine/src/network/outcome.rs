//! Turns what a test gave into a reading: goodput at the receiver, TCP's figures at the sender, CPU at both ends.

use serde_json::{json, Map, Value};

use crate::contract::reading::{Fault, Note, Reading, Samples, Stream};
use crate::network::client::{Outcome, StreamEnd};
use crate::network::lane::Counts;
use crate::network::results::{stream_id, StreamReport};
use crate::network::settings::{Handing, Settings};
use crate::network::watched::Figures;

/// What both ends counted of one direction.
#[derive(Default)]
struct Direction {
    sent: Counts,
    received: Counts,
    retransmits: u64,
    jitter_ns: u64,
    streams: u64,
}

impl Direction {
    fn add(&mut self, sent: &Counts, received: &Counts, retransmits: u64) {
        self.sent.add(sent);
        self.received.add(received);
        self.retransmits = self.retransmits.saturating_add(retransmits);
        self.jitter_ns = self.jitter_ns.saturating_add(received.jitter_ns);
        self.streams += 1;
    }
}

/// What both ends counted of all streams.
#[derive(Default)]
struct Ends {
    /// Up, then down.
    ways: [Direction; 2],
    /// The other end is gone: received is what its kernel acknowledged.
    is_acknowledged: bool,
    /// Each stream's figures.
    streams: Vec<Value>,
    /// TCP's figures at each sending end.
    senders: Vec<Figures>,
}

impl Ends {
    fn of(settings: &Settings, outcome: &Outcome) -> Self {
        let mut ends = Self::default();
        for (index, end) in outcome.streams.iter().enumerate() {
            let there = outcome.there.as_ref().and_then(|there| there.streams.get(index).copied().flatten());
            ends.is_acknowledged |= end.up && there.is_none() && !settings.udp;
            ends.add(index, end, there.as_ref(), settings);
        }
        ends
    }

    fn add(&mut self, index: usize, end: &StreamEnd, there: Option<&StreamReport>, settings: &Settings) {
        let (sent, received, retransmits) = if end.up {
            let acknowledged = || Counts { bytes: end.tcp.map_or(0, |tcp| tcp.acked_bytes), ..Counts::default() };
            let received = counted_by_bytes(there.map_or_else(acknowledged, |there| there.counts), settings);
            (end.here, received, end.tcp.map_or(0, |tcp| tcp.retransmits))
        } else {
            let sent = there.map_or(Counts::default(), |there| there.counts);
            (sent, end.here, there.and_then(|there| there.retransmits).unwrap_or(0))
        };
        self.ways[usize::from(!end.up)].add(&sent, &received, retransmits);
        // Each stream's figures are its sender's, at whichever end that is.
        let tcp = if end.up { end.tcp } else { there.and_then(|there| there.tcp) };
        self.senders.extend(tcp);
        let tcp = tcp.map(|tcp| {
            json!({"snd_cwnd": tcp.cwnd_mean_bytes as u64, "max_snd_cwnd": tcp.cwnd_max_bytes,
                   "mean_rtt": tcp.rtt_mean_us as u64, "max_rtt": tcp.rtt_max_us, "min_rtt": tcp.rtt_min_us,
                   "rttvar": tcp.rttvar_us, "pmtu": tcp.pmtu_bytes, "snd_wnd": tcp.receive_window_bytes,
                   "reorder": tcp.reordering_segments})
        });
        self.streams.push(json!({
            "id": stream_id(index), "up": end.up, "sent_bytes": sent.bytes,
            "received_bytes": received.bytes, "retransmits": retransmits, "lost": received.lost,
            "packets": received.highest.max(sent.operations), "reordered": received.reordered,
            "jitter_ns": received.jitter_ns, "tcp": tcp,
        }));
    }
}

/// A sum of what the other end claims, which may be anything.
fn sum(figures: impl Iterator<Item = u64>) -> u64 {
    figures.fold(0, u64::saturating_add)
}

/// What a receiver counted. One that is not ours counts no calls of TCP, which has no packets: its bytes tell the blocks.
fn counted_by_bytes(counts: Counts, settings: &Settings) -> Counts {
    if settings.udp || counts.operations > 0 || counts.bytes == 0 {
        return counts;
    }
    Counts { operations: (counts.bytes / settings.block.max(1) as u64).max(1), ..counts }
}

fn note(code: &str, says: impl Into<String>) -> Note {
    Note { code: code.into(), says: says.into() }
}

/// Makes the reading; `loopback` means that no wire was on the way.
#[must_use]
pub fn reading(settings: &Settings, outcome: &Outcome, loopback: bool) -> Reading {
    let mut reading = Reading {
        elapsed_s: outcome.elapsed_s,
        cpu: outcome.cpu,
        concurrency_requested: settings.total() as f64,
        interrupted: outcome.interrupted,
        ..Reading::default()
    };
    // The receiver's clock counts: what it received lasted as long as it reports.
    if let Some(there) = outcome.there.as_ref().filter(|there| settings.up && !settings.down && there.elapsed_s > 0.0) {
        reading.elapsed_s = there.elapsed_s;
    }
    // No one acknowledges datagrams: without the receiver's count nothing is known of what arrived.
    let is_unknown = settings.udp && settings.up && outcome.there.is_none();
    let Ends { ways, is_acknowledged, streams, senders } = Ends::of(settings, outcome);
    for (name, way, used) in [("up", &ways[0], settings.up), ("down", &ways[1], settings.down)] {
        if used && settings.streams > 0 {
            reading.streams.push(Stream {
                name: name.into(),
                operations: way.received.operations,
                bytes: way.received.bytes,
                ..Stream::default()
            });
        }
    }
    reading.samples = samples(settings, outcome);
    reading.faults = faults(outcome);
    if is_acknowledged {
        reading.notes.push(note(
            "counted_at_the_sender",
            "the other end sent no results; received bytes are those that its kernel acknowledged",
        ));
    }
    if is_unknown {
        reading.notes.push(note(
            "arrivals_unknown",
            "the other end sent no results, so it is not known how many datagrams arrived",
        ));
    }
    reading.details = details(settings, outcome, &ways, loopback, reading.elapsed_s);
    if is_unknown {
        for name in OF_THE_RECEIVER {
            reading.details.shift_remove(*name);
        }
    }
    if !settings.udp {
        sender_details(&senders, &ways, &mut reading.details);
    }
    reading.details.insert("per_stream".into(), json!(streams));
    if settings.udp && settings.handing != Handing::Plain {
        reading.notes.push(note(
            "jitter_of_batches",
            "datagrams were received in batches with one arrival time each, so jitter is too low; use --handing plain",
        ));
    }
    reading
}

/// What only the receiver of datagrams can count.
const OF_THE_RECEIVER: &[&str] = &[
    "received_bytes",
    "datagrams_received",
    "datagrams_received_s",
    "datagrams_lost",
    "loss_share",
    "datagrams_reordered",
    "datagrams_duplicated",
    "jitter_us",
];

fn samples(settings: &Settings, outcome: &Outcome) -> Samples {
    let mut samples = Samples { interval_s: outcome.interval_s, ..Samples::default() };
    for (way, used) in [(0, settings.up), (1, settings.down)] {
        if used && settings.streams > 0 {
            samples.bytes.push(outcome.rows.iter().map(|row| row[way].0).collect());
            samples.operations.push(outcome.rows.iter().map(|row| row[way].1).collect());
        }
    }
    samples
}

fn faults(outcome: &Outcome) -> Vec<Fault> {
    let mut faults: Vec<Fault> = outcome
        .faults
        .iter()
        .map(|(says, errno)| Fault { operation: "control".into(), errno: *errno, says: says.clone(), count: 1 })
        .collect();
    let mut count = |sends: bool, errno: i32, says: String| {
        let operation = if sends { "send" } else { "receive" };
        match faults.iter_mut().find(|fault| fault.operation == operation && fault.says == says) {
            Some(known) => known.count += 1,
            None => faults.push(Fault { operation: operation.into(), errno, says, count: 1 }),
        }
    };
    let words = |errno| std::io::Error::from_raw_os_error(errno).to_string();
    for end in outcome.streams.iter().filter(|end| end.errno != 0) {
        let closed = end.errno < 0;
        count(
            end.up,
            end.errno.max(0),
            if closed { "the other end closed the stream".into() } else { words(end.errno) },
        );
    }
    let there = outcome.there.iter().flat_map(|there| &there.streams);
    for (end, there) in outcome.streams.iter().zip(there) {
        if let Some(there) = there.filter(|there| there.errno > 0) {
            count(!end.up, there.errno, format!("at the other end: {}", words(there.errno)));
        }
    }
    faults
}

fn details(
    settings: &Settings,
    outcome: &Outcome,
    ways: &[Direction; 2],
    loopback: bool,
    elapsed_s: f64,
) -> Map<String, Value> {
    let mut details = Map::new();
    let mut put = |name: &str, value: Value| {
        details.insert(name.into(), value);
    };
    let received = sum(ways.iter().map(|way| way.received.bytes));
    let sent = sum(ways.iter().map(|way| way.sent.bytes));
    put("loopback", json!(loopback));
    put("sent_bytes", json!(sent));
    put("received_bytes", json!(received));
    put("sender_elapsed_s", json!(outcome.elapsed_s));
    let here_s = outcome.cpu.user_s + outcome.cpu.system_s;
    let there_s = outcome.there.as_ref().map(|there| there.cpu_s.0 + there.cpu_s.1);
    put("cpu_here_s", json!(here_s));
    put("cpu_there_s", json!(there_s.unwrap_or(0.0)));
    if received > 0 {
        let gigabytes = received as f64 / 1e9;
        put("cpu_here_s_per_gb", json!(here_s / gigabytes));
        put("cpu_there_s_per_gb", json!(there_s.unwrap_or(0.0) / gigabytes));
        put("cpu_ns_per_kib", json!((here_s + there_s.unwrap_or(0.0)) * 1e9 / (received as f64 / 1024.0)));
    }
    put(
        "server",
        json!(match &outcome.there {
            Some(there) if there.ours => "hwdyno",
            Some(_) => "iperf3",
            None => "gone",
        }),
    );
    if settings.udp {
        datagram_details(settings, ways, elapsed_s, &mut put);
    } else {
        tcp_details(settings, outcome, ways, &mut put);
    }
    put("intervals_bytes", json!(outcome.stream_rows));
    details
}

fn datagram_details(settings: &Settings, ways: &[Direction; 2], elapsed_s: f64, put: &mut impl FnMut(&str, Value)) {
    let sum = |of: &dyn Fn(&Direction) -> u64| sum(ways.iter().map(of));
    let (got, lost) = (sum(&|way| way.received.operations), sum(&|way| way.received.lost));
    let numbered = sum(&|way| way.received.highest).max(1);
    put("datagrams_sent", json!(sum(&|way| way.sent.operations)));
    put("datagrams_received", json!(got));
    put("datagrams_received_s", json!(if elapsed_s > 0.0 { got as f64 / elapsed_s } else { 0.0 }));
    put("datagrams_lost", json!(lost));
    put("loss_share", json!(lost as f64 / numbered as f64));
    put("datagrams_reordered", json!(sum(&|way| way.received.reordered)));
    put("datagrams_duplicated", json!(sum(&|way| way.received.duplicates)));
    let streams = sum(&|way| way.streams).max(1);
    put("jitter_us", json!(sum(&|way| way.jitter_ns) as f64 / streams as f64 / 1e3));
    put(
        "handing",
        json!(match settings.handing {
            Handing::Plain => "plain",
            Handing::Batched => "batched",
            Handing::Segmented => "segmented",
        }),
    );
}

fn tcp_details(settings: &Settings, outcome: &Outcome, ways: &[Direction; 2], put: &mut impl FnMut(&str, Value)) {
    let retransmits = sum(ways.iter().map(|way| way.retransmits));
    put("retransmits", json!(retransmits));
    put("congestion_control", json!(outcome.congestion));
    if let Some(there) = outcome.there.as_ref().filter(|there| !there.congestion.is_empty()) {
        put("congestion_control_there", json!(there.congestion));
    }
    put("mss_bytes", json!(outcome.mss));
    put("send_buffer_bytes", json!(outcome.buffers.0));
    put("receive_buffer_bytes", json!(outcome.buffers.1));
    put(
        "copies",
        json!(match (settings.zero_copy, settings.skip_rx_copy) {
            (false, false) => "both",
            (true, false) => "receiver's",
            (false, true) => "sender's",
            (true, true) => "none",
        }),
    );
}

/// TCP's figures at the sending ends, over all streams: means over streams, and the worst of each.
fn sender_details(senders: &[Figures], ways: &[Direction; 2], details: &mut Map<String, Value>) {
    if senders.is_empty() {
        return;
    }
    let mut put = |name: &str, value: Value| {
        details.insert(name.into(), value);
    };
    let count = senders.len() as f64;
    let mean = |of: &dyn Fn(&Figures) -> f64| senders.iter().map(of).sum::<f64>() / count;
    put("cwnd_mean_bytes", json!(mean(&|s| s.cwnd_mean_bytes)));
    put("cwnd_max_bytes", json!(senders.iter().map(|s| s.cwnd_max_bytes).max()));
    put("receive_window_bytes", json!(mean(&|s| s.receive_window_bytes as f64)));
    put("rtt_mean_us", json!(mean(&|s| s.rtt_mean_us)));
    put("rtt_max_us", json!(senders.iter().map(|s| s.rtt_max_us).max()));
    put("rtt_min_us", json!(senders.iter().map(|s| s.rtt_min_us).min()));
    put("rttvar_us", json!(mean(&|s| s.rttvar_us as f64)));
    put("pmtu_bytes", json!(senders.iter().map(|s| s.pmtu_bytes).min()));
    put("reordering_segments", json!(senders.iter().map(|s| s.reordering_segments).max()));
    // The segments' true size: what was agreed, less the options that each one carries.
    let mss = senders.iter().map(|s| s.mss_bytes).filter(|&mss| mss > 0).min().unwrap_or(0);
    if mss > 0 {
        put("mss_bytes", json!(mss));
    }
    let sent = sum(ways.iter().map(|way| way.sent.bytes));
    let retransmits = sum(ways.iter().map(|way| way.retransmits));
    let segments = sent as f64 / mss.max(1) as f64;
    put("retransmit_share", json!(if segments > 0.0 { retransmits as f64 / segments } else { 0.0 }));
    let busy = sum(senders.iter().map(|s| s.busy_us));
    let share = |us: u64| if busy > 0 { us as f64 / busy as f64 } else { 0.0 };
    put("receiver_limited_share", json!(share(sum(senders.iter().map(|s| s.receiver_limited_us)))));
    put("buffer_limited_share", json!(share(sum(senders.iter().map(|s| s.buffer_limited_us)))));
}
