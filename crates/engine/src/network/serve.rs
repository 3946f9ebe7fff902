//! One test as the server runs it: every state has a deadline, and nothing that a client says is trusted.

use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::Receiver;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::clock::now_ns;
use crate::kernel::Stop;
use crate::network::datagrams;
use crate::network::echo::Responder;
use crate::network::lane::{Counts, Lane, Phase, DONE, RUNNING};
use crate::network::results::{stream_id, Report, StreamReport};
use crate::network::settings::Settings;
use crate::network::streams;
use crate::network::wire::{self, Control};
use crate::reading::CpuTime;
use crate::sys::net;

/// For each thing that a client has to send.
const PATIENCE: Duration = Duration::from_secs(5);
/// A client may take this much longer than it said.
const GRACE_S: f64 = 30.0;
/// A client that ends by bytes may take this long.
const LONGEST_BY_BYTES_S: f64 = 3600.0;
const HELLO: &[u8; 4] = b"9876";
const WELCOME: &[u8; 4] = b"6789";
/// Of iperf3's errors: `IESTREAMLISTEN` and the like mean nothing to a client but that we failed.
const REFUSED: i32 = 3;

/// What one test needs of the server around it.
pub struct Place<'a> {
    /// Where the server is bound, with its true port.
    pub bound: SocketAddr,
    /// The client.
    pub client: IpAddr,
    /// The address that the client reached us by.
    pub own: IpAddr,
    /// Its streams, as they are accepted.
    pub streams: Receiver<TcpStream>,
    /// Held while datagram streams are opened: they all knock at one port.
    pub door: &'a Mutex<()>,
    /// Ends every wait.
    pub stop: &'a Stop,
}

enum Stream {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Stream {
    fn flow(&self, sends: bool, settings: &Settings, lane: &Lane, phase: &Phase) -> CpuTime {
        match (self, sends) {
            (Self::Tcp(stream), true) => streams::send(stream, settings, lane, phase),
            (Self::Tcp(stream), false) => streams::receive(stream, settings, lane, phase),
            (Self::Udp(socket), true) => datagrams::send(socket, settings, lane, phase),
            (Self::Udp(socket), false) => datagrams::receive(socket, settings, lane, phase),
        }
    }

    fn retransmits(&self) -> u64 {
        match self {
            Self::Tcp(stream) => net::tcp_info(stream).map_or(0, |info| info.retransmits),
            Self::Udp(_) => 0,
        }
    }
}

fn ended(says: &str) -> io::Error {
    io::Error::other(says)
}

/// Serves the test behind `control`, from its parameters on; gives the bytes that were moved.
pub fn serve(control: TcpStream, place: &Place<'_>) -> io::Result<u64> {
    let mut control = Control::new(control, place.stop.clone())?;
    control.send_state(wire::PARAM_EXCHANGE)?;
    let told = control.read_json("its parameters", wire::MOST_PARAMETERS, PATIENCE)?;
    let settings = match Settings::from_parameters(&told) {
        Ok(settings) => settings,
        Err(says) => {
            refuse(&mut control, 0)?;
            return Err(ended(&says));
        }
    };
    // Datagrams are expected only while the client that asked for them opens its streams.
    let guard = settings.udp.then(|| place.door.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    let listener = if settings.udp { Some(net::udp_socket(&place.bound, &settings.socket)?) } else { None };
    let echo = match settings.echo {
        Some(echo) => Some((echo, Responder::bind(&echo, place.own)?)),
        None => None,
    };
    control.send_state(wire::CREATE_STREAMS)?;
    if let Some((_, (_, port))) = &echo {
        control.send_json(&serde_json::json!({"port": port}))?;
    }
    let opened = match listener {
        Some(listener) => open_datagrams(listener, &settings, place),
        None => open_streams(&settings, place),
    };
    drop(guard);
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => {
            refuse(&mut control, error.raw_os_error().unwrap_or(0))?;
            return Err(error);
        }
    };
    control.send_state(wire::TEST_START)?;
    control.send_state(wire::TEST_RUNNING)?;
    let responder = echo.as_ref().map(|(echo, (responder, _))| (echo, responder));
    let (report, finished) = flow(&mut control, &settings, &opened, responder, place);
    finished?;
    control.send_state(wire::EXCHANGE_RESULTS)?;
    control.read_json("its results", wire::MOST_RESULTS, PATIENCE)?;
    let output = settings.wants_output.then(|| output_of(&settings, &report));
    control.send_json(&report.to_json(output))?;
    control.send_state(wire::DISPLAY_RESULTS)?;
    // It is gone or says that it is done: both are an end.
    let _ = control.read_state("its goodbye", PATIENCE);
    Ok(report.streams.iter().flatten().map(|stream| stream.counts.bytes).sum())
}

fn refuse(control: &mut Control, errno: i32) -> io::Result<()> {
    let mut bytes = wire::SERVER_ERROR.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&REFUSED.to_be_bytes());
    bytes.extend_from_slice(&errno.to_be_bytes());
    control.send(&bytes)
}

