//! Holds the network kernels and the server against whole tests, dying and silent peers, and hostile bytes.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hwdyno_engine::network::server::{Server, Serving};
use hwdyno_engine::{run, Stop};
use serde_json::{json, Value};

fn throughput(parameters: Value) -> Value {
    let mut given = json!({"runtime": 0.2, "interval_s": 0.02});
    for (name, value) in parameters.as_object().into_iter().flatten() {
        given[name] = value.clone();
    }
    serde_json::to_value(run("network_throughput", &given, &Stop::new()).unwrap()).unwrap()
}

fn latency(parameters: Value) -> Value {
    let mut given = json!({"runtime": 0.2});
    for (name, value) in parameters.as_object().into_iter().flatten() {
        given[name] = value.clone();
    }
    serde_json::to_value(run("network_latency", &given, &Stop::new()).unwrap()).unwrap()
}

fn server(parallel_clients: bool) -> Server {
    let bind = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    Server::start(&Serving { bind, parallel_clients, once: false }).unwrap()
}

#[test]
fn every_direction_and_mode_of_tcp_moves_bytes() {
    for parameters in [
        json!({}),
        json!({"streams": 3, "direction": "both"}),
        json!({"direction": "down", "block": 64}),
        json!({"zero_copy": true, "skip_rx_copy": true}),
        json!({"direction": "down", "zero_copy": true, "skip_rx_copy": true, "streams": 2}),
        json!({"congestion": "reno", "nodelay": true, "window": 65536, "ramp_time": 0.1}),
    ] {
        let reading = throughput(parameters.clone());
        assert_eq!(reading["faults"], json!([]), "{parameters}");
        let streams = reading["streams"].as_array().unwrap();
        assert_eq!(streams.len(), if parameters["direction"] == "both" { 2 } else { 1 });
        for stream in streams {
            assert!(stream["bytes"].as_u64().unwrap() > 100_000, "{parameters}: {stream}");
        }
        let details = &reading["details"];
        assert_eq!(details["server"], "hwdyno");
        // Bytes arrive only once, and what was not received was in flight or in a buffer.
        let (sent, received) = (&details["sent_bytes"], &details["received_bytes"]);
        assert!(received.as_f64().unwrap() < sent.as_f64().unwrap() * 1.5 + 3e7, "{parameters}: {sent} {received}");
    }
    assert_eq!(throughput(json!({"congestion": "reno"}))["details"]["congestion_control"], "reno");
}

#[test]
fn a_rate_and_a_number_of_bytes_are_kept() {
    let paced = throughput(json!({"rate": 80_000_000, "block": 10_000, "runtime": 0.5}));
    let bytes = paced["streams"][0]["bytes"].as_f64().unwrap();
    assert!((3.5e6..5.6e6).contains(&bytes), "{bytes}");
    let counted = throughput(json!({"bytes": 3_000_000, "rate": 800_000_000}));
    let sent = counted["details"]["sent_bytes"].as_u64().unwrap();
    assert!((3_000_000..9_000_000).contains(&sent), "{sent}");
}

#[test]
fn datagrams_are_counted_at_both_ends_however_they_are_handed_over() {
    for handing in ["plain", "batched", "segmented"] {
        for direction in ["up", "down"] {
            let given = json!({"protocol": "udp", "handing": handing, "direction": direction,
                               "rate": 40_000_000, "block": 1000});
            let reading = throughput(given);
            let details = &reading["details"];
            assert_eq!(reading["faults"], json!([]));
            let (got, lost) =
                (details["datagrams_received"].as_u64().unwrap(), details["datagrams_lost"].as_u64().unwrap());
            let sent = details["datagrams_sent"].as_u64().unwrap();
            assert!(got > 300 && got + lost <= sent + 70, "{handing} {direction}: {got} + {lost} of {sent}");
            assert_eq!(details["datagrams_duplicated"], 0);
        }
    }
}

#[test]
fn ipv6_is_served_too() {
    let bind = "[::1]:0".parse().unwrap();
    let Ok(server) = Server::start(&Serving { bind, parallel_clients: false, once: false }) else {
        return; // this machine has no IPv6
    };
    for protocol in ["tcp", "udp"] {
        let reading = throughput(
            json!({"server": "::1", "port": server.address().port(), "protocol": protocol, "rate": 10_000_000, "block": 1000}),
        );
        assert!(reading["streams"][0]["bytes"].as_u64().unwrap() > 10_000, "{protocol}");
    }
}

