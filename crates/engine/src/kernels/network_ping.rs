//! ICMP echo to any host, where this system permits it: round trips between kernels, with no server of ours.

use std::io::ErrorKind;

use crate::contract::declare::{integer, number, text, INTERVAL_S, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::{Fault, Reading, Samples, Stream};
use crate::network::options::RAMP_TIME;
use crate::network::ping::{self, Pinging};
use crate::network::reach::{loopback, resolve};
use crate::network::route;
use crate::parameters;

/// The kernel `network_ping`.
pub struct NetworkPing;

/// Default payload of `ping`: 64 B with the header of ICMP.
const PAYLOAD_BYTES: i64 = 56;
/// The largest that IPv4 can carry: 65535 B less 20 of IP and 8 of ICMP.
const MAX_PAYLOAD: i64 = 65_507;

parameters! {
    /// What `network_ping` takes.
    pub struct Parameters {
        server: String = text("host to ping, by name or address; empty for this machine", ""),
        message: usize = integer("payload each way, as ping's \
            -s", "B", (0, MAX_PAYLOAD), PAYLOAD_BYTES).role(Role::Size),
        in_flight: usize = integer("echoes in flight", "", (1, 1024), 1).role(Role::Concurrency),
        rate: f64 = number("echoes per second; 0 sends the next when one \
            returns", "1/s", (0.0, 1e7), 0.0).role(Role::Rate),
        runtime: f64 = RUNTIME.within(0.01, 86_400.0),
        ramp_time: f64 = RAMP_TIME,
        interval_s: f64 = INTERVAL_S,
    }
}

impl Kernel for NetworkPing {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        stateful: true,
        ..Declaration::new(
            "network_ping",
            "ICMP echo round trips with any host, if this system permits it",
            "round trip",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let server = parameters.server.as_str();
        let address = if server.is_empty() { loopback() } else { resolve(server, 9)?.ip() };
        let pinging = Pinging {
            message: parameters.message,
            in_flight: parameters.in_flight,
            rate: parameters.rate,
            runtime_s: parameters.runtime,
            omit_s: parameters.ramp_time,
        };
        let interval_s = parameters.interval_s;
        let echoes = ping::run(address, &pinging, interval_s, stop).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => Error::Machine(
                "ping is not permitted here; run as root, or allow this group: \
                 sysctl net.ipv4.ping_group_range=\"0 2147483647\""
                    .into(),
                error.raw_os_error(),
            ),
            _ => Error::machine(format!("ping {address}"), &error),
        })?;
        let count = echoes.round_trip.count();
        let mut stream = Stream::new("round_trip", count);
        stream.add_latency("total", &echoes.round_trip);
        let mut reading = Reading {
            elapsed_s: echoes.elapsed_s,
            streams: vec![stream],
            samples: Samples { interval_s, bytes: vec![vec![0; echoes.rows.len()]], operations: vec![echoes.rows] },
            cpu: echoes.cpu,
            concurrency_requested: pinging.in_flight as f64,
            interrupted: echoes.interrupted,
            ..Reading::default()
        };
        reading.faults.extend(echoes.fault.as_ref().map(|error| Fault::of("ping", error)));
        reading.detail("echoes_sent", echoes.sent);
        reading.detail("echoes_lost", echoes.lost);
        reading.detail("loss_share", echoes.lost as f64 / echoes.sent.max(1) as f64);
        reading.detail("socket", if echoes.raw { "raw" } else { "datagram" });
        reading.detail("family", if address.is_ipv4() { "IPv4" } else { "IPv6" });
        reading.detail("loopback", route::stays_here(address));
        route::describe(address, &mut reading.details);
        reading.note("round_trip", "latency is the whole round trip between the two kernels");
        Ok(reading)
    }
}
