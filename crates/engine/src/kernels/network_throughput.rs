//! TCP or UDP streams between this machine and a server, by number, block, direction and rate.

use serde_json::json;

use crate::contract::declare::{choice, flag, integer, text, Group};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::Reading;
use crate::network::options::{Direction, Protocol, Target, TestParameters};
use crate::network::settings::{Handing, Settings, HEADER_BYTES, LARGEST_BLOCK, MAX_STREAMS};
use crate::network::{client, outcome, route};
use crate::parameters;
use crate::sys::datagrams::LARGEST_DATAGRAM;
use crate::sys::net::Options;

/// The kernel `network_throughput`.
pub struct NetworkThroughput;

/// Enough to tell the rate within 3%.
const SEARCH_STEPS: usize = 7;
/// What a UDP stream sends where no block is given: fits an Ethernet frame, as iperf3's.
const DATAGRAM_BYTES: usize = 1460;

parameters! {
    /// What `network_throughput` takes.
    pub struct Parameters {
        protocol: Protocol = choice("protocol of the streams"),
        streams: usize = integer("streams per direction", "", (1, MAX_STREAMS as i64), 1).role(Role::Concurrency),
        block: usize = integer("bytes per call, or per datagram with UDP; 0 for 128 KiB, or 1460 B with \
            UDP", "B", (0, LARGEST_BLOCK as i64), 0).role(Role::Size),
        direction: Direction = choice("from here (up), to here (down), or both at once"),
        rate: u64 = integer("rate of each stream; 0 for unlimited", "bit/s", (0, 1 << 50), 0).role(Role::Rate),
        burst: usize = integer("blocks sent in a burst within the rate; 0 for one", "", (0, 1000), 0),
        window: usize = integer("socket buffers at both ends; 0 for the system default", "B", (0, 512 << 20), 0),
        congestion: String = text("TCP congestion control; empty for the system default", ""),
        nodelay: bool = flag("send small blocks immediately (TCP_NODELAY)", false),
        mss: usize = integer("TCP maximum segment size; 0 for the system default", "B", (0, 65_535), 0),
        zero_copy: bool = flag("the sender copies nothing (splice or sendfile)", false),
        skip_rx_copy: bool = flag("the receiver copies nothing (MSG_TRUNC; only TCP)", false),
        handing: Handing = choice("datagrams: many per call, one per call, or split by the kernel (UDP_SEGMENT, \
            UDP_GRO)"),
        search: bool = flag("UDP: find the highest rate without loss, then measure at it", false),
        bytes: u64 = integer("end after this many bytes instead of runtime; 0 for runtime (iperf3's \
            -n)", "B", (0, 1 << 60), 0),
        blocks: u64 = integer("end after this many blocks instead of runtime; 0 for runtime (iperf3's \
            -k)", "", (0, 1 << 60), 0),
        test: TestParameters = Group,
    }
}

impl Kernel for NetworkThroughput {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("operations", "1"), ("bytes", "block")],
        stateful: true,
        ..Declaration::new(
            "network_throughput",
            "TCP or UDP throughput to, from, or both ways with a hwdyno or iperf3 server",
            "block",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let target = Target::of(&parameters.test)?;
        let mut settings = make_settings(parameters)?;
        let probes = if parameters.search && settings.udp { search(&target, &mut settings, stop)? } else { Vec::new() };
        let outcome = client::run(target.address, &settings, None, parameters.test.interval_s, stop)?;
        let mut reading = outcome::reading(&settings, &outcome, target.is_loopback());
        route::describe(target.address.ip(), &mut reading.details);
        if !probes.is_empty() {
            reading.detail("rate_found_bits_s", settings.rate_bits_s);
            reading.detail("probes", json!(probes));
        }
        Ok(reading)
    }
}

/// Sets the highest rate of a stream at which nothing is lost: half-way between what was lost at and what was not,
/// from the rate that arrives when nothing holds the sender back. Gives each probe's rate and share of loss.
fn search(target: &Target, settings: &mut Settings, stop: &Stop) -> Result<Vec<(u64, f64)>, Error> {
    let whole = settings.runtime_s;
    let mut probes = Vec::with_capacity(SEARCH_STEPS + 1);
    let probe = |rate_bits_s: u64, probes: &mut Vec<(u64, f64)>| -> Result<(f64, f64), Error> {
        let runtime_s = (whole / 4.0).clamp(0.1, 1.0);
        let short = Settings { rate_bits_s, runtime_s, ..settings.clone() };
        let outcome = client::run(target.address, &short, None, runtime_s, stop)?;
        let reading = outcome::reading(&short, &outcome, false);
        let loss = reading.details.get("loss_share").and_then(serde_json::Value::as_f64).unwrap_or(1.0);
        let bytes: u64 = reading.streams.iter().map(|stream| stream.bytes).sum();
        // A probe from which nothing came back has lost all.
        let loss = if bytes == 0 { 1.0 } else { loss };
        probes.push((rate_bits_s, loss));
        Ok((bytes as f64 * 8.0 / reading.elapsed_s.max(1e-9) / short.total().max(1) as f64, loss))
    };
    let (arrives, loss) = probe(0, &mut probes)?;
    let (mut good, mut bad) = (if loss > 0.0 { 0.0 } else { arrives }, arrives * 1.05);
    for _ in 0..SEARCH_STEPS {
        if stop.is_set() || bad - good < 0.03 * bad {
            break;
        }
        let middle = if good > 0.0 { f64::midpoint(good, bad) } else { bad * 0.7 };
        let (reached, loss) = probe((middle as u64).max(1000), &mut probes)?;
        if loss > 0.0 {
            bad = middle;
        } else {
            // A sender that cannot keep the rate has found its own limit.
            good = middle.min(reached * 1.02);
        }
    }
    settings.rate_bits_s = (if good > 0.0 { good } else { bad * 0.5 } as u64).max(1000);
    Ok(probes)
}

/// The test that these parameters ask for.
pub fn make_settings(parameters: &Parameters) -> Result<Settings, Error> {
    let udp = parameters.protocol == Protocol::Udp;
    let block = match parameters.block {
        0 if udp => DATAGRAM_BYTES,
        0 => 128 << 10,
        block => block,
    };
    if udp && !(HEADER_BYTES..=LARGEST_DATAGRAM).contains(&block) {
        return Err(Error::usage(format!(
            "block = {block}: a datagram has {HEADER_BYTES} to {LARGEST_DATAGRAM} bytes; use --block 1460"
        )));
    }
    let Parameters { direction, handing, .. } = *parameters;
    Ok(Settings {
        udp,
        streams: parameters.streams,
        up: direction != Direction::Down,
        down: direction != Direction::Up,
        block,
        rate_bits_s: parameters.rate,
        burst: parameters.burst,
        socket: Options {
            window: parameters.window,
            congestion: if udp { String::new() } else { parameters.congestion.clone() },
            nodelay: parameters.nodelay,
            mss: parameters.mss,
            tos: 0,
        },
        zero_copy: parameters.zero_copy && !udp,
        skip_rx_copy: parameters.skip_rx_copy && !udp,
        handing,
        runtime_s: parameters.test.runtime,
        omit_s: parameters.test.ramp_time,
        bytes: parameters.bytes,
        blocks: parameters.blocks,
        ..Settings::default()
    })
}