#[test]
fn round_trips_are_counted_in_every_exchange() {
    for parameters in [
        json!({}),
        json!({"message": 65_536, "in_flight": 8}),
        json!({"protocol": "udp", "in_flight": 4, "message": 300}),
        json!({"exchange": "connect"}),
        json!({"load_streams": 2, "direction": "both", "ramp_time": 0.05}),
    ] {
        let reading = latency(parameters.clone());
        assert_eq!(reading["faults"], json!([]), "{parameters}");
        let stream = &reading["streams"][0];
        assert!(stream["operations"].as_u64().unwrap() > 10, "{parameters}");
        assert_eq!(stream["latency_ns"]["total"]["count"], stream["operations"]);
        if parameters["load_streams"] == 2 {
            assert!(reading["details"]["idle_p50_ns"].as_u64().unwrap() > 0);
            assert!(reading["details"]["load_down_bytes_s"].as_f64().unwrap() > 1e6);
        }
    }
}

#[test]
fn a_busy_server_says_so_and_a_parallel_one_serves() {
    let parameters = |server: &Server| json!({"server": "127.0.0.1", "port": server.address().port(), "runtime": 1.5});
    for parallel in [false, true] {
        let server = server(parallel);
        let given = parameters(&server);
        let first = std::thread::spawn(move || run("network_throughput", &given, &Stop::new()).is_ok());
        std::thread::sleep(Duration::from_millis(300));
        let mut second = parameters(&server);
        second["runtime"] = json!(0.1);
        let answer = run("network_throughput", &second, &Stop::new());
        match answer {
            Ok(_) => assert!(parallel),
            Err(error) => assert!(!parallel && error.to_string().contains("busy"), "{error}"),
        }
        assert!(first.join().unwrap());
    }
}

/// A server that says all that a test needs and then does as `then` says.
fn half_a_server(then: fn(TcpStream, Vec<TcpStream>)) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut control, _) = listener.accept().unwrap();
        let mut cookie = [0; 37];
        control.read_exact(&mut cookie).unwrap();
        control.write_all(&[9]).unwrap();
        let mut length = [0; 4];
        control.read_exact(&mut length).unwrap();
        let mut parameters = vec![0; u32::from_be_bytes(length) as usize];
        control.read_exact(&mut parameters).unwrap();
        control.write_all(&[10]).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut cookie).unwrap();
        control.write_all(&[1, 2]).unwrap();
        then(control, vec![stream]);
    });
    port
}

#[test]
fn a_peer_that_dies_in_the_middle_leaves_what_was_measured() {
    let port = half_a_server(|control, mut streams| {
        let until = Instant::now() + Duration::from_millis(200);
        let mut buffer = vec![0; 1 << 16];
        while Instant::now() < until {
            let _ = streams[0].read(&mut buffer);
        }
        drop((control, streams));
    });
    let began = Instant::now();
    let reading = throughput(json!({"server": "127.0.0.1", "port": port, "runtime": 5.0}));
    assert!(began.elapsed() < Duration::from_secs(3));
    assert!(reading["streams"][0]["bytes"].as_u64().unwrap() > 0);
    assert!(reading["faults"][0]["says"].as_str().unwrap().contains("closed"), "{}", reading["faults"]);
    assert_eq!(reading["notes"][0]["code"], "counted_at_the_sender");
}

#[test]
fn a_path_that_swallows_everything_ends_within_the_deadline() {
    let port = half_a_server(|control, streams| {
        std::thread::sleep(Duration::from_secs(30));
        drop((control, streams));
    });
    let began = Instant::now();
    let reading = throughput(json!({"server": "127.0.0.1", "port": port, "runtime": 0.2}));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert!(reading["faults"][0]["says"].as_str().unwrap().contains("in time"));
}

#[test]
fn a_stop_ends_it_early_with_what_there_is() {
    let stop = Stop::new();
    let for_thread = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        for_thread.set();
    });
    let began = Instant::now();
    let reading = run("network_throughput", &json!({"runtime": 30.0}), &stop).unwrap();
    assert!(reading.interrupted && began.elapsed() < Duration::from_secs(12));
    assert!(reading.details["sent_bytes"].as_u64() > Some(0));
}

