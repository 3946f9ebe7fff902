//! The client's end of the round trips: it times each, one after the other or several under way.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::contract::reading::CpuTime;
use crate::network::lane::{Meter, Phase};
use crate::network::settings::Echo;
use crate::network::waiting::{passing, Rest, LOOK};
use crate::network::wire::HELLO;
use crate::sys::net::{self, Options};
use crate::timing::clock::Clock;
use crate::timing::histogram::Histogram;

/// A datagram that is not back after this is counted as lost.
const LOST_NS: u64 = 250_000_000;

/// What a client found.
#[derive(Default)]
pub struct Trips {
    /// Round trips, ns.
    pub round_trip: Histogram,
    /// Time until a connection was established, one for each round trip, ns.
    pub connect: Histogram,
    /// Datagrams that never came back.
    pub lost: u64,
    /// What ended it early.
    pub fault: Option<io::Error>,
    /// CPU time of the thread.
    pub cpu: CpuTime,
}

/// Where a client's round trips go, and how many at once.
#[derive(Debug, Clone, Copy)]
pub struct Pings {
    /// What one is.
    pub echo: Echo,
    /// How many are under way at once.
    pub in_flight: usize,
}

/// The client's end, opened before the timed region.
pub enum Caller {
    /// TCP.
    Tcp(TcpStream),
    /// UDP.
    Udp(UdpSocket),
    /// A connection for each round trip, to this address.
    Connect(SocketAddr),
}

impl Caller {
    /// Opens it; `address` is where the server reported its echo.
    pub fn open(echo: &Echo, address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        if echo.connect {
            return Ok(Self::Connect(address));
        }
        if !echo.udp {
            let stream = net::connect(&address, &Options { nodelay: true, ..Options::default() }, timeout)?;
            return Ok(Self::Tcp(stream));
        }
        let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = net::udp_socket(&any, &Options::default())?;
        socket.connect(address)?;
        send_hello(&socket, timeout)?;
        Ok(Self::Udp(socket))
    }

    /// Ends a wait for an answer that does not come.
    pub fn hang_up(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Calls until the phase is done; who sets that has to [`hang_up`](Self::hang_up) as well.
    pub fn call(&self, pings: &Pings, phase: &Phase) -> Trips {
        let mut trips = Trips::default();
        let mut meter = Meter::start();
        if !phase.wait_for_start() {
            return trips;
        }
        let done = match self {
            Self::Tcp(stream) if pings.in_flight > 1 => pipeline(stream, pings, phase, &mut trips, &mut meter),
            Self::Tcp(stream) => ping(stream, pings, phase, &mut trips, &mut meter),
            Self::Udp(socket) => ping_datagrams(socket, pings, phase, &mut trips, &mut meter),
            Self::Connect(address) => connect_each(*address, pings, phase, &mut trips, &mut meter),
        };
        // At the end of the test the other end closes, and that is no fault.
        trips.fault = done.err().filter(|_| !phase.is_done());
        trips.cpu = meter.spent();
        trips
    }
}

/// Says hello by UDP until it is answered.
pub fn send_hello(socket: &UdpSocket, timeout: Duration) -> io::Result<()> {
    let clock = Clock::system();
    let until = clock.now() + timeout.as_nanos() as u64;
    socket.set_read_timeout(Some(Duration::from_millis(250)))?;
    let mut answer = [0; 64];
    while clock.now() < until {
        match net::send(socket, HELLO).and_then(|_| socket.recv(&mut answer)) {
            Ok(_) => return Ok(()),
            Err(error) if passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ETIMEDOUT))
}

/// Forgets what came before the timed region.
fn look(round: &mut u8, meter: &mut Meter, phase: &Phase, trips: &mut Trips) {
    let now = phase.round();
    if now != *round {
        *round = now;
        meter.look(phase);
        trips.round_trip.clear();
        trips.connect.clear();
        trips.lost = 0;
    }
}

fn ping(stream: &TcpStream, pings: &Pings, phase: &Phase, trips: &mut Trips, meter: &mut Meter) -> io::Result<()> {
    let clock = Clock::best();
    stream.set_write_timeout(Some(LOOK))?;
    stream.set_nonblocking(pings.echo.spin)?;
    let mut buffer = vec![0x5A; pings.echo.message];
    let mut ends = stream;
    let mut round = 0;
    let mut rest = Rest::new(pings.echo.spin);
    while !phase.is_done() {
        look(&mut round, meter, phase, trips);
        let from = clock.now();
        let (mut sent, mut came) = (0, 0);
        while came < buffer.len() {
            let step = if sent < buffer.len() {
                ends.write(&buffer[sent..]).map(|count| sent += count)
            } else {
                ends.read(&mut buffer[came..]).and_then(|count| {
                    if count == 0 {
                        Err(gone())
                    } else {
                        came += count;
                        Ok(())
                    }
                })
            };
            match step {
                Err(error) if !passing(&error) => return Err(error),
                Err(_) if phase.is_done() => return Ok(()),
                Err(_) => drop(rest.missed(stream)),
                Ok(()) => rest.came(),
            }
        }
        trips.round_trip.record(clock.now() - from);
    }
    Ok(())
}

fn gone() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the other end closed the echo connection")
}

