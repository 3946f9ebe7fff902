//! Holds the network server against hostile bytes at every state, slow and greedy clients, and forged datagrams.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

mod client;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use client::{framed, Client, State, KINDS, STATES};
use hwdyno_engine::parts::{Server, Serving};
use hwdyno_engine::{run, Stop};
use serde_json::json;

fn serving() -> Serving {
    Serving::at(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))
}

/// Fails unless an honest client is served now.
fn assert_serves(server: &Server) {
    for protocol in ["tcp", "udp"] {
        let given = json!({"server": "127.0.0.1", "port": server.address().port(), "runtime": 0.05,
                           "protocol": protocol, "block": 1000, "rate": 80_000_000});
        let reading = run("network_throughput", &given, &Stop::new()).unwrap();
        assert!(reading.streams[0].bytes > 0, "{protocol}");
    }
}

/// Deterministic bytes (xorshift).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// What a hostile client sends at whichever state: each is wrong in another way.
fn malformed(noise: &mut Noise) -> Vec<(&'static str, Vec<u8>)> {
    let mut inputs = vec![
        ("nothing", Vec::new()),
        ("one byte", vec![0]),
        ("a cookie cut short", vec![b'x'; 20]),
        ("a cookie of zeroes", vec![0; 37]),
        ("a length of nothing", vec![0; 4]),
        ("a length beyond all", u32::MAX.to_be_bytes().to_vec()),
        ("a length just beyond", ((4 << 20) + 1_u32).to_be_bytes().to_vec()),
        ("a text cut short", framed(&[b' '; 500])[..100].to_vec()),
        ("no JSON", framed(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")),
        ("a list", framed(b"[1,2,3]")),
        ("a number", framed(b"17")),
        ("deep nesting", framed("[".repeat(8000).as_bytes())),
        ("deep objects", framed("{\"a\":".repeat(1600).as_bytes())),
        ("no text", framed(&[0xFF; 300])),
        ("zeroes for text", framed(&[0; 300])),
        ("a JSON string that never ends", framed(b"{\"tcp")),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(40)),
        (
            "results of nonsense",
            framed(br#"{"streams":[{"id":-1,"bytes":1e308,"packets":"x"},7,null],"cpu_util_user":[]}"#),
        ),
    ];
    for name in ["parallel", "len", "window", "MSS", "TOS", "bandwidth", "time", "omit", "burst", "num", "blockcount"] {
        for value in [json!(-1), json!(u64::MAX), json!(1e308), json!("x".repeat(200)), json!({"a": [1]}), json!(null)]
        {
            let mut told = json!({"tcp": true, "parallel": 1, "len": 1000, "time": 1, "hwdyno": {}});
            told[name] = value;
            inputs.push(("wild parameters", framed(told.to_string().as_bytes())));
        }
    }
    let wild_echo =
        json!({"udp": true, "parallel": 0, "hwdyno": {"echo": {"message": u64::MAX, "udp": 7}, "runtime_s": -1}});
    inputs.push(("a wild echo", framed(wild_echo.to_string().as_bytes())));
    for state in i8::MIN..=i8::MAX {
        inputs.push(("a state", vec![state as u8]));
    }
    for count in [2, 36, 38, 300, 9000, 100_000] {
        inputs.push(("noise", noise.bytes(count)));
    }
    inputs
}

/// Takes the connection down at once (`RST`) instead of closing it.
fn reset(stream: TcpStream) {
    use std::os::fd::AsRawFd;
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let length = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the option's value is a linger that lives through the call, of the length given.
    unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), length)
    };
    drop(stream);
}

#[test]
fn every_malformed_input_at_every_state_of_every_test_does_no_harm() {
    let server = Server::start(&Serving { parallel_clients: true, ..serving() }).unwrap();
    let mut noise = Noise(0x9E37_79B9);
    let inputs = malformed(&mut noise);
    let mut number = 0;
    for kind in KINDS {
        for state in STATES {
            for (at, (name, bytes)) in inputs.iter().enumerate() {
                // Every byte counts where one is a state, every parameter where they are read; elsewhere some do.
                let thinned = match *name {
                    "a state" => state != State::Running || (kind.name != "tcp up" && kind.name != "udp up"),
                    "wild parameters" => state != State::Parameters,
                    _ => false,
                };
                if thinned && at % 16 != 0 {
                    continue;
                }
                number += 1;
                let mut client = Client::reach(&server, kind, state, number);
                let _ = client.control.write_all(bytes);
                if let Some(socket) = &client.datagrams {
                    for length in [0, 1, 4, 15, 16, 1000, 9000] {
                        let _ = socket.send(&noise.bytes(length));
                    }
                    let _ = socket.send(&[0xFF; 64]);
                }
                if at % 3 == 0 {
                    reset(client.control);
                }
            }
        }
    }
    assert!(number > 1000, "{number}");
    assert_serves(&server);
}

