//! One test as the server runs it: every state has a deadline, and nothing that a client sends is trusted.

use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use crate::contract::kernel::Stop;
use crate::contract::reading::CpuTime;
use crate::network::carrier::Carrier;
use crate::network::document::Course;
use crate::network::lane::{Counts, Lane, Phase, DONE, RUNNING};
use crate::network::responder::Responder;
use crate::network::results::{stream_id, Report, StreamReport};
use crate::network::settings::Settings;
use crate::network::streams;
use crate::network::watched::Watched;
use crate::network::wire::{self, Control, HELLO, WELCOME};
use crate::sys::net;
use crate::timing::clock::now_ns;

/// Limit for each thing that a client has to send.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A client may take this much longer than it announced.
const GRACE_S: f64 = 30.0;
/// A client that ends by bytes may take this long.
const LONGEST_BY_BYTES_S: f64 = 3600.0;
/// One of iperf3's errors: `IESTREAMLISTEN` and the like mean nothing to a client but that we failed.
const REFUSED: i32 = 3;

/// What one test needs of the server around it.
pub struct Place<'a> {
    /// Where the server is bound, with its true port.
    pub bound: SocketAddr,
    /// The client.
    pub client: IpAddr,
    /// The address that the client reached us by.
    pub local: IpAddr,
    /// Its streams, as they are accepted.
    pub streams: &'a Receiver<TcpStream>,
    /// Locked while datagram streams are opened: they all knock at one port.
    pub admission: &'a Mutex<()>,
    /// Ends every wait.
    pub stop: &'a Stop,
    /// What the tests of this server hold in memory, bytes.
    pub memory: &'a AtomicUsize,
    /// Set before the client is given the last that it waits for.
    pub leaving: &'a AtomicBool,
    /// A test in which nothing moves for so long is ended.
    pub silence: Duration,
}

/// What all tests of a server may hold in memory together.
const MAX_MEMORY: usize = 1 << 30;

/// A test's part of the server's memory, given back at its end.
struct Reserved<'a> {
    memory: &'a AtomicUsize,
    bytes: usize,
}

