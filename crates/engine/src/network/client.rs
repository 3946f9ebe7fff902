//! A client of iperf3's protocol: it drives a test and always ends, within its deadlines, with what it has.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::contract::kernel::{Error, Stop};
use crate::contract::reading::CpuTime;
use crate::network::caller::{self, Caller, Pings, Trips};
use crate::network::carrier::Carrier;
use crate::network::lane::{Counts, Lane, Phase, DONE, RUNNING};
use crate::network::reach::{self, place};
use crate::network::results::{Report, StreamReport};
use crate::network::settings::Settings;
use crate::network::streams;
use crate::network::watched::{Figures, Watched};
use crate::network::wire::{self, Control};
use crate::sys::net;
use crate::timing::clock::now_ns;

/// Limit for a connection, an answer, or the results.
const TIMEOUT: Duration = Duration::from_secs(5);

/// One stream at its end.
#[derive(Debug, Clone, Default)]
pub struct StreamEnd {
    /// Whether it sends from client to server.
    pub up: bool,
    /// What was counted here.
    pub here: Counts,
    /// TCP's figures at this end for what it sends.
    pub tcp: Option<Figures>,
    /// What ended it early, by the system's number.
    pub errno: i32,
}

/// All that a test gave.
#[derive(Default)]
pub struct Outcome {
    /// Streams in the order of opening.
    pub streams: Vec<StreamEnd>,
    /// The timed region here, s.
    pub elapsed_s: f64,
    /// The other end's report; none if it sent none.
    pub there: Option<Report>,
    /// CPU time of the streams' threads here, over the timed region.
    pub cpu: CpuTime,
    /// Bytes and operations in each interval: up, then down.
    pub rows: Vec<[(u64, u64); 2]>,
    /// Length of an interval, s.
    pub interval_s: f64,
    /// Bytes of each stream in each interval.
    pub stream_rows: Vec<Vec<u64>>,
    /// Round trips, where requested.
    pub trips: Option<Trips>,
    /// The congestion control here.
    pub congestion: String,
    /// The maximum segment size, bytes.
    pub mss: u64,
    /// Send and receive buffers as the system keeps them, bytes.
    pub buffers: (u64, u64),
    /// What went wrong after the start, with the system's number.
    pub faults: Vec<(String, i32)>,
    /// It was stopped early.
    pub interrupted: bool,
}

/// Runs one test against the server at `address`.
///
/// What fails before data flows is an error; what fails later is a fault of the outcome.
pub fn run(
    address: SocketAddr,
    settings: &Settings,
    pings: Option<Pings>,
    interval_s: f64,
    stop: &Stop,
) -> Result<Outcome, Error> {
    let cookie = wire::new_cookie();
    let failed = |doing: &str| {
        let doing = format!("{doing} {}", place(address));
        move |error: io::Error| Error::machine(doing, &error)
    };
    let mut control = reach::greet(address, &cookie, TIMEOUT, stop)?;
    control.send_json(&settings.to_parameters()).map_err(failed("send the parameters to"))?;
    reach::expect(&mut control, wire::CREATE_STREAMS, TIMEOUT).map_err(failed("agree on a test with"))?;
    let echo = match pings {
        None => None,
        Some(pings) => {
            let echo_place = control.read_json("where its echo is", 1024, Duration::from_secs(3)).map_err(|_| {
                let says = "does not echo: latency needs `hwdyno network server` there (iperf3 has no echo)";
                Error::Machine(format!("the server at {} {says}", place(address)), None)
            })?;
            let port = echo_place["port"].as_u64().unwrap_or(0) as u16;
            Some((pings, SocketAddr::new(address.ip(), port)))
        }
    };
    let mut opened = Vec::with_capacity(settings.total());
    for _ in 0..settings.total() {
        opened.push(open(address, settings, &cookie).map_err(|error| reach::no_stream(address, settings, &error))?);
    }
    for state in [wire::TEST_START, wire::TEST_RUNNING] {
        reach::expect(&mut control, state, TIMEOUT).map_err(failed("start the test with"))?;
    }
    // The echo answers while the test runs, and no sooner.
    let caller = match echo {
        Some((pings, place)) => Some(Caller::open(&pings.echo, place, TIMEOUT).map_err(failed("open the echo of"))?),
        None => None,
    };
    let test = Test { settings, opened: &opened, interval_s, stop };
    let mut outcome = test.run(&mut control, pings.zip(caller.as_ref()));
    outcome.exchange(&mut control, &opened, settings);
    Ok(outcome)
}