#[test]
fn streams_that_are_not_what_was_agreed_do_no_harm() {
    let server = Server::start(&serving()).unwrap();
    let kind = KINDS[0];
    // Another cookie, half of one, a stream that closes at once: the waiting client gets an error, others are served.
    for (number, bytes) in [(1, vec![b'z'; 37]), (2, vec![b'b'; 10]), (3, Vec::new())] {
        let client = Client::reach(&server, kind, State::Streams, number);
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let _ = stream.write_all(&bytes);
        drop((stream, client));
        assert_serves(&server);
    }
    // Far more streams than agreed.
    let mut client = Client::reach(&server, kind, State::Running, 4);
    let mut cookie = [b'b'; 37];
    cookie[..8].copy_from_slice(b"00000004");
    cookie[36] = 0;
    for _ in 0..40 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let _ = stream.write_all(&cookie);
        client.streams.push(stream);
    }
    drop(client);
    assert_serves(&server);
}

#[test]
fn slow_clients_hold_nobody_up() {
    let server = Server::start(&serving()).unwrap();
    // Far more than may wait, and none of them finishes its cookie.
    let slow: Vec<_> = (0..100)
        .filter_map(|_| {
            let mut stream = TcpStream::connect(server.address()).ok()?;
            stream.write_all(b"half").ok()?;
            Some(stream)
        })
        .collect();
    assert!(slow.len() > 50);
    // As soon as their deadline is over at the latest, others are served.
    std::thread::sleep(Duration::from_millis(3500));
    assert_serves(&server);
}

#[test]
fn a_client_that_sends_a_byte_now_and_then_has_one_deadline_at_every_state() {
    let states: Vec<_> = [State::Cookie, State::Parameters, State::Streams, State::Results, State::Goodbye]
        .into_iter()
        .flat_map(|state| [(state, KINDS[0]), (state, KINDS[2])])
        .collect();
    // All at once: what counts is that each is shut out in time, no matter what it drips.
    std::thread::scope(|scope| {
        for (state, kind) in states {
            scope.spawn(move || {
                let server = Server::start(&serving()).unwrap();
                let mut client = Client::reach(&server, kind, state, 1);
                client.control.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
                let began = Instant::now();
                // A length that promises more, a byte at a time; in the states of one byte, nothing.
                let drip: &[u8] =
                    if matches!(state, State::Parameters | State::Results) { &[0, 0, 15, 0] } else { &[] };
                let _ = client.control.write_all(drip);
                let mut answer = [0; 64];
                while !matches!(client.control.read(&mut answer), Ok(0)) {
                    if matches!(state, State::Cookie | State::Parameters | State::Results) {
                        let _ = client.control.write_all(b" ");
                    }
                    assert!(began.elapsed() < Duration::from_secs(9), "{state:?} of {} is held open", kind.name);
                    if client.control.write_all(&[]).is_err() {
                        break;
                    }
                }
                drop(client);
                assert_serves(&server);
            });
        }
    });
}

#[test]
fn a_test_in_which_nothing_moves_is_ended() {
    let server = Server::start(&Serving { silence: Duration::from_millis(300), ..serving() }).unwrap();
    // One sends nothing any more, the other takes nothing.
    for (number, kind) in [(1, KINDS[0]), (2, KINDS[1])] {
        let mut client = Client::reach(&server, kind, State::Running, number);
        let mut state = [0];
        client.control.read_exact(&mut state).unwrap();
        assert_eq!(state, [11], "{}", kind.name);
    }
    assert!(server.served().last_failure().unwrap().contains("no data was transferred"));
    assert_serves(&server);
}

