//! The server's end of the round trips: it sends back what one client sends, over TCP, UDP, or a connection for each.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::contract::reading::CpuTime;
use crate::network::lane::{Meter, Phase};
use crate::network::settings::Echo;
use crate::network::waiting::{passing, Rest, LOOK};
use crate::network::wire::HELLO;
use crate::sys::datagrams::LARGEST_DATAGRAM;
use crate::sys::net::{self, Options};

/// A server holds at most this many echo connections of a test.
const MAX_CONNECTIONS: usize = 64;

/// The server's end of the echo: bound next to the test's port, for one client's address alone.
pub enum Responder {
    /// TCP.
    Tcp(TcpListener),
    /// UDP, once the client's hello has been answered.
    Udp(UdpSocket),
}

impl Responder {
    /// Binds a port of the system's choice on the address that the client reached us by.
    pub fn bind(echo: &Echo, local: IpAddr) -> io::Result<(Self, u16)> {
        let any_port = SocketAddr::new(local, 0);
        if echo.udp {
            let socket = net::udp_socket(&any_port, &Options::default())?;
            let port = socket.local_addr()?.port();
            Ok((Self::Udp(socket), port))
        } else {
            let listener = TcpListener::bind(any_port)?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            Ok((Self::Tcp(listener), port))
        }
    }

    /// Answers until the phase is done; only `client` is answered.
    pub fn serve(&self, echo: &Echo, client: IpAddr, phase: &Phase) -> CpuTime {
        match self {
            Self::Udp(socket) => answer_datagrams(socket, echo, client, phase),
            Self::Tcp(listener) => answer_connections(listener, echo, client, phase),
        }
    }
}

fn answer_datagrams(socket: &UdpSocket, echo: &Echo, client: IpAddr, phase: &Phase) -> CpuTime {
    let meter = Meter::start();
    let mut buffer = vec![0; LARGEST_DATAGRAM];
    let _ = socket.set_read_timeout(Some(LOOK));
    let mut connected = false;
    let mut rest = Rest::new(echo.spin);
    while !phase.is_done() {
        if connected {
            match socket.recv(&mut buffer) {
                Ok(length) => {
                    rest.came();
                    let _ = net::send(socket, &buffer[..length]);
                }
                Err(_) => drop(rest.missed(socket)),
            }
        } else if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            if from.ip().to_canonical() == client && length == HELLO.len() && buffer.starts_with(HELLO) {
                connected = socket.connect(from).is_ok();
                let _ = net::send(socket, HELLO);
                let _ = socket.set_nonblocking(echo.spin);
            }
        }
    }
    meter.spent()
}

fn answer_connections(listener: &TcpListener, echo: &Echo, client: IpAddr, phase: &Phase) -> CpuTime {
    let spent_us = AtomicU64::new(0);
    let meter = Meter::start();
    std::thread::scope(|scope| {
        let mut open: Vec<Arc<TcpStream>> = Vec::new();
        while !phase.is_done() {
            if !net::wait(listener, false, LOOK).unwrap_or(false) {
                continue;
            }
            let Ok((stream, from)) = listener.accept() else { continue };
            if from.ip().to_canonical() != client || stream.set_nodelay(true).is_err() {
                continue;
            }
            if echo.connect {
                // One after the other on this thread: the rate of connections is what is measured.
                let mut buffer = vec![0; echo.message];
                let _ = stream.set_nonblocking(false);
                let _ = stream.set_read_timeout(Some(LOOK));
                let _ = (&stream).read_exact(&mut buffer).and_then(|()| (&stream).write_all(&buffer));
                continue;
            }
            if open.len() >= MAX_CONNECTIONS {
                continue;
            }
            let (spent, stream) = (&spent_us, Arc::new(stream));
            open.push(Arc::clone(&stream));
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                let cpu = answer_one(&stream, echo.spin, phase);
                spent.fetch_add(((cpu.user_s + cpu.system_s) * 1e6) as u64, Ordering::Relaxed);
            });
            drop(thread);
        }
        // They wait without a limit, because a timer for each message is work that would be measured along.
        for stream in open {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    let mut cpu = meter.spent();
    cpu.system_s += spent_us.load(Ordering::Relaxed) as f64 / 1e6;
    cpu
}

fn answer_one(stream: &TcpStream, spin: bool, phase: &Phase) -> CpuTime {
    let meter = Meter::start();
    let mut buffer = vec![0; 64 << 10];
    let mut rest = Rest::new(spin);
    let _ = stream.set_nonblocking(spin);
    let _ = stream.set_write_timeout(Some(LOOK));
    let mut ends = stream;
    while !phase.is_done() {
        match ends.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                rest.came();
                let mut from = 0;
                while from < length && !phase.is_done() {
                    match ends.write(&buffer[from..length]) {
                        Ok(sent) => from += sent,
                        Err(error) if passing(&error) => {}
                        Err(_) => return meter.spent(),
                    }
                }
            }
            Err(error) if passing(&error) => drop(rest.missed(stream)),
            Err(_) => break,
        }
    }
    meter.spent()
}
