//! The server around tests: accepts, reads cookies under deadlines, and gives each connection to its test.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::contract::kernel::Stop;
use crate::network::document::{document, Course};
use crate::network::serve::{serve, Place};
use crate::network::settings::MAX_STREAMS;
use crate::network::waiting::LOOK;
use crate::network::wire::{Cookie, ACCESS_DENIED, COOKIE_BYTES};
use crate::sys::net;

/// The name of the log that is this process's own output.
const STANDARD_OUTPUT: &str = "/dev/stdout";
/// A connection has this long to send its cookie.
const COOKIE_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections that have not yet sent theirs; more are closed at once.
const MAX_PENDING: usize = 64;
/// Pending connections from one address at most, so that one slow client does not shut others out.
const MAX_PENDING_EACH: usize = 48;
/// Tests at once, where several clients are served.
const MAX_TESTS: usize = 16;

/// How a server is to be.
#[derive(Debug, Clone)]
pub struct Serving {
    /// Where to listen; port 0 lets the system choose.
    pub bind: SocketAddr,
    /// Several clients at once; otherwise the others get the answer that it is busy.
    pub parallel_clients: bool,
    /// End after the first test.
    pub once: bool,
    /// Append each test's document to this file.
    pub log: Option<std::path::PathBuf>,
    /// A test in which nothing moves for so long is ended.
    pub silence: Duration,
}

impl Serving {
    /// One client after the other at `bind`, without an end.
    #[must_use]
    pub fn at(bind: SocketAddr) -> Self {
        Self { bind, parallel_clients: false, once: false, log: None, silence: Duration::from_secs(60) }
    }
}

