//! Serves a store in memory until it is stopped: what a client costs without a store behind it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::contract::declare::{integer, number, text};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream};
use crate::object::null_server::NullServer;
use crate::parameters;
use crate::timing::clock::now_ns;

/// The kernel `object_server`.
pub struct ObjectServer;

parameters! {
    /// What `object_server` takes.
    pub struct Parameters {
        bind: String = text("address to listen on", "127.0.0.1"),
        port: u16 = integer("port to listen on", "", (1, 65_535), 9000),
        every_key: Option<usize> = integer("bytes of the object at each key that was not written; negative where there \
            is none", "B", (-1, 1 << 40), -1),
        runtime: f64 = number("end after this time; 0 for no limit", "s", (0.0, 1e9), 0.0),
    }
}

impl Kernel for ObjectServer {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        stateful: true,
        ..Declaration::new("object_server", "a store in memory for object requests; measures nothing itself", "request")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let (bind, port) = (&parameters.bind, parameters.port);
        let ip: IpAddr = bind.trim_matches(['[', ']']).parse().map_err(|_| {
            Error::usage(format!("bind = {bind}: use an address of this machine, such as 127.0.0.1 or 0.0.0.0"))
        })?;
        let server = NullServer::start(SocketAddr::new(ip, port), parameters.every_key.map(|bytes| bytes as u64))
            .map_err(|error| Error::machine(format!("listen on {bind} port {port}"), &error))?;
        let began = now_ns();
        let limit = (parameters.runtime * 1e9) as u64;
        while !stop.is_set() && (limit == 0 || now_ns() - began < limit) {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Reading {
            elapsed_s: (now_ns() - began) as f64 / 1e9,
            streams: vec![Stream::new("served", server.requests())],
            ..Reading::default()
        })
    }
}
