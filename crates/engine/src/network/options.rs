//! What the network kernels take alike, and how a target is found or made.

use std::net::SocketAddr;

use crate::contract::declare::{integer, number, text, Integer, Number, INTERVAL_S, RUNTIME};
use crate::contract::kernel::Error;
use crate::network::reach;
use crate::network::route;
use crate::network::server::{Server, Serving};
use crate::{parameters, words};

words! {
    /// What carries streams and round trips.
    pub enum Protocol {
        /// A stream of bytes.
        Tcp = "tcp",
        /// Datagrams.
        Udp = "udp",
    }
}

words! {
    /// Where streams go.
    pub enum Direction {
        /// This machine sends.
        Up = "up",
        /// This machine receives.
        Down = "down",
        /// Both at once.
        Both = "both",
    }
}

parameters! {
    /// Times that every measurement has, and where its server is.
    pub struct TestParameters {
        server: String = text("address of the server; empty for one over loopback", ""),
        port: u16 = PORT,
        runtime: f64 = RUNTIME.within(0.01, 86_400.0),
        ramp_time: f64 = RAMP_TIME.means("warm-up time before counting (iperf3's -O)"),
        interval_s: f64 = INTERVAL_S,
    }
}

/// Where a server listens; iperf3's port by default.
pub const PORT: Integer = integer("port of the server", "", (1, 65_535), 5201);
/// What is run before anything is counted.
pub const RAMP_TIME: Number = number("warm-up time before counting", "s", (0.0, 3600.0), 0.0);

/// The other end: a server somewhere, or a local one that lives as long as this.
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    /// Keeps the local one running.
    _local_server: Option<Server>,
}

impl Target {
    /// Finds the server that is named, or makes one.
    pub fn of(test: &TestParameters) -> Result<Self, Error> {
        if !test.server.is_empty() {
            let address = reach::resolve(&test.server, test.port)?;
            return Ok(Self { address, _local_server: None });
        }
        let bind = SocketAddr::new(reach::loopback(), 0);
        let server = Server::start(&Serving { parallel_clients: true, ..Serving::at(bind) })
            .map_err(|error| Error::machine("start a server on loopback", &error))?;
        Ok(Self { address: server.address(), _local_server: Some(server) })
    }

    /// Whether no wire is on the way.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        route::stays_here(self.address.ip())
    }
}