/// What was served so far.
#[derive(Debug, Default)]
pub struct Served {
    /// Tests that completed.
    pub tests: AtomicU64,
    /// Tests that failed, whoever's fault it was.
    pub failed: AtomicU64,
    /// Clients that got the answer that the server is busy.
    pub refused: AtomicU64,
    /// Bytes moved by tests that completed.
    pub bytes: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Served {
    /// Why the last test that failed did.
    #[must_use]
    pub fn last_failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_failure(&self, says: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(says);
    }

    /// Counts a test that ended, with the bytes that it moved.
    fn count(&self, client: IpAddr, ended: io::Result<u64>) {
        match ended {
            Ok(bytes) => {
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                self.tests.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                self.set_failure(format!("{client}: {error}"));
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A server that runs on a separate thread until it is dropped.
pub struct Server {
    address: SocketAddr,
    stop: Stop,
    served: Arc<Served>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Binds and begins to serve.
    pub fn start(serving: &Serving) -> io::Result<Self> {
        let listener = TcpListener::bind(serving.bind)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let log = match &serving.log {
            // A link by every system's convention, which is no file to be found.
            Some(path) if path == Path::new(STANDARD_OUTPUT) => {
                Some(std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?))
            }
            Some(path) => Some(crate::safe_files::open_to_append(path)?),
            None => None,
        };
        let (stop, served) = (Stop::new(), Arc::new(Served::default()));
        let acceptor = Acceptor {
            listener,
            bound: address,
            serving: serving.clone(),
            stop: stop.clone(),
            served: Arc::clone(&served),
            pending: Vec::new(),
            tests: Arc::default(),
            running: Arc::default(),
            admission: Arc::default(),
            memory: Arc::default(),
            log: Arc::new(Mutex::new(log)),
        };
        let thread = std::thread::Builder::new().name("hwdyno-server".into()).spawn(move || acceptor.run())?;
        Ok(Self { address, stop, served, thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was served so far.
    #[must_use]
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Whether it ended by itself (after one test, where that was requested).
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Pending {
    stream: TcpStream,
    from: IpAddr,
    cookie: Cookie,
    filled: usize,
    until: Instant,
}

struct Running {
    client: IpAddr,
    streams: Sender<TcpStream>,
    /// Streams that it may still open.
    left: usize,
    /// Its client has all that it came for, so that its place is free in a moment.
    leaving: Arc<AtomicBool>,
}

type Tests = Mutex<HashMap<Cookie, Running>>;

struct Acceptor {
    listener: TcpListener,
    bound: SocketAddr,
    serving: Serving,
    stop: Stop,
    served: Arc<Served>,
    pending: Vec<Pending>,
    tests: Arc<Tests>,
    running: Arc<AtomicUsize>,
    admission: Arc<Mutex<()>>,
    memory: Arc<AtomicUsize>,
    log: Arc<Mutex<Option<std::fs::File>>>,
}

impl Acceptor {
    fn run(mut self) {
        while !self.stop.is_set() {
            // Waiting connections are looked at often: a client opens its streams one after the other.
            let timeout = if self.pending.is_empty() { LOOK } else { Duration::from_millis(1) };
            let _ = net::wait(&self.listener, false, timeout);
            self.accept();
            self.read_cookies();
            let over = self.served.tests.load(Ordering::Relaxed) + self.served.failed.load(Ordering::Relaxed) > 0;
            if self.serving.once && over && self.running.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        // Tests see the stop, or end with their client; those that do not are left behind with their deadlines.
        let until = Instant::now() + Duration::from_secs(1);
        while self.running.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, from)) = self.listener.accept() {
            let from = from.ip().to_canonical();
            let of_this_one = self.pending.iter().filter(|other| other.from == from).count();
            if self.pending.len() >= MAX_PENDING || of_this_one >= MAX_PENDING_EACH {
                continue; // closed at once
            }
            if stream.set_nonblocking(true).is_ok() {
                let until = Instant::now() + COOKIE_TIMEOUT;
                self.pending.push(Pending { stream, from, cookie: [0; COOKIE_BYTES], filled: 0, until });
            }
        }
    }

    fn read_cookies(&mut self) {
        for mut one in std::mem::take(&mut self.pending) {
            if one.filled == COOKIE_BYTES {
                self.assign(one);
                continue;
            }
            match one.stream.read(&mut one.cookie[one.filled..]) {
                Ok(0) => continue,
                Ok(count) => one.filled += count,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => continue,
            }
            if one.filled == COOKIE_BYTES {
                one.until = Instant::now() + COOKIE_TIMEOUT;
                self.assign(one);
            } else if Instant::now() < one.until {
                self.pending.push(one);
            }
        }
    }

    /// A known cookie belongs to a stream of a running test; an unknown one begins a test, where there is room.
    ///
    /// A client that comes on the heels of another stays pending until that one's place is free.
    fn assign(&mut self, mut one: Pending) {
        let mut tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = tests.get_mut(&one.cookie) {
            if running.client == one.from && running.left > 0 {
                running.left -= 1;
                let _ = running.streams.send(one.stream);
            }
            return;
        }
        let most = if self.serving.parallel_clients { MAX_TESTS } else { 1 };
        if tests.len() >= most {
            let leaving = tests.values().any(|running| running.leaving.load(Ordering::Acquire));
            if leaving && Instant::now() < one.until {
                drop(tests);
                self.pending.push(one);
                return;
            }
            self.served.refused.fetch_add(1, Ordering::Relaxed);
            let _ = one.stream.write(&ACCESS_DENIED.to_ne_bytes());
            return;
        }
        let (sender, streams) = channel();
        let leaving = Arc::new(AtomicBool::new(false));
        let (client, left) = (one.from, 2 * MAX_STREAMS);
        tests.insert(one.cookie, Running { client, streams: sender, left, leaving: Arc::clone(&leaving) });
        drop(tests);
        self.running.fetch_add(1, Ordering::Relaxed);
        let (tests, running, served) = (Arc::clone(&self.tests), Arc::clone(&self.running), Arc::clone(&self.served));
        let (stop, admission, bound) = (self.stop.clone(), Arc::clone(&self.admission), self.bound);
        let silence = self.serving.silence;
        let (memory, log) = (Arc::clone(&self.memory), Arc::clone(&self.log));
        let cookie = one.cookie;
        let forget = Forget { tests, running, cookie };
        let body = move || {
            let local = one.stream.local_addr().map_or(bound.ip(), |address| address.ip().to_canonical());
            let (streams, admission, stop, memory, leaving) = (&streams, &*admission, &stop, &*memory, &*leaving);
            let place = Place { bound, client, local, streams, admission, stop, memory, leaving, silence };
            let mut course = Course::default();
            let ended = serve(one.stream, &place, &mut course);
            if let Some(log) = log.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                let error = ended.as_ref().err().map(ToString::to_string);
                let result = document(&course, place.client, &readable(&cookie), error.as_deref());
                // A log that cannot be written (a full disk) must not end the serving.
                if let Err(error) = writeln!(log, "{result:#}") {
                    served.set_failure(format!("the log was not written: {error}"));
                }
            }
            served.count(client, ended);
            drop(forget);
        };
        // A thread that cannot be made closes the connection, which the client sees.
        let _ = std::thread::Builder::new().name("hwdyno-test".into()).spawn(body);
    }
}

/// A cookie's letters, no matter what a client sent for it.
fn readable(cookie: &Cookie) -> String {
    cookie.iter().take_while(|&&byte| byte != 0).map(|&b| if b.is_ascii_graphic() { b as char } else { '?' }).collect()
}

/// Takes a test off the list, however its thread ends.
struct Forget {
    tests: Arc<Tests>,
    running: Arc<AtomicUsize>,
    cookie: Cookie,
}

impl Drop for Forget {
    fn drop(&mut self) {
        self.tests.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.cookie);
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}
