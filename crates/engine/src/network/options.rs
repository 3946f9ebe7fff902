//! What the network kernels take alike, and how a target is found or made.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::declare::{integer, interval_s, number, text};
use crate::kernel::{Error, Parameter, Parameters};
use crate::network::reach;
use crate::network::route;
use crate::network::server::{Server, Serving};

/// Times that every measurement has, and where its server is.
#[must_use]
pub fn common() -> Vec<Parameter> {
    vec![
        text("server", "the other end; empty for a server of our own over loopback", ""),
        integer("port", "the server's port", "", (1, 65_535), 5201),
        number("runtime", "length of the timed region", "s", (0.01, 86_400.0), 1.0),
        number("ramp_time", "run this long before anything is counted (iperf3's -O)", "s", (0.0, 3600.0), 0.0),
        interval_s(),
    ]
}

/// The other end: a server somewhere, or one of our own that lives as long as this.
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    /// Ours.
    _own: Option<Server>,
}

impl Target {
    /// Finds the server that was asked for, or makes one.
    pub fn of(parameters: &Parameters) -> Result<Self, Error> {
        let server = parameters.text("server");
        if !server.is_empty() {
            let address = reach::resolve(server, parameters.integer("port") as u16)?;
            return Ok(Self { address, _own: None });
        }
        let bind = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let own = Server::start(&Serving { parallel_clients: true, ..Serving::at(bind) })
            .map_err(|error| Error::machine("start a server on loopback", &error))?;
        Ok(Self { address: own.address(), _own: Some(own) })
    }

    /// Whether no wire is on the way.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        route::stays_here(self.address.ip())
    }
}
