//! One stream of a test at either end: what carries it, and the loop that each way has.

use std::net::{TcpStream, UdpSocket};

use crate::contract::reading::CpuTime;
use crate::network::datagrams;
use crate::network::lane::{Lane, Phase};
use crate::network::settings::Settings;
use crate::network::streams;
use crate::sys::tcp_info::{self, TcpInfo};

/// What carries a stream.
pub enum Carrier {
    /// A connection.
    Tcp(TcpStream),
    /// A socket that is connected to the other end's.
    Udp(UdpSocket),
}

impl Carrier {
    /// Sends or receives until the test ends; gives the CPU time that it took.
    pub fn flow(&self, sends: bool, settings: &Settings, lane: &Lane, phase: &Phase) -> CpuTime {
        match (self, sends) {
            (Self::Tcp(stream), true) => streams::send(stream, settings, lane, phase),
            (Self::Tcp(stream), false) => streams::receive(stream, settings, lane, phase),
            (Self::Udp(socket), true) => datagrams::send(socket, settings, lane, phase),
            (Self::Udp(socket), false) => datagrams::receive(socket, settings, lane, phase),
        }
    }

    /// What the kernel says of a connection; none of a datagram's socket.
    #[must_use]
    pub fn info(&self) -> Option<TcpInfo> {
        match self {
            Self::Tcp(stream) => tcp_info::of(stream),
            Self::Udp(_) => None,
        }
    }
}