fn open(address: SocketAddr, settings: &Settings, cookie: &wire::Cookie) -> io::Result<Carrier> {
    if !settings.udp {
        let stream = net::connect(&address, &settings.socket, TIMEOUT)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        io::Write::write_all(&mut &stream, cookie)?;
        streams::prepare(&stream)?;
        return Ok(Carrier::Tcp(stream));
    }
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = net::udp_socket(&any, &settings.socket)?;
    socket.connect(address)?;
    caller::send_hello(&socket, TIMEOUT)?;
    Ok(Carrier::Udp(socket))
}

struct Test<'a> {
    settings: &'a Settings,
    opened: &'a [Carrier],
    interval_s: f64,
    stop: &'a Stop,
}

/// What the timed region looks like from outside while it lasts.
struct Course {
    base: Vec<Counts>,
    last: Vec<Counts>,
    watched: Vec<Watched>,
    from_ns: u64,
    until_ns: u64,
}

impl Course {
    fn new(lanes: &[Lane], began: u64) -> Self {
        Self {
            base: vec![Counts::default(); lanes.len()],
            last: count_all(lanes),
            watched: vec![Watched::default(); lanes.len()],
            from_ns: began,
            until_ns: began,
        }
    }

    /// Takes the counts of now.
    fn look(&mut self, lanes: &[Lane]) {
        self.last = count_all(lanes);
        self.until_ns = now_ns();
    }
}

fn count_all(lanes: &[Lane]) -> Vec<Counts> {
    lanes.iter().map(Lane::counts).collect()
}

/// Why the other end ended the test, with the system's number, if it does so within `timeout`.
fn poll_end(control: &mut Control, timeout: Duration) -> Option<(String, i32)> {
    match control.poll_state(timeout) {
        Ok(Some(wire::SERVER_ERROR)) => Some((control.read_error(), 0)),
        Ok(Some(wire::SERVER_TERMINATE)) => Some(("the server ended the test".into(), 0)),
        Ok(_) => None,
        Err(error) => Some((error.to_string(), error.raw_os_error().unwrap_or(0))),
    }
}