impl<'a> Reserved<'a> {
    fn take(memory: &'a AtomicUsize, bytes: usize) -> Option<Self> {
        let before = memory.fetch_add(bytes, Ordering::Relaxed);
        let reserved = Self { memory, bytes };
        (before + bytes <= MAX_MEMORY).then_some(reserved)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.memory.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn ended(says: &str) -> io::Error {
    io::Error::other(says)
}

/// Serves the test behind `control`, from its parameters on, and notes its `course`; gives the bytes that were moved.
pub fn serve(control: TcpStream, place: &Place<'_>, course: &mut Course) -> io::Result<u64> {
    let mut control = Control::new(control, place.stop.clone())?;
    control.send_state(wire::PARAM_EXCHANGE)?;
    let parameters = control.read_json("its parameters", wire::MAX_PARAMETERS, TIMEOUT)?;
    let settings = match Settings::from_parameters(&parameters) {
        Ok(settings) => settings,
        Err(says) => {
            refuse(&mut control, 0)?;
            return Err(ended(&says));
        }
    };
    course.settings = Some(settings.clone());
    let Some(_reserved) = Reserved::take(place.memory, settings.memory_bytes()) else {
        refuse(&mut control, libc::ENOMEM)?;
        return Err(ended("all tests together need more memory than this server allows"));
    };
    // Datagrams are expected only while the client that requested them opens its streams.
    let guard = if settings.udp { Some(enter(place)?) } else { None };
    let listener = if settings.udp { Some(net::udp_socket(&place.bound, &settings.socket)?) } else { None };
    let echo = match settings.echo {
        Some(echo) => Some((echo, Responder::bind(&echo, place.local)?)),
        None => None,
    };
    control.send_state(wire::CREATE_STREAMS)?;
    if let Some((_, (_, port))) = &echo {
        control.send_json(&serde_json::json!({"port": port}))?;
    }
    let opened = match listener {
        Some(listener) => open_datagrams(&mut control, listener, &settings, place),
        None => open_streams(&mut control, &settings, place),
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
    course.here = Some(report.clone());
    finished?;
    control.send_state(wire::EXCHANGE_RESULTS)?;
    let results = control.read_json("its results", wire::MAX_RESULTS, TIMEOUT)?;
    course.there = Some(Report::from_json(&results, opened.len()));
    let output = settings.wants_output.then(|| format_output(&settings, &report));
    control.send_json(&report.to_json(output))?;
    place.leaving.store(true, Ordering::Release);
    control.send_state(wire::DISPLAY_RESULTS)?;
    // It is gone or reports that it is done: both are an end.
    let _ = control.read_state("its goodbye", TIMEOUT);
    Ok(report.streams.iter().flatten().map(|stream| stream.counts.bytes).sum())
}

fn refuse(control: &mut Control, errno: i32) -> io::Result<()> {
    let mut bytes = wire::SERVER_ERROR.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&REFUSED.to_be_bytes());
    bytes.extend_from_slice(&errno.to_be_bytes());
    control.send(&bytes)
}

/// Waits for its turn at the port of datagrams, within a limit.
fn enter<'a>(place: &Place<'a>) -> io::Result<MutexGuard<'a, ()>> {
    let until = Instant::now() + 2 * TIMEOUT;
    loop {
        match place.admission.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() > until || place.stop.is_set() => {
                return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// A client that opens its streams sends nothing on its control connection but that it gives up.
fn still_there(control: &mut Control) -> io::Result<()> {
    match control.poll_state(Duration::ZERO)? {
        None => Ok(()),
        Some(wire::CLIENT_TERMINATE) => Err(ended("the client disconnected")),
        Some(state) => Err(ended(&format!("unexpected state {state}"))),
    }
}

fn open_streams(control: &mut Control, settings: &Settings, place: &Place<'_>) -> io::Result<Vec<Carrier>> {
    let until = Instant::now() + TIMEOUT;
    let mut opened = Vec::with_capacity(settings.total());
    while opened.len() < settings.total() {
        match place.streams.recv_timeout(Duration::from_millis(50)) {
            Ok(stream) => {
                // A congestion control that is not here is no reason to fail: the client records what was used.
                let _ = settings.socket.apply_tcp(&stream);
                streams::prepare(&stream)?;
                opened.push(Carrier::Tcp(stream));
            }
            Err(_) if place.stop.is_set() => return Err(ended("the server is stopping")),
            Err(_) if Instant::now() > until => return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
            Err(_) => still_there(control)?,
        }
    }
    Ok(opened)
}

fn open_datagrams(
    control: &mut Control,
    first: UdpSocket,
    settings: &Settings,
    place: &Place<'_>,
) -> io::Result<Vec<Carrier>> {
    let mut listener = first;
    let mut opened: Vec<Carrier> = Vec::with_capacity(settings.total());
    let mut known: Vec<SocketAddr> = Vec::with_capacity(settings.total());
    // All of them together have a limit, since others wait for the port.
    let until = Instant::now() + TIMEOUT + Duration::from_millis(20) * settings.total() as u32;
    let mut hello = [0; 64];
    while opened.len() < settings.total() {
        if Instant::now() > until || place.stop.is_set() {
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        listener.set_read_timeout(Some(Duration::from_millis(50)))?;
        let Ok((length, from)) = listener.recv_from(&mut hello) else {
            still_there(control)?;
            continue;
        };
        // Only who holds the control connection is ever answered: no one can be made to send to a third.
        if from.ip().to_canonical() != place.client || length != HELLO.len() || &hello[..length] != HELLO {
            continue;
        }
        if known.contains(&from) {
            continue;
        }
        listener.connect(from)?;
        // The next one knocks at a new socket, which must exist before this one is answered.
        let next = net::udp_socket(&place.bound, &settings.socket)?;
        net::send(&listener, WELCOME)?;
        known.push(from);
        opened.push(Carrier::Udp(std::mem::replace(&mut listener, next)));
    }
    Ok(opened)
}

/// Watches for a test in which nothing moves.
struct Silence {
    max_ns: u64,
    moved: u64,
    since_ns: u64,
}

impl Silence {
    /// Whether the streams have moved nothing for too long; a test without streams has none.
    fn is_too_long(&mut self, lanes: &[Lane], now: u64) -> bool {
        let moved = lanes.iter().map(|lane| lane.counts().bytes).sum();
        if moved != self.moved || lanes.is_empty() {
            (self.moved, self.since_ns) = (moved, now);
        }
        now > self.since_ns + self.max_ns
    }
}

/// The timed region at the server.
struct Region {
    began: u64,
    /// What each stream had moved before it.
    omitted: Vec<Counts>,
    watched: Vec<Watched>,
}

/// The streams of a test that flow.
struct Flow<'a> {
    settings: &'a Settings,
    opened: &'a [Carrier],
    lanes: &'a [Lane],
    phase: &'a Phase,
}

/// Lets data flow until the client ends the test, or its time is over.
fn flow(
    control: &mut Control,
    settings: &Settings,
    opened: &[Carrier],
    echo: Option<(&crate::network::settings::Echo, &Responder)>,
    place: &Place<'_>,
) -> (Report, io::Result<()>) {
    let lanes: Vec<Lane> = opened.iter().map(|_| Lane::default()).collect();
    let flow = Flow { settings, opened, lanes: &lanes, phase: &Phase::default() };
    let omitted = vec![Counts::default(); lanes.len()];
    let watched = vec![Watched::default(); lanes.len()];
    let mut cpu = CpuTime::default();
    let (mut region, mut over) = (Region { began: now_ns(), omitted, watched }, 0);
    let finished = std::thread::scope(|scope| {
        let phase = flow.phase;
        let mut flows = Vec::new();
        let mut refused = Ok(());
        for (index, (stream, lane)) in opened.iter().zip(&lanes).enumerate() {
            let sends = flow.sends(index);
            let body = move || stream.flow(sends, settings, lane, phase);
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
        let finished = refused.and_then(|()| flow.watch(control, place, &mut region));
        over = now_ns();
        phase.set(DONE);
        for flow in flows {
            cpu += flow.join().unwrap_or_default();
        }
        finished
    });
    // What is drained after this had arrived before it.
    let elapsed_s = over.saturating_sub(region.began) as f64 / 1e9;
    (flow.report(&region, cpu, elapsed_s), finished)
}

impl Flow<'_> {
    fn sends(&self, index: usize) -> bool {
        !self.settings.goes_up(index)
    }

    fn look(&self, watched: &mut [Watched]) {
        for (index, watched) in watched.iter_mut().enumerate().filter(|(index, _)| self.sends(*index)) {
            watched.look(self.opened[index].info());
        }
    }

    /// Starts the streams, and looks on until the client ends the test; an error for any other end.
    fn watch(&self, control: &mut Control, place: &Place<'_>, region: &mut Region) -> io::Result<()> {
        let Self { settings, lanes, phase, .. } = *self;
        phase.set(RUNNING);
        region.began = now_ns();
        let start = region.began;
        let omit_ns = (settings.omit_s * 1e9) as u64;
        let by_amount = settings.runtime_s <= 0.0 || settings.by_amount();
        let lasts_s = if by_amount { LONGEST_BY_BYTES_S } else { settings.runtime_s };
        let limit_ns = ((lasts_s + settings.omit_s + GRACE_S) * 1e9) as u64;
        let mut timed = omit_ns == 0;
        self.look(&mut region.watched);
        let mut silence = Silence { max_ns: place.silence.as_nanos() as u64, moved: 0, since_ns: start };
        loop {
            let now = now_ns();
            if !timed && now >= start + omit_ns {
                phase.next_round();
                timed = true;
                region.began = now;
                region.omitted = lanes.iter().map(Lane::counts).collect();
                region.watched.fill(Watched::default());
            }
            if now > start + limit_ns {
                return Err(ended("the client did not end the test in time"));
            }
            if silence.is_too_long(lanes, now) {
                let _ = control.send_state(wire::SERVER_TERMINATE);
                return Err(ended("no data was transferred for too long"));
            }
            if place.stop.is_set() {
                let _ = control.send_state(wire::SERVER_TERMINATE);
                return Err(ended("the server is stopping"));
            }
            let wait_ns = if timed { 50_000_000 } else { (start + omit_ns).saturating_sub(now).min(50_000_000) };
            let state = control.poll_state(Duration::from_nanos(wait_ns.max(1_000_000)))?;
            self.look(&mut region.watched);
            match state {
                Some(wire::TEST_END) => return Ok(()),
                Some(wire::CLIENT_TERMINATE) => return Err(ended("the client disconnected")),
                Some(state) => return Err(ended(&format!("unexpected state {state}"))),
                None => {}
            }
        }
    }

    fn report(&self, region: &Region, cpu: CpuTime, elapsed_s: f64) -> Report {
        let settings = self.settings;
        let stream = |index: usize| {
            let tcp = (self.sends(index) && !settings.udp).then(|| region.watched[index].figures());
            let omitted = region.omitted[index];
            let counts = self.lanes[index].counts().since(&omitted);
            let (retransmits, errno) = (tcp.map(|tcp| tcp.retransmits), self.lanes[index].refusal());
            Some(StreamReport { counts, omitted, retransmits, elapsed_s, tcp, errno })
        };
        Report {
            streams: (0..self.lanes.len()).map(stream).collect(),
            cpu_s: (cpu.user_s, cpu.system_s),
            congestion: match self.opened.first() {
                Some(Carrier::Tcp(stream)) => net::congestion(stream).unwrap_or_default(),
                _ => String::new(),
            },
            elapsed_s,
            ours: true,
            has_retransmits: settings.down && !settings.udp,
        }
    }
}

/// What `--get-server-output` shows.
fn format_output(settings: &Settings, report: &Report) -> String {
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