#[test]
fn all_tests_together_have_a_limit_on_memory_and_number() {
    let server = Server::start(&Serving { parallel_clients: true, ..serving() }).unwrap();
    let greedy = json!({"udp": true, "parallel": 128, "len": 65_507, "time": 5, "bidirectional": true}).to_string();
    let answer = |number: u32, text: &str| {
        let mut client = Client::reach(&server, KINDS[0], State::Parameters, number);
        client.control.write_all(&framed(text.as_bytes())).unwrap();
        let mut state = [0];
        client.control.read_exact(&mut state).unwrap();
        (client, state[0] as i8)
    };
    let (first, agreed) = answer(1, &greedy);
    assert_eq!(agreed, 10);
    let (second, refused) = answer(2, &greedy);
    assert_eq!(refused, -2, "two such tests are more than the server gives");
    let (modest, agreed) = answer(3, KINDS[0].parameters);
    assert_eq!(agreed, 10);
    drop((first, second, modest));
    // What a test occupied is free again.
    let until = Instant::now() + Duration::from_secs(8);
    let mut number = 4;
    while answer(number, &greedy).1 != 10 {
        assert!(Instant::now() < until, "memory is not given back");
        std::thread::sleep(Duration::from_millis(50));
        number += 1;
    }
    // Of clients that wait, this many are served at once, and the rest gets the answer that the server is busy.
    let mut busy = 0;
    let held: Vec<_> = (0..40)
        .map(|number| {
            let mut control = TcpStream::connect(server.address()).unwrap();
            let mut cookie = [b'c'; 37];
            cookie[..8].copy_from_slice(format!("{number:08}").as_bytes());
            control.write_all(&cookie).unwrap();
            let mut state = [0];
            control.read_exact(&mut state).unwrap();
            busy += usize::from(state[0] as i8 == -1);
            control
        })
        .collect();
    assert!(busy >= 24, "{busy} of {} were told that it is busy", held.len());
}

#[test]
fn a_client_on_the_heels_of_another_is_not_told_that_the_server_is_busy() {
    let server = Server::start(&serving()).unwrap();
    let mut first = Client::reach(&server, KINDS[0], State::Goodbye, 1);
    let mut second = TcpStream::connect(server.address()).unwrap();
    second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    second.write_all(&[b'd'; 37]).unwrap();
    let mut state = [0];
    assert!(second.read_exact(&mut state).is_err(), "it is neither served nor refused yet, but told {state:?}");
    first.control.write_all(&[16]).unwrap();
    second.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    second.read_exact(&mut state).unwrap();
    assert_eq!(state, [9], "served once the first has gone");
}

#[test]
fn nobody_is_sent_datagrams_who_did_not_ask() {
    let server = Server::start(&serving()).unwrap();
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut answer = [0; 64];
    let mut is_answered = |to: SocketAddr, bytes: &[u8]| {
        stranger.send_to(bytes, to).unwrap();
        stranger.recv_from(&mut answer).is_ok()
    };
    // While nothing is tested, no port is open for datagrams at all.
    assert!(!is_answered(server.address(), b"9876"));
    // While one client opens its streams, another address gets no answer, and the client does: four bytes for four.
    let mut client = Client::reach(&server, KINDS[3], State::Streams, 1);
    for bytes in [&b"9876"[..], b"", b"98765", &[0; 1400]] {
        assert!(!is_answered(server.address(), bytes));
    }
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    own.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    own.send_to(b"9876", server.address()).unwrap();
    let mut welcome = [0; 64];
    assert_eq!(own.recv_from(&mut welcome).map(|(length, _)| length).unwrap(), 4);
    // While data flows down, all of it goes to the client's address, and the stranger is still ignored.
    client.expect(&[1, 2], KINDS[3], State::Running);
    assert!(!is_answered(server.address(), b"9876"));
    let mut datagram = [0; 2000];
    assert!(own.recv_from(&mut datagram).unwrap().0 > 100);
    drop(client);
    // An echo answers its client alone, and with no more than came.
    let client = Client::reach(&server, KINDS[4], State::Running, 2);
    let echo = client.datagrams.as_ref().unwrap();
    let place = echo.peer_addr().unwrap();
    assert!(!is_answered(place, b"9876"));
    echo.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    echo.send(b"9876").unwrap();
    assert_eq!(echo.recv(&mut datagram).unwrap(), 4);
    echo.send(&[5; 300]).unwrap();
    assert_eq!(echo.recv(&mut datagram).unwrap(), 300);
    assert!(!is_answered(place, &[5; 300]));
}