impl Test<'_> {
    fn run(&self, control: &mut Control, call: Option<(Pings, &Caller)>) -> Outcome {
        let phase = Phase::default();
        let lanes: Vec<Lane> = self.opened.iter().map(|_| Lane::default()).collect();
        let mut outcome = Outcome { interval_s: self.interval_s, ..Outcome::default() };
        outcome.stream_rows.reserve(4096);
        std::thread::scope(|scope| {
            let phase = &phase;
            let mut flows = Vec::new();
            let mut refused = None;
            for (index, (stream, lane)) in self.opened.iter().zip(&lanes).enumerate() {
                let up = self.settings.goes_up(index);
                let body = move || stream.flow(up, self.settings, lane, phase);
                match std::thread::Builder::new().spawn_scoped(scope, body) {
                    Ok(handle) => flows.push(handle),
                    Err(error) => refused = Some(error),
                }
            }
            let caller = call.and_then(|(pings, caller)| {
                let spawned = std::thread::Builder::new().spawn_scoped(scope, move || caller.call(&pings, phase));
                spawned.map_err(|error| refused = Some(error)).ok()
            });
            if let Some(error) = refused {
                outcome.fault("start one thread per stream", &error);
                phase.set(DONE);
                if let Some((_, caller)) = call {
                    caller.hang_up();
                }
            } else {
                self.measure(control, phase, &lanes, call, &mut outcome);
            }
            for flow in flows {
                outcome.cpu += flow.join().unwrap_or_default();
            }
            outcome.trips = caller.and_then(|caller| caller.join().ok());
        });
        if let Some(trips) = &outcome.trips {
            outcome.cpu += trips.cpu;
        }
        if let Some(Carrier::Tcp(stream)) = self.opened.first() {
            outcome.congestion = net::congestion(stream).unwrap_or_default();
            outcome.mss = net::mss(stream);
            outcome.buffers = net::buffers(stream);
        }
        outcome
    }

    /// Lets data flow until the test's end, and takes what was counted.
    fn measure(
        &self,
        control: &mut Control,
        phase: &Phase,
        lanes: &[Lane],
        call: Option<(Pings, &Caller)>,
        outcome: &mut Outcome,
    ) {
        crate::timing::start::hold();
        // From before the first byte to after the last that is counted: no one is ever faster than he was.
        let began = now_ns();
        phase.set(RUNNING);
        let course = self.watch(began, control, phase, lanes, outcome);
        // What is counted here ends now, and with it what can cut it short.
        let errnos: Vec<i32> = lanes.iter().map(|lane| lane.errno.load(Ordering::Relaxed)).collect();
        phase.set(DONE);
        if let Err(error) = control.send_state(wire::TEST_END) {
            outcome.fault("end the test", &error);
        }
        if let Some((_, caller)) = call {
            caller.hang_up();
        }
        outcome.elapsed_s = course.until_ns.saturating_sub(course.from_ns) as f64 / 1e9;
        outcome.streams = (0..lanes.len())
            .map(|index| StreamEnd {
                up: self.settings.goes_up(index),
                here: course.last[index].since(&course.base[index]),
                tcp: (!self.settings.udp).then(|| course.watched[index].figures()),
                errno: errnos[index],
            })
            .collect();
    }

    /// Looks on until the test's end: by time, by bytes, by the other end, or by a stop.
    fn watch(&self, began: u64, control: &mut Control, phase: &Phase, lanes: &[Lane], outcome: &mut Outcome) -> Course {
        let interval = (self.interval_s * 1e9).max(1e6) as u64;
        let omit = (self.settings.omit_s * 1e9) as u64;
        let runtime = (self.settings.runtime_s * 1e9) as u64;
        let mut course = Course::new(lanes, began);
        let mut row_ends = began + interval;
        let mut timed = omit == 0;
        let mut row_from = course.base.clone();
        loop {
            let now = now_ns();
            if !timed && now >= began + omit {
                phase.next_round();
                timed = true;
                course.base = count_all(lanes);
                row_from.clone_from(&course.base);
                course.from_ns = now;
                course.watched.fill(Watched::default());
                row_ends = now + interval;
            }
            let over = timed && !self.settings.by_amount() && now >= course.from_ns + runtime;
            let row_over = timed && now >= row_ends;
            if row_over || over || self.settings.by_amount() {
                course.look(lanes);
            }
            if row_over {
                self.close_row(&row_from, &course.last, outcome);
                row_from.clone_from(&course.last);
                row_ends = (row_ends + interval).max(now);
            }
            if row_over || over || course.watched.iter().any(|watched| !watched.is_begun()) {
                for (stream, watched) in self.opened.iter().zip(&mut course.watched) {
                    watched.look(stream.info());
                }
            }
            if over || self.is_enough(&course) {
                return course;
            }
            // Each stream has failed: no more will be moved, even if an amount or time is left. Datagrams go on.
            if !self.settings.udp && !lanes.is_empty() && lanes.iter().all(Lane::has_ended) {
                course.look(lanes);
                return course;
            }
            if self.stop.is_set() {
                outcome.interrupted = true;
                course.look(lanes);
                return course;
            }
            let next = if timed { row_ends.min(course.from_ns + runtime) } else { began + omit };
            let most = if self.settings.by_amount() { 1_000_000 } else { 50_000_000 };
            let timeout = Duration::from_nanos(next.saturating_sub(now_ns()).clamp(200_000, most));
            if let Some(fault) = poll_end(control, timeout) {
                outcome.faults.push(fault);
                course.look(lanes);
                return course;
            }
        }
    }

    /// Whether the requested amount has been moved.
    fn is_enough(&self, course: &Course) -> bool {
        let moved = |of: fn(&Counts) -> u64| -> u64 {
            course.last.iter().zip(&course.base).map(|(last, base)| of(&last.since(base))).sum()
        };
        (self.settings.bytes > 0 && moved(|counts| counts.bytes) >= self.settings.bytes)
            || (self.settings.blocks > 0 && moved(|counts| counts.operations) >= self.settings.blocks)
    }

    fn close_row(&self, from: &[Counts], to: &[Counts], outcome: &mut Outcome) {
        let mut row = [(0, 0); 2];
        let mut each = Vec::with_capacity(to.len());
        for (index, (from, to)) in from.iter().zip(to).enumerate() {
            let grown = to.since(from);
            let direction = &mut row[usize::from(!self.settings.goes_up(index))];
            direction.0 += grown.bytes;
            direction.1 += grown.operations;
            each.push(grown.bytes);
        }
        outcome.rows.push(row);
        outcome.stream_rows.push(each);
    }
}

