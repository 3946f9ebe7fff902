//! What the network kernels take alike, and how a target is found or made.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::{json, Value};

use crate::kernel::{Error, Kind, Parameter, Parameters};
use crate::network::reach;
use crate::network::route;
use crate::network::server::{Server, Serving};

/// One parameter.
#[must_use]
pub fn parameter(name: &'static str, means: &'static str, unit: &'static str, kind: Kind, default: Value) -> Parameter {
    Parameter { name, means, unit, kind, default }
}

/// One of some words, the first by default.
#[must_use]
pub fn choice(name: &'static str, means: &'static str, choices: &[&'static str]) -> Parameter {
    parameter(name, means, "", Kind::Choice { choices: choices.to_vec() }, json!(choices[0]))
}

/// A whole number.
#[must_use]
pub fn count(
    name: &'static str,
    means: &'static str,
    unit: &'static str,
    bounds: (i64, i64),
    default: i64,
) -> Parameter {
    parameter(name, means, unit, Kind::Integer { min: bounds.0, max: bounds.1 }, json!(default))
}

/// Yes or no, no by default.
#[must_use]
pub fn flag(name: &'static str, means: &'static str) -> Parameter {
    parameter(name, means, "", Kind::Flag, json!(false))
}

/// Times that every measurement has, and where its server is.
#[must_use]
pub fn common() -> Vec<Parameter> {
    vec![
        parameter("server", "the other end; empty for a server of our own over loopback", "", Kind::Text, json!("")),
        count("port", "the server's port", "", (1, 65_535), 5201),
        parameter("runtime", "length of the timed region", "s", Kind::Number { min: 0.01, max: 86_400.0 }, json!(1.0)),
        parameter(
            "ramp_time",
            "run this long before anything is counted (iperf3's -O)",
            "s",
            Kind::Number { min: 0.0, max: 3600.0 },
            json!(0.0),
        ),
        parameter(
            "interval_s",
            "length of a sampling interval",
            "s",
            Kind::Number { min: 0.001, max: 3600.0 },
            json!(0.1),
        ),
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