#[test]
fn nobody_at_the_other_end_is_one_line() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = run("network_throughput", &json!({"server": "127.0.0.1", "port": port}), &Stop::new()).unwrap_err();
    assert!(error.to_string().contains("iperf3 -s") && !error.to_string().contains('\n'), "{error}");
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

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..=self.next() % most).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn hostile_bytes_at_every_state_do_no_harm() {
    let server = server(true);
    let mut noise = Noise(0x9E37_79B9);
    let mut cookie = [b'a'; 37];
    for round in 0..150_u32 {
        let Ok(mut control) = TcpStream::connect(server.address()) else { panic!("round {round}: it is gone") };
        control.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        cookie[..4].copy_from_slice(&round.to_be_bytes());
        let stage = round % 6;
        let mut send = |bytes: &[u8]| {
            let _ = control.write_all(bytes);
        };
        if stage == 0 {
            send(&noise.bytes(200));
            continue;
        }
        send(&cookie);
        let udp = round % 4 == 1;
        let mut parameters =
            json!({if udp { "udp" } else { "tcp" }: true, "parallel": 1, "len": 1000, "time": 1, "hwdyno": {}});
        if stage == 2 {
            // Known names with wild values.
            for name in ["parallel", "len", "window", "MSS", "TOS", "bandwidth", "time", "omit", "burst", "congestion"]
            {
                parameters[name] = match noise.next() % 5 {
                    0 => json!(noise.next()),
                    1 => json!(-(noise.next() as i64 >> 8)),
                    2 => json!("x".repeat((noise.next() % 300) as usize)),
                    3 => json!({"a": [1]}),
                    _ => json!(1e308),
                };
            }
        }
        let text = parameters.to_string();
        if stage == 1 {
            send(&noise.bytes(9000));
            continue;
        }
        send(&(text.len() as u32).to_be_bytes());
        send(text.as_bytes());
        let mut states = [0; 2];
        let _ = control.read(&mut states);
        if stage >= 4 {
            if udp {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                let _ = socket.send_to(&noise.bytes(100), server.address());
                let _ = socket.send_to(b"9876", server.address());
                let _ = socket.send_to(&noise.bytes(2000), server.address());
            } else if let Ok(mut stream) = TcpStream::connect(server.address()) {
                let _ = stream.write_all(&cookie);
                let _ = stream.write_all(&noise.bytes(5000));
            }
        }
        if stage == 5 {
            let _ = control.write_all(&[4]);
            let _ = control.read(&mut states);
        }
        let _ = control.write_all(&noise.bytes(300));
    }
    let reading = throughput(json!({"server": "127.0.0.1", "port": server.address().port()}));
    assert!(reading["streams"][0]["bytes"].as_u64().unwrap() > 0);
    assert!(server.served().failed.load(Ordering::Relaxed) > 50);
}

#[test]
fn slow_clients_hold_nobody_up() {
    let server = server(false);
    // Ten that never finish their cookie, and far more than may wait.
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
    let reading = throughput(json!({"server": "127.0.0.1", "port": server.address().port(), "runtime": 0.05}));
    assert!(reading["streams"][0]["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn nobody_is_sent_datagrams_who_did_not_ask() {
    let server = server(false);
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
    let mut answer = [0; 64];
    // While nothing is tested, no port is open for datagrams at all.
    stranger.send_to(b"9876", server.address()).unwrap();
    assert!(stranger.recv_from(&mut answer).is_err());
    // While one client opens its streams, another address gets no answer, and the client does.
    let mut control = TcpStream::connect(server.address()).unwrap();
    control.write_all(&[b'a'; 37]).unwrap();
    let mut state = [0];
    control.read_exact(&mut state).unwrap();
    let text = json!({"udp": true, "parallel": 1, "len": 1000, "reverse": true}).to_string();
    control.write_all(&(text.len() as u32).to_be_bytes()).unwrap();
    control.write_all(text.as_bytes()).unwrap();
    control.read_exact(&mut state).unwrap();
    assert_eq!(state, [10]);
    stranger.send_to(b"9876", server.address()).unwrap();
    assert!(stranger.recv_from(&mut answer).is_err());
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    client.send_to(b"9876", server.address()).unwrap();
    assert_eq!(client.recv_from(&mut answer).map(|(length, _)| length).unwrap(), 4);
}