impl Outcome {
    fn fault(&mut self, doing: &str, error: &io::Error) {
        self.faults.push((format!("{doing}: {error}"), error.raw_os_error().unwrap_or(0)));
    }

    /// Results for results; where the other end is gone or silent, what is here has to do.
    fn exchange(&mut self, control: &mut Control, opened: &[Carrier], settings: &Settings) {
        if self.faults.is_empty() {
            match self.try_exchange(control, opened.len(), settings) {
                Ok(report) => self.there = Some(report),
                Err(error) => self.fault("exchange results", &error),
            }
        }
    }

    fn try_exchange(&self, control: &mut Control, count: usize, settings: &Settings) -> io::Result<Report> {
        // A reader that is still behind a long queue needs its time; the whole has one limit.
        let until = now_ns() + 2 * TIMEOUT.as_nanos() as u64;
        loop {
            match control.read_state("the end of the test", TIMEOUT)? {
                wire::EXCHANGE_RESULTS => break,
                wire::SERVER_ERROR => return Err(io::Error::other(control.read_error())),
                wire::SERVER_TERMINATE => return Err(io::Error::other("the server ended the test")),
                _ if now_ns() > until => return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
                _ => {}
            }
        }
        control.send_json(&self.report(settings).to_json(None))?;
        let results = control.read_json("its results", wire::MAX_RESULTS, TIMEOUT)?;
        let report = Report::from_json(&results, count);
        // The test is over: a slip in saying goodbye loses nothing.
        if let Ok(wire::DISPLAY_RESULTS) = control.read_state("its goodbye", TIMEOUT) {
            let _ = control.send_state(wire::IPERF_DONE);
        }
        Ok(report)
    }

    fn report(&self, settings: &Settings) -> Report {
        let sends = settings.up && !settings.udp;
        Report {
            streams: self
                .streams
                .iter()
                .map(|end| {
                    let tcp = end.tcp.filter(|_| end.up);
                    let retransmits = tcp.map(|tcp| tcp.retransmits);
                    let omitted = Counts::default();
                    let (elapsed_s, errno) = (self.elapsed_s, end.errno.max(0));
                    Some(StreamReport { counts: end.here, omitted, retransmits, elapsed_s, tcp, errno })
                })
                .collect(),
            cpu_s: (self.cpu.user_s, self.cpu.system_s),
            congestion: self.congestion.clone(),
            elapsed_s: self.elapsed_s,
            ours: true,
            has_retransmits: sends,
        }
    }
}
