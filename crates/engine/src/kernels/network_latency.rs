//! Round trips between this machine and a server: idle, or while streams fill the path.

use serde_json::json;

use crate::declare::{choice, integer, text};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Role, Stop};
use crate::network::caller::Pings;
use crate::network::client::{self, Outcome};
use crate::network::options::{common, Target};
use crate::network::outcome;
use crate::network::route;
use crate::network::settings::{Echo, Settings, MOST_STREAMS};
use crate::reading::{Fault, Note, Reading, Samples, Stream};
use crate::sys::datagrams::LARGEST_DATAGRAM;
use crate::sys::net::Options;

/// See the module.
pub struct NetworkLatency;

/// The most bytes under way at once: more would wait in our own buffers.
const MOST_UNDER_WAY: usize = 4 << 20;

impl Kernel for NetworkLatency {
    fn info(&self) -> KernelInfo {
        let mut parameters = vec![
            choice("protocol", "what carries the round trips", &["tcp", "udp"]),
            choice("exchange", "round trips over one connection, or a connection for each", &["echo", "connect"]),
            integer("message", "bytes each way", "B", (1, 64 << 10), 64).role(Role::Size),
            integer("in_flight", "round trips under way at once", "", (1, 1024), 1).role(Role::Concurrency),
            choice(
                "waiting",
                "asleep until a message comes, as most programs do, or both ends looking again for 50 µs before (spin)",
                &["sleep", "spin"],
            ),
            integer("load_streams", "TCP streams that fill the path meanwhile", "", (0, MOST_STREAMS as i64), 0)
                .role(Role::Concurrency),
            choice("direction", "where these streams go: from here, to here, or both", &["up", "down", "both"]),
            text("congestion", "TCP congestion control of these streams; empty for the system's", ""),
        ];
        parameters.extend(common());
        KernelInfo {
            parameters,
            stateful: true,
            ..KernelInfo::new(
                "network_latency",
                "round trips with a server of ours, idle or while streams fill the path",
                "round trip",
            )
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let target = Target::of(parameters)?;
        let udp = parameters.text("protocol") == "udp";
        let connect = parameters.text("exchange") == "connect";
        let (message, in_flight) = (parameters.integer("message") as usize, parameters.integer("in_flight") as usize);
        if connect && (udp || in_flight > 1) {
            return Err(Error::usage("exchange = connect: it is TCP's, one at a time; take protocol tcp, in_flight 1"));
        }
        if connect && parameters.text("waiting") == "spin" {
            return Err(Error::usage("waiting = spin: it is for exchange echo; a connection for each sleeps"));
        }
        if udp && message > LARGEST_DATAGRAM {
            return Err(Error::usage(format!(
                "message = {message}: a datagram holds at most {LARGEST_DATAGRAM} bytes"
            )));
        }
        if message * in_flight > MOST_UNDER_WAY {
            return Err(Error::usage(format!(
                "message x in_flight = {}: at most {MOST_UNDER_WAY} bytes may be under way",
                message * in_flight
            )));
        }
        let echo = Echo { udp, connect, spin: parameters.text("waiting") == "spin", message };
        let pings = Pings { echo, in_flight };
        let loading = parameters.integer("load_streams") as usize;
        let runtime_s = parameters.number("runtime");
        let quiet = Settings {
            streams: 0,
            echo: Some(echo),
            omit_s: parameters.number("ramp_time"),
            runtime_s,
            ..Settings::default()
        };
        let interval_s = parameters.number("interval_s");
        let mut idle = None;
        if loading > 0 {
            // The idle figure is taken on the same path right before, in a third of the time.
            let before = Settings { runtime_s: (runtime_s / 3.0).max(0.01), ..quiet.clone() };
            idle = Some(client::run(target.address, &before, Some(pings), interval_s, stop)?);
        }
        let direction = parameters.text("direction");
        let loaded = Settings {
            streams: loading,
            up: direction != "down",
            down: direction != "up",
            socket: Options { congestion: parameters.text("congestion").into(), ..Options::default() },
            ..quiet
        };
        let outcome = client::run(target.address, &loaded, Some(pings), interval_s, stop)?;
        let mut reading = reading_of(&loaded, &outcome, target.is_loopback());
        reading.concurrency_asked = in_flight as f64;
        route::describe(target.address.ip(), &mut reading.details);
        if let Some(trips) = idle.as_ref().and_then(|idle| idle.trips.as_ref()) {
            for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
                reading.details.insert(format!("idle_{name}_ns"), json!(trips.round_trip.quantile(quantile)));
            }
            reading.details.insert("idle_mean_ns".into(), json!(trips.round_trip.mean()));
            reading.details.insert("idle_round_trips".into(), json!(trips.round_trip.count()));
        }
        Ok(Reading { kernel: "network_latency".into(), parameters: parameters.as_json(), ..reading })
    }
}

fn reading_of(settings: &Settings, outcome: &Outcome, loopback: bool) -> Reading {
    let of_load = outcome::reading(settings, outcome, loopback);
    let mut reading = Reading { elapsed_s: outcome.elapsed_s, ..of_load };
    let load_bytes: u64 = reading.streams.iter().map(|stream| stream.bytes).sum();
    let ways: Vec<_> = reading.streams.iter().map(|stream| (stream.name.clone(), stream.bytes)).collect();
    reading.streams.clear();
    reading.samples = Samples::default();
    let Some(trips) = &outcome.trips else { return reading };
    let count = trips.round_trip.count();
    let mut stream = Stream { name: "round_trip".into(), operations: count, ..Stream::default() };
    stream.add_latency("total", &trips.round_trip);
    if trips.connect.count() > 0 {
        stream.add_latency("connect", &trips.connect);
    }
    reading.streams.push(stream);
    if let Some(error) = &trips.fault {
        let errno = error.raw_os_error().unwrap_or(0);
        let says = error.to_string();
        reading.faults.push(Fault { operation: "round_trip".into(), errno, says, count: 1 });
    }
    if settings.streams > 0 {
        reading.details.insert("load_bytes_s".into(), json!(load_bytes as f64 / outcome.elapsed_s.max(1e-9)));
        for (name, bytes) in ways {
            reading.details.insert(format!("load_{name}_bytes_s"), json!(bytes as f64 / outcome.elapsed_s.max(1e-9)));
        }
    }
    reading.details.insert("round_trips_lost".into(), json!(trips.lost));
    let says = "latency is the whole round trip (tools that print half of it show half)";
    reading.notes.push(Note { code: "round_trip".into(), says: says.into() });
    reading
}