/// Several messages under way on one connection; they come back in order.
fn pipeline(stream: &TcpStream, pings: &Pings, phase: &Phase, trips: &mut Trips, meter: &mut Meter) -> io::Result<()> {
    let clock = Clock::best();
    stream.set_nonblocking(true)?;
    let message = pings.echo.message;
    let (outgoing, mut incoming) = (vec![0x5A; message], vec![0; message.max(64 << 10)]);
    // When each that is under way began, a ring.
    let mut began = vec![0_u64; pings.in_flight];
    let (mut first, mut count, mut partly_sent, mut partly_came) = (0, 0_usize, 0, 0);
    let mut ends = stream;
    let mut round = 0;
    while !phase.is_done() {
        look(&mut round, meter, phase, trips);
        let mut moved = false;
        while count < pings.in_flight || partly_sent > 0 {
            if partly_sent == 0 {
                began[(first + count) % pings.in_flight] = clock.now();
                count += 1;
            }
            match ends.write(&outgoing[partly_sent..]) {
                Ok(sent) => {
                    moved = true;
                    partly_sent = (partly_sent + sent) % message;
                    if partly_sent > 0 {
                        break;
                    }
                }
                Err(error) if passing(&error) => {
                    // Not begun after all, unless some of it went.
                    if partly_sent == 0 {
                        count -= 1;
                    }
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        match ends.read(&mut incoming) {
            Ok(0) => return Err(gone()),
            Ok(length) => {
                moved = true;
                let now = clock.now();
                partly_came += length;
                while partly_came >= message && count > 0 {
                    trips.round_trip.record(now - began[first]);
                    first = (first + 1) % pings.in_flight;
                    count -= 1;
                    partly_came -= message;
                }
            }
            Err(error) if passing(&error) => {}
            Err(error) => return Err(error),
        }
        if !moved {
            net::wait(stream, false, Duration::from_millis(if partly_sent > 0 { 1 } else { 50 }))?;
        }
    }
    Ok(())
}

fn ping_datagrams(
    socket: &UdpSocket,
    pings: &Pings,
    phase: &Phase,
    trips: &mut Trips,
    meter: &mut Meter,
) -> io::Result<()> {
    let clock = Clock::best();
    socket.set_read_timeout(Some(LOOK))?;
    let message = pings.echo.message.max(4);
    let mut outgoing = vec![0x5A; message];
    let mut incoming = vec![0; message.max(2048)];
    // Each place holds when its datagram went, and which one that was.
    let mut places = vec![(0_u64, 0_u32); pings.in_flight];
    let mut serial = 0_u32;
    let mut round = 0;
    let mut free: Vec<usize> = (0..pings.in_flight).rev().collect();
    let mut rest = Rest::new(pings.echo.spin);
    socket.set_nonblocking(pings.echo.spin)?;
    while !phase.is_done() {
        look(&mut round, meter, phase, trips);
        while let Some(place) = free.pop() {
            serial = serial.wrapping_add(1);
            let tag = (serial << 11) | place as u32;
            outgoing[..4].copy_from_slice(&tag.to_be_bytes());
            places[place] = (clock.now(), tag);
            if let Err(error) = net::send(socket, &outgoing) {
                if !passing(&error) {
                    return Err(error);
                }
            }
        }
        match socket.recv(&mut incoming) {
            Ok(length) if length >= 4 => {
                rest.came();
                let tag = u32::from_be_bytes([incoming[0], incoming[1], incoming[2], incoming[3]]);
                let place = (tag & 0x7FF) as usize;
                if places.get(place).is_some_and(|(_, sent)| *sent == tag) {
                    trips.round_trip.record(clock.now() - places[place].0);
                    places[place].1 = 0;
                    free.push(place);
                }
            }
            Ok(_) => {}
            Err(error) if passing(&error) => {
                if rest.missed(socket) {
                    trips.lost += give_up(&mut places, &mut free, clock.now());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Frees the places whose datagram is not back in time; gives how many they are.
#[inline] // between two round trips, whose time counts
fn give_up(places: &mut [(u64, u32)], free: &mut Vec<usize>, now: u64) -> u64 {
    let mut lost = 0;
    for (place, entry) in places.iter_mut().enumerate() {
        if entry.1 != 0 && now.saturating_sub(entry.0) > LOST_NS {
            entry.1 = 0;
            lost += 1;
            free.push(place);
        }
    }
    lost
}

fn connect_each(
    address: SocketAddr,
    pings: &Pings,
    phase: &Phase,
    trips: &mut Trips,
    meter: &mut Meter,
) -> io::Result<()> {
    let clock = Clock::best();
    let options = Options { nodelay: true, ..Options::default() };
    let mut buffer = vec![0x5A; pings.echo.message];
    let mut round = 0;
    while !phase.is_done() {
        look(&mut round, meter, phase, trips);
        let from = clock.now();
        let stream = net::connect(&address, &options, Duration::from_secs(2))?;
        let stood = clock.now();
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let mut ends = &stream;
        let answered = ends.write_all(&buffer).and_then(|()| ends.read_exact(&mut buffer));
        match answered {
            Ok(()) => {
                trips.connect.record(stood - from);
                trips.round_trip.record(clock.now() - from);
            }
            Err(_) if phase.is_done() => {}
            Err(_) => trips.lost += 1,
        }
    }
    Ok(())
}
