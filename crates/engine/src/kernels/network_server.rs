//! Serves tests to `iperf3 -c` and to our own clients until it is stopped.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use crate::clock::now_ns;
use crate::declare::{flag, integer, number, text};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Stop};
use crate::network::server::{Server, Serving};
use crate::reading::{Reading, Stream};

/// See the module.
pub struct NetworkServer;

impl Kernel for NetworkServer {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            parameters: vec![
                text("bind", "the address to listen at", "127.0.0.1"),
                integer("port", "the port to listen at", "", (1, 65_535), 5201),
                number("runtime", "end after this long; 0 for when it is stopped", "s", (0.0, 1e9), 0.0),
                flag("once", "end after one test", false),
                text("log", "append each test's iperf3 document to this file", ""),
                flag(
                    "parallel_clients",
                    "serve several clients at once instead of telling them that it is busy",
                    false,
                ),
            ],
            stateful: true,
            ..KernelInfo::new(
                "network_server",
                "nothing itself: it is the other end of others' network measurements",
                "test",
            )
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let (bind, port) = (parameters.text("bind"), parameters.integer("port") as u16);
        let ip: IpAddr = bind.trim_matches(['[', ']']).parse().map_err(|_| {
            Error::usage(format!("bind = {bind}: give an address of this machine, such as 127.0.0.1 or 0.0.0.0"))
        })?;
        let serving = Serving {
            parallel_clients: parameters.flag("parallel_clients"),
            once: parameters.flag("once"),
            log: Some(parameters.text("log")).filter(|path| !path.is_empty()).map(Into::into),
            ..Serving::at(SocketAddr::new(ip, port))
        };
        let server =
            Server::start(&serving).map_err(|error| Error::machine(format!("listen at {bind} port {port}"), &error))?;
        let began = now_ns();
        let limit = (parameters.number("runtime") * 1e9) as u64;
        while !stop.is_set() && !server.is_over() && (limit == 0 || now_ns() - began < limit) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let done = server.served();
        let tests = done.tests.load(Ordering::Relaxed);
        let bytes = done.bytes.load(Ordering::Relaxed);
        let mut reading = Reading {
            kernel: "network_server".into(),
            parameters: parameters.as_json(),
            elapsed_s: (now_ns() - began) as f64 / 1e9,
            streams: vec![Stream { name: "served".into(), operations: tests, bytes, ..Stream::default() }],
            ..Reading::default()
        };
        reading.details.insert("tests".into(), json!(tests));
        reading.details.insert("tests_failed".into(), json!(done.failed.load(Ordering::Relaxed)));
        reading.details.insert("clients_refused".into(), json!(done.refused.load(Ordering::Relaxed)));
        if let Some(says) = done.last_failure() {
            reading.details.insert("last_failure".into(), json!(says));
        }
        Ok(reading)
    }
}