fn open_streams(settings: &Settings, place: &Place<'_>) -> io::Result<Vec<Stream>> {
    let until = Instant::now() + PATIENCE;
    let mut opened = Vec::with_capacity(settings.total());
    while opened.len() < settings.total() {
        match place.streams.recv_timeout(Duration::from_millis(50)) {
            Ok(stream) => {
                // A congestion control that is not here is no reason to fail: the client records what was used.
                let _ = settings.socket.apply_tcp(&stream);
                streams::prepare(&stream)?;
                opened.push(Stream::Tcp(stream));
            }
            Err(_) if place.stop.is_set() => return Err(ended("the server is stopping")),
            Err(_) if Instant::now() > until => return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
            Err(_) => {}
        }
    }
    Ok(opened)
}

fn open_datagrams(first: UdpSocket, settings: &Settings, place: &Place<'_>) -> io::Result<Vec<Stream>> {
    let mut listener = first;
    let mut opened: Vec<Stream> = Vec::with_capacity(settings.total());
    let mut known: Vec<SocketAddr> = Vec::with_capacity(settings.total());
    let mut until = Instant::now() + PATIENCE;
    let mut hello = [0; 64];
    while opened.len() < settings.total() {
        if Instant::now() > until || place.stop.is_set() {
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        listener.set_read_timeout(Some(Duration::from_millis(50)))?;
        let Ok((length, from)) = listener.recv_from(&mut hello) else { continue };
        // Only who holds the control connection is ever answered: nobody can be made to send to a third.
        if from.ip().to_canonical() != place.client || length != HELLO.len() || &hello[..length] != HELLO {
            continue;
        }
        if known.contains(&from) {
            continue;
        }
        listener.connect(from)?;
        // The next one knocks at a new socket, which must stand before this one is answered.
        let next = net::udp_socket(&place.bound, &settings.socket)?;
        listener.send(WELCOME)?;
        known.push(from);
        opened.push(Stream::Udp(std::mem::replace(&mut listener, next)));
        until = Instant::now() + PATIENCE;
    }
    Ok(opened)
}

/// Lets data flow until the client ends the test, or its time is over.
fn flow(
    control: &mut Control,
    settings: &Settings,
    opened: &[Stream],
    echo: Option<(&crate::network::settings::Echo, &Responder)>,
    place: &Place<'_>,
) -> (Report, io::Result<()>) {
    let phase = Phase::default();
    let lanes: Vec<Lane> = opened.iter().map(|_| Lane::default()).collect();
    let sends = |index: usize| !settings.goes_up(index);
    let mut omitted = vec![Counts::default(); lanes.len()];
    let mut retransmits_before = vec![0; lanes.len()];
    let mut cpu = CpuTime::default();
    let (mut began, mut over) = (now_ns(), 0);
    let finished = std::thread::scope(|scope| {
        let phase = &phase;
        let mut flows = Vec::new();
        let mut refused = Ok(());
        for (index, (stream, lane)) in opened.iter().zip(&lanes).enumerate() {
            let body = move || stream.flow(sends(index), settings, lane, phase);
            match std::thread::Builder::new().spawn_scoped(scope, body) {
                Ok(handle) => flows.push(handle),
                Err(error) => refused = Err(error),
            }
        }
        if let Some((echo, responder)) = echo {
            let client = place.client;
            let body = move || responder.serve(echo, client, phase);
            match std::thread::Builder::new().spawn_scoped(scope, body) {
                Ok(handle) => flows.push(handle),
                Err(error) => refused = Err(error),
            }
        }
        let finished = refused.and_then(|()| {
            phase.set(RUNNING);
            began = now_ns();
            let start = began;
            let omit_ns = (settings.omit_s * 1e9) as u64;
            let by_bytes = settings.runtime_s <= 0.0 || settings.bytes > 0;
            let lasts_s = if by_bytes { LONGEST_BY_BYTES_S } else { settings.runtime_s };
            let limit_ns = ((lasts_s + settings.omit_s + GRACE_S) * 1e9) as u64;
            let mut timed = omit_ns == 0;
            loop {
                let now = now_ns();
                if !timed && now >= start + omit_ns {
                    phase.next_round();
                    timed = true;
                    began = now;
                    omitted = lanes.iter().map(Lane::counts).collect();
                    retransmits_before = opened.iter().map(Stream::retransmits).collect();
                }
                if now > start + limit_ns {
                    return Err(ended("the client did not end the test in time"));
                }
                if place.stop.is_set() {
                    let _ = control.send_state(wire::SERVER_TERMINATE);
                    return Err(ended("the server is stopping"));
                }
                let wait_ns = if timed { 50_000_000 } else { (start + omit_ns).saturating_sub(now).min(50_000_000) };
                match control.poll_state(Duration::from_nanos(wait_ns.max(1_000_000)))? {
                    Some(wire::TEST_END) => return Ok(()),
                    Some(wire::CLIENT_TERMINATE) => return Err(ended("the client gave up")),
                    Some(state) => return Err(ended(&format!("state {state} is out of place"))),
                    None => {}
                }
            }
        });
        over = now_ns();
        phase.set(DONE);
        for flow in flows {
            cpu += flow.join().unwrap_or_default();
        }
        finished
    });
    // What is drained after this had arrived before it.
    let elapsed_s = over.saturating_sub(began) as f64 / 1e9;
    let tcp_sender = settings.down && !settings.udp;
    let report = Report {
        streams: (0..lanes.len())
            .map(|index| {
                let retransmits = (sends(index) && !settings.udp)
                    .then(|| opened[index].retransmits().saturating_sub(retransmits_before[index]));
                let counts = lanes[index].counts().since(&omitted[index]);
                Some(StreamReport { counts, omitted: omitted[index], retransmits, elapsed_s })
            })
            .collect(),
        cpu_s: (cpu.user_s, cpu.system_s),
        congestion: match opened.first() {
            Some(Stream::Tcp(stream)) => net::congestion(stream).unwrap_or_default(),
            _ => String::new(),
        },
        elapsed_s,
        ours: true,
        has_retransmits: tcp_sender,
    };
    (report, finished)
}

/// What `--get-server-output` shows.
fn output_of(settings: &Settings, report: &Report) -> String {
    let mut lines = vec![format!("hwdyno network server {}", env!("CARGO_PKG_VERSION"))];
    for (index, stream) in report.streams.iter().enumerate() {
        let Some(stream) = stream else { continue };
        let role = if settings.goes_up(index) { "receiver" } else { "sender" };
        let bits_s = if stream.elapsed_s > 0.0 { stream.counts.bytes as f64 * 8.0 / stream.elapsed_s } else { 0.0 };
        let mut line = format!(
            "[{:3}]  0.00-{:.2} sec  {} Bytes  {:.3} Gbits/sec",
            stream_id(index),
            stream.elapsed_s,
            stream.counts.bytes,
            bits_s / 1e9
        );
        if settings.udp {
            let (lost, all) = (stream.counts.lost, stream.counts.highest);
            let _ = write!(line, "  {:.3} ms  {lost}/{all}", stream.counts.jitter_ns as f64 / 1e6);
        } else if let Some(count) = stream.retransmits {
            let _ = write!(line, "  {count} retransmits");
        }
        lines.push(format!("{line}  {role}"));
    }
    lines.join("\n") + "\n"
}
