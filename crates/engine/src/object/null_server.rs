//! A store in memory that answers at once: what a client costs without one, and what the tests of the client talk to.
//!
//! It keeps the lengths of objects, and the content of small ones. It checks no signature.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{epoll, Timespec};

use crate::contract::kernel::Stop;
use crate::object::null_answers::{Answered, Question, Store};
use crate::object::payload::Payload;
use crate::object::response::MAX_HEAD;

/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;
/// Connections at once.
const MAX_CONNECTIONS: usize = 4096;
const MAX_EVENTS: usize = 128;
/// Bytes of the content of an object that are kept.
const MAX_KEPT: usize = 4096;
const LISTENER: u64 = u64::MAX;
const LOOK_NS: i64 = 50_000_000;

/// A running server; it ends when it is dropped.
pub struct NullServer {
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
    requests: Arc<AtomicU64>,
}

impl NullServer {
    /// Starts it. With `every_key`, each key has an object of that many bytes, whether it was written or not.
    pub fn start(bind: SocketAddr, every_key: Option<u64>) -> io::Result<Self> {
        let listener = TcpListener::bind(bind)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        let (stop, requests) = (Stop::new(), Arc::new(AtomicU64::new(0)));
        let mut serving = Serving {
            listener,
            poll,
            clients: Vec::new(),
            store: Store { every_key, ..Store::default() },
            payload: Payload::new(1),
            buffer: vec![0; BUFFER],
            requests: requests.clone(),
        };
        let until = stop.clone();
        let thread = thread::Builder::new().name("hwdyno-null".into()).spawn(move || serving.serve(&until))?;
        Ok(Self { address, stop, thread: Some(thread), requests })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests it has answered.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One client's connection.
struct Client {
    stream: TcpStream,
    /// The head of a request that is not whole.
    inbox: Vec<u8>,
    /// The request whose body is awaited, the bytes that are missing, and those that are kept.
    awaited: Option<(Question, u64, Vec<u8>)>,
    outbox: Vec<u8>,
    /// Bytes of the outbox and of the object behind it that were written, and that object's length.
    sent: u64,
    body: u64,
    closes: bool,
}

impl Client {
    fn is_answering(&self) -> bool {
        self.sent < self.outbox.len() as u64 + self.body
    }

    /// Whether it still lives.
    fn write_on(&mut self, payload: &Payload) -> bool {
        while self.is_answering() {
            let head = self.outbox.len() as u64;
            let at = self.sent.saturating_sub(head);
            let parts = [
                IoSlice::new(&self.outbox[self.sent.min(head) as usize..]),
                IoSlice::new(payload.piece(0, at, self.body - at)),
            ];
            match self.stream.write_vectored(&parts) {
                Ok(0) => return false,
                Ok(count) => self.sent += count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        !self.closes
    }
}

struct Serving {
    listener: TcpListener,
    poll: OwnedFd,
    clients: Vec<Option<Client>>,
    store: Store,
    payload: Payload,
    buffer: Vec<u8>,
    requests: Arc<AtomicU64>,
}

impl Serving {
    fn serve(&mut self, stop: &Stop) {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        let wait = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
        while !stop.is_set() {
            events.clear();
            let waited = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&wait));
            if !matches!(waited, Ok(_) | Err(rustix::io::Errno::INTR)) {
                return;
            }
            for event in &events {
                match { event.data }.u64() {
                    LISTENER => self.accept(),
                    number => self.look(number as usize),
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let place = match self.clients.iter().position(Option::is_none) {
                Some(place) => place,
                None if self.clients.len() < MAX_CONNECTIONS => {
                    self.clients.push(None);
                    self.clients.len() - 1
                }
                None => continue,
            };
            let number = epoll::EventData::new_u64(place as u64);
            let is_watched = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok()
                && epoll::add(&self.poll, &stream, number, epoll::EventFlags::IN).is_ok();
            if is_watched {
                let (inbox, outbox) = (Vec::with_capacity(MAX_HEAD), Vec::with_capacity(512));
                let client = Client { stream, inbox, awaited: None, outbox, sent: 0, body: 0, closes: false };
                self.clients[place] = Some(client);
            }
        }
    }

    fn look(&mut self, number: usize) {
        let Some(mut client) = self.clients.get_mut(number).and_then(Option::take) else { return };
        let was_answering = client.is_answering();
        if self.go_on(&mut client) {
            let is_answering = client.is_answering();
            if is_answering != was_answering {
                let flags = if is_answering { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
                let _ = epoll::modify(&self.poll, &client.stream, epoll::EventData::new_u64(number as u64), flags);
            }
            self.clients[number] = Some(client);
        }
    }

    /// Whether the client stays.
    fn go_on(&mut self, client: &mut Client) -> bool {
        if client.is_answering() {
            return client.write_on(&self.payload);
        }
        let length = match client.stream.read(&mut self.buffer) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let mut from = 0;
        if client.awaited.is_none() {
            let before = client.inbox.len();
            let searched: &[u8] = if before == 0 {
                &self.buffer[..length]
            } else {
                client.inbox.extend_from_slice(&self.buffer[..length]);
                &client.inbox
            };
            let Some(end) = searched.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4) else {
                if before == 0 {
                    client.inbox.extend_from_slice(&self.buffer[..length]);
                }
                return client.inbox.len() < MAX_HEAD;
            };
            let Some(question) = Question::read(&searched[..end - 4]) else { return false };
            from = end - before.min(end);
            client.inbox.clear();
            if question.waits && question.length > 0 {
                let _ = client.stream.write(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            let missing = question.length;
            client.awaited = Some((question, missing, Vec::new()));
        }
        let Some((question, missing, kept)) = &mut client.awaited else { return false };
        let bytes = &self.buffer[from..length];
        if bytes.len() as u64 > *missing {
            return false;
        }
        *missing -= bytes.len() as u64;
        kept.extend_from_slice(&bytes[..bytes.len().min(MAX_KEPT - kept.len().min(MAX_KEPT))]);
        if *missing > 0 {
            return true;
        }
        client.outbox.clear();
        let Answered { body, closes } = self.store.answer(question, kept, &mut client.outbox);
        (client.sent, client.body, client.closes, client.awaited) = (0, body, closes, None);
        self.requests.fetch_add(1, Ordering::Relaxed);
        client.write_on(&self.payload)
    }
}
