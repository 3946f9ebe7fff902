//! Serves tests to `iperf3 -c` and to our own clients until it is stopped.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::contract::declare::{flag, number, text};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream};
use crate::network::options::PORT;
use crate::network::server::{Server, Serving};
use crate::parameters;
use crate::timing::clock::now_ns;

/// The kernel `network_server`.
pub struct NetworkServer;

parameters! {
    /// What `network_server` takes.
    pub struct Parameters {
        bind: String = text("address to listen on", "127.0.0.1"),
        port: u16 = PORT.means("port to listen on"),
        runtime: f64 = number("end after this time; 0 for no limit", "s", (0.0, 1e9), 0.0),
        once: bool = flag("end after one test", false),
        log: Option<PathBuf> = text("append each test's iperf3 document to this file", ""),
        parallel_clients: bool = flag("serve several clients at once instead of refusing while busy", false),
    }
}

impl Kernel for NetworkServer {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        stateful: true,
        ..Declaration::new("network_server", "the server end of network measurements; measures nothing itself", "test")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let (bind, port) = (&parameters.bind, parameters.port);
        let ip: IpAddr = bind.trim_matches(['[', ']']).parse().map_err(|_| {
            Error::usage(format!("bind = {bind}: use an address of this machine, such as 127.0.0.1 or 0.0.0.0"))
        })?;
        let serving = Serving {
            parallel_clients: parameters.parallel_clients,
            once: parameters.once,
            log: parameters.log.clone(),
            ..Serving::at(SocketAddr::new(ip, port))
        };
        let server =
            Server::start(&serving).map_err(|error| Error::machine(format!("listen on {bind} port {port}"), &error))?;
        let began = now_ns();
        let limit = (parameters.runtime * 1e9) as u64;
        while !stop.is_set() && !server.is_over() && (limit == 0 || now_ns() - began < limit) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let done = server.served();
        let tests = done.tests.load(Ordering::Relaxed);
        let bytes = done.bytes.load(Ordering::Relaxed);
        let mut reading = Reading {
            elapsed_s: (now_ns() - began) as f64 / 1e9,
            streams: vec![Stream { name: "served".into(), operations: tests, bytes, ..Stream::default() }],
            ..Reading::default()
        };
        reading.detail("tests", tests);
        reading.detail("tests_failed", done.failed.load(Ordering::Relaxed));
        reading.detail("clients_refused", done.refused.load(Ordering::Relaxed));
        if let Some(says) = done.last_failure() {
            reading.detail("last_failure", says);
        }
        Ok(reading)
    }
}
