//! ICMP echo to any host, where this system permits it: round trips between kernels, with no server of ours.

use std::io::ErrorKind;

use serde_json::json;

use crate::declare::{integer, interval_s, number, text};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Role, Stop};
use crate::network::ping::{self, Pinging};
use crate::network::reach::resolve;
use crate::network::route;
use crate::reading::{Fault, Note, Reading, Samples, Stream};

/// See the module.
pub struct NetworkPing;

/// As `ping` has it: 64 B with the header of ICMP.
const PAYLOAD_BYTES: i64 = 56;
/// The largest that IPv4 can carry: 65535 B less 20 of IP and 8 of ICMP.
const MOST_PAYLOAD: i64 = 65_507;

impl Kernel for NetworkPing {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            parameters: vec![
                text("server", "whom to ping, by name or address; empty for 127.0.0.1", ""),
                integer("message", "payload each way, as ping's -s", "B", (0, MOST_PAYLOAD), PAYLOAD_BYTES)
                    .role(Role::Size),
                integer("in_flight", "echoes under way at once", "", (1, 1024), 1).role(Role::Concurrency),
                number(
                    "rate",
                    "echoes asked for a second; 0 for the next as soon as one is back",
                    "1/s",
                    (0.0, 1e7),
                    0.0,
                )
                .role(Role::Rate),
                number("runtime", "length of the timed region", "s", (0.01, 86_400.0), 1.0),
                number("ramp_time", "run this long before anything is counted", "s", (0.0, 3600.0), 0.0),
                interval_s(),
            ],
            stateful: true,
            ..KernelInfo::new(
                "network_ping",
                "ICMP echo round trips with any host, where this system permits them",
                "round trip",
            )
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let server = parameters.text("server");
        let address = resolve(if server.is_empty() { "127.0.0.1" } else { server }, 9)?.ip();
        let pinging = Pinging {
            message: parameters.integer("message") as usize,
            in_flight: parameters.integer("in_flight") as usize,
            rate: parameters.number("rate"),
            runtime_s: parameters.number("runtime"),
            omit_s: parameters.number("ramp_time"),
        };
        let interval_s = parameters.number("interval_s");
        let echoes = ping::run(address, &pinging, interval_s, stop).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => Error::Machine(
                "ping is not permitted here: run as root, or allow this group: \
                 sysctl net.ipv4.ping_group_range=\"0 2147483647\""
                    .into(),
                error.raw_os_error(),
            ),
            _ => Error::machine(format!("ping {address}"), &error),
        })?;
        let count = echoes.round_trip.count();
        let mut stream = Stream { name: "round_trip".into(), operations: count, ..Stream::default() };
        stream.add_latency("total", &echoes.round_trip);
        let mut reading = Reading {
            kernel: "network_ping".into(),
            parameters: parameters.as_json(),
            elapsed_s: echoes.elapsed_s,
            streams: vec![stream],
            samples: Samples { interval_s, bytes: vec![vec![0; echoes.rows.len()]], operations: vec![echoes.rows] },
            cpu: echoes.cpu,
            concurrency_asked: pinging.in_flight as f64,
            interrupted: echoes.interrupted,
            ..Reading::default()
        };
        if let Some(error) = &echoes.fault {
            let errno = error.raw_os_error().unwrap_or(0);
            reading.faults.push(Fault { operation: "ping".into(), errno, says: error.to_string(), count: 1 });
        }
        for (name, value) in [
            ("echoes_sent", json!(echoes.sent)),
            ("echoes_lost", json!(echoes.lost)),
            ("loss_share", json!(echoes.lost as f64 / echoes.sent.max(1) as f64)),
            ("socket", json!(if echoes.raw { "raw" } else { "datagram" })),
            ("family", json!(if address.is_ipv4() { "IPv4" } else { "IPv6" })),
            ("loopback", json!(route::stays_here(address))),
        ] {
            reading.details.insert(name.into(), value);
        }
        route::describe(address, &mut reading.details);
        let says = "latency is the whole round trip between the two kernels";
        reading.notes.push(Note { code: "round_trip".into(), says: says.into() });
        Ok(reading)
    }
}
