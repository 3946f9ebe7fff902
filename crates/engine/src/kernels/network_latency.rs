//! Round trips between this machine and a server: idle, or while streams fill the path.

use crate::contract::declare::{choice, integer, text, Group};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::{Fault, Reading, Samples, Stream};
use crate::network::caller::Pings;
use crate::network::client::{self, Outcome};
use crate::network::options::{Direction, Protocol, Target, TestParameters};
use crate::network::outcome;
use crate::network::route;
use crate::network::settings::{Echo, Settings, MAX_STREAMS};
use crate::sys::datagrams::LARGEST_DATAGRAM;
use crate::sys::net::Options;
use crate::{parameters, words};

/// The kernel `network_latency`.
pub struct NetworkLatency;

/// The most bytes under way at once: more would wait in our own buffers.
const MAX_UNDER_WAY: usize = 4 << 20;

words! {
    /// What a round trip goes over.
    pub enum Exchange {
        /// One connection for all.
        Echo = "echo",
        /// A connection for each.
        Connect = "connect",
    }
}

words! {
    /// How each end waits for the next message.
    pub enum Waiting {
        /// Asleep.
        Sleep = "sleep",
        /// Looking again and again for a while before it sleeps.
        Spin = "spin",
    }
}

parameters! {
    /// What `network_latency` takes.
    pub struct Parameters {
        protocol: Protocol = choice("protocol of the round trips"),
        exchange: Exchange = choice("one connection for all round trips, or one for each"),
        message: usize = integer("message size, each way", "B", (1, 64 << 10), 64).role(Role::Size),
        in_flight: usize = integer("round trips in flight", "", (1, 1024), 1).role(Role::Concurrency),
        waiting: Waiting = choice("sleep until a message arrives, as most programs do, or spin for 50 µs first"),
        load_streams: usize = integer("TCP streams that load the path meanwhile", "", (0, MAX_STREAMS as i64), 0)
            .role(Role::Concurrency),
        direction: Direction = choice("direction of these streams: from here, to here, or both"),
        congestion: String = text("TCP congestion control of these streams; empty for the system default", ""),
        test: TestParameters = Group,
    }
}

impl Kernel for NetworkLatency {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        stateful: true,
        ..Declaration::new(
            "network_latency",
            "round-trip latency with a hwdyno server, idle or under load",
            "round trip",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { message, in_flight, direction, load_streams, ref test, .. } = *parameters;
        let target = Target::of(test)?;
        let udp = parameters.protocol == Protocol::Udp;
        let connect = parameters.exchange == Exchange::Connect;
        let spin = parameters.waiting == Waiting::Spin;
        if connect && (udp || in_flight > 1) {
            return Err(Error::usage("exchange = connect: needs TCP, one at a time; use protocol tcp, in_flight 1"));
        }
        if connect && spin {
            return Err(Error::usage("waiting = spin: needs exchange echo"));
        }
        if udp && message > LARGEST_DATAGRAM {
            return Err(Error::usage(format!("message = {message}: a datagram has at most {LARGEST_DATAGRAM} bytes")));
        }
        if message * in_flight > MAX_UNDER_WAY {
            return Err(Error::usage(format!(
                "message x in_flight = {}: at most {MAX_UNDER_WAY} bytes may be in flight",
                message * in_flight
            )));
        }
        let echo = Echo { udp, connect, spin, message };
        let pings = Pings { echo, in_flight };
        let TestParameters { runtime: runtime_s, ramp_time: omit_s, interval_s, .. } = *test;
        let quiet = Settings { streams: 0, echo: Some(echo), omit_s, runtime_s, ..Settings::default() };
        let mut idle = None;
        if load_streams > 0 {
            // The idle figure is taken on the same path right before, in a third of the time.
            let before = Settings { runtime_s: (runtime_s / 3.0).max(0.01), ..quiet.clone() };
            idle = Some(client::run(target.address, &before, Some(pings), interval_s, stop)?);
        }
        let loaded = Settings {
            streams: load_streams,
            up: direction != Direction::Down,
            down: direction != Direction::Up,
            socket: Options { congestion: parameters.congestion.clone(), ..Options::default() },
            ..quiet
        };
        let outcome = client::run(target.address, &loaded, Some(pings), interval_s, stop)?;
        let mut reading = make_reading(&loaded, &outcome, target.is_loopback());
        reading.concurrency_requested = in_flight as f64;
        route::describe(target.address.ip(), &mut reading.details);
        if let Some(trips) = idle.as_ref().and_then(|idle| idle.trips.as_ref()) {
            for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
                reading.detail(&format!("idle_{name}_ns"), trips.round_trip.quantile(quantile));
            }
            reading.detail("idle_mean_ns", trips.round_trip.mean());
            reading.detail("idle_round_trips", trips.round_trip.count());
        }
        Ok(reading)
    }
}

fn make_reading(settings: &Settings, outcome: &Outcome, loopback: bool) -> Reading {
    let of_load = outcome::reading(settings, outcome, loopback);
    let mut reading = Reading { elapsed_s: outcome.elapsed_s, ..of_load };
    let load_bytes: u64 = reading.streams.iter().map(|stream| stream.bytes).sum();
    let ways: Vec<_> = reading.streams.iter().map(|stream| (stream.name.clone(), stream.bytes)).collect();
    reading.streams.clear();
    reading.samples = Samples::default();
    let Some(trips) = &outcome.trips else { return reading };
    let count = trips.round_trip.count();
    let mut stream = Stream::new("round_trip", count);
    stream.add_latency("total", &trips.round_trip);
    if trips.connect.count() > 0 {
        stream.add_latency("connect", &trips.connect);
    }
    reading.streams.push(stream);
    if let Some(error) = &trips.fault {
        reading.faults.push(Fault::of("round_trip", error));
    }
    if settings.streams > 0 {
        reading.detail("load_bytes_s", load_bytes as f64 / outcome.elapsed_s.max(1e-9));
        for (name, bytes) in ways {
            reading.detail(&format!("load_{name}_bytes_s"), bytes as f64 / outcome.elapsed_s.max(1e-9));
        }
    }
    reading.detail("round_trips_lost", trips.lost);
    reading.note("round_trip", "latency is the whole round trip (tools that print half of it show half)");
    reading
}
