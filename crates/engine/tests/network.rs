//! Holds the network kernels and the server against whole tests, and against dying and silent peers.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

mod here;

use here::absent;
use hwdyno_engine::parts::{Server, Serving};
use hwdyno_engine::{run, Stop};
use serde_json::{json, Value};

/// Runs a kernel once, for 0.2 s unless its parameters set another.
fn once(kernel: &str, parameters: &Value) -> Value {
    let mut given = json!({"runtime": 0.2, "interval_s": 0.02});
    for (name, value) in parameters.as_object().into_iter().flatten() {
        given[name] = value.clone();
    }
    serde_json::to_value(run(kernel, &given, &Stop::new()).unwrap()).unwrap()
}

/// Runs it for longer and longer until enough came of it: a busy machine may let no one run for a while.
fn until(enough: impl Fn(&Value) -> bool, kernel: &str, mut parameters: Value) -> Value {
    let runtime_s = parameters["runtime"].as_f64().unwrap_or(0.2);
    let mut reading = once(kernel, &parameters);
    for times in [5.0, 25.0] {
        if enough(&reading) {
            break;
        }
        parameters["runtime"] = json!(runtime_s * times);
        reading = once(kernel, &parameters);
    }
    reading
}

fn every_stream(reading: &Value, counted: &str, least: u64) -> bool {
    reading["streams"].as_array().unwrap().iter().all(|stream| stream[counted].as_u64().unwrap() > least)
}

fn throughput(parameters: Value) -> Value {
    until(|reading| every_stream(reading, "bytes", 100_000), "network_throughput", parameters)
}

fn latency(parameters: Value) -> Value {
    let enough = |reading: &Value| {
        let idle = &reading["details"]["idle_round_trips"];
        every_stream(reading, "operations", 10) && (idle.is_null() || idle.as_u64().unwrap() > 0)
    };
    until(enough, "network_latency", parameters)
}

fn server(parallel_clients: bool) -> Server {
    let bind = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    Server::start(&Serving { parallel_clients, ..Serving::at(bind) }).unwrap()
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
    // What a sender missed of its rate within 100 ms it may make up for; a busy machine keeps it below.
    let most = |reading: &Value, bytes_s: f64| bytes_s * (reading["elapsed_s"].as_f64().unwrap() + 0.1) + 2e5;
    let paced = throughput(json!({"rate": 80_000_000, "block": 10_000, "runtime": 0.5}));
    let sent = paced["details"]["sent_bytes"].as_f64().unwrap();
    assert!((1e5..most(&paced, 1e7)).contains(&sent), "{sent} in {}", paced["elapsed_s"]);
    let counted = throughput(json!({"bytes": 3_000_000, "rate": 800_000_000}));
    let sent = counted["details"]["sent_bytes"].as_f64().unwrap();
    assert!((3e6..most(&counted, 1e8)).contains(&sent), "{sent} in {}", counted["elapsed_s"]);
    let blocks = throughput(json!({"blocks": 50, "block": 20_000, "rate": 800_000_000}));
    let sent = blocks["details"]["sent_bytes"].as_f64().unwrap();
    assert!((1e6..most(&blocks, 1e8)).contains(&sent), "{sent} in {}", blocks["elapsed_s"]);
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
            // The sender goes on for the moment between its last count and its end.
            let counted = got > 50 && got + lost <= sent + sent / 2 + 70;
            assert!(counted, "{handing} {direction}: {got} + {lost} of {sent}");
            assert_eq!(details["datagrams_duplicated"], 0);
        }
    }
}

#[test]
fn ipv6_is_served_too_and_a_dual_stack_serves_both_families() {
    for (bind, servers) in [("[::1]:0", &["::1"][..]), ("[::]:0", &["::1", "127.0.0.1"])] {
        let Ok(server) = Server::start(&Serving::at(bind.parse().unwrap())) else {
            return absent("IPv6");
        };
        for to in servers {
            let port = server.address().port();
            for (protocol, direction) in [("tcp", "up"), ("udp", "up"), ("udp", "down")] {
                let reading = throughput(json!({"server": to, "port": port, "protocol": protocol,
                                                "direction": direction, "rate": 10_000_000, "block": 1000}));
                assert!(reading["streams"][0]["bytes"].as_u64().unwrap() > 10_000, "{bind} {to} {protocol}");
                let reading = latency(json!({"server": to, "port": port, "protocol": protocol}));
                assert!(reading["streams"][0]["operations"].as_u64().unwrap() > 10, "{bind} {to} {protocol}");
            }
        }
    }
}

#[test]
fn echoes_of_the_kernel_are_counted_where_ping_is_permitted() {
    for (to, message, in_flight) in [("127.0.0.1", 56, 1), ("127.0.0.1", 1000, 16), ("::1", 64_000, 3)] {
        let given =
            json!({"server": to, "message": message, "in_flight": in_flight, "runtime": 0.1, "ramp_time": 0.02});
        if let Err(error) = run("network_ping", &given, &Stop::new()) {
            assert!(error.to_string().contains("not permitted") || to == "::1", "{error}");
            return absent("the right to ping");
        }
        let reading = until(|reading| every_stream(reading, "operations", 10), "network_ping", given.clone());
        assert_eq!(reading["faults"], json!([]), "{given}");
        let stream = &reading["streams"][0];
        assert!(stream["operations"].as_u64().unwrap() > 10, "{given}");
        assert_eq!(stream["latency_ns"]["total"]["count"], stream["operations"]);
        assert_eq!(reading["details"]["echoes_lost"], 0);
        assert_eq!(reading["details"]["family"], if to == "::1" { "IPv6" } else { "IPv4" });
        assert_eq!(reading["details"]["loopback"], true);
    }
    let paced = run("network_ping", &json!({"rate": 100.0, "runtime": 0.3}), &Stop::new()).unwrap();
    assert!((1..=31).contains(&paced.streams[0].operations), "{}", paced.streams[0].operations);
}

#[test]
fn a_senders_figures_are_told_from_whichever_end_sends() {
    for direction in ["up", "down", "both"] {
        let reading = throughput(json!({"direction": direction, "streams": 2}));
        let details = &reading["details"];
        for name in ["cwnd_mean_bytes", "rtt_mean_us", "pmtu_bytes", "mss_bytes"] {
            assert!(details[name].as_f64().unwrap() > 0.0, "{direction} {name}");
        }
        // A probe of a tail may be sent twice on a busy machine.
        assert!(details["retransmit_share"].as_f64().unwrap() < 0.05);
        for stream in details["per_stream"].as_array().unwrap() {
            assert!(stream["tcp"]["pmtu"].as_u64().unwrap() >= 1280, "{direction}: {stream}");
        }
        assert!(details["copy_bytes_s"].as_f64().unwrap() > 1e8);
        assert_eq!(details["interface"], "lo");
    }
}

#[test]
fn round_trips_are_counted_in_every_exchange() {
    for parameters in [
        json!({}),
        json!({"message": 65_536, "in_flight": 8}),
        json!({"protocol": "udp", "in_flight": 4, "message": 300}),
        json!({"exchange": "connect"}),
        json!({"waiting": "spin"}),
        json!({"waiting": "spin", "protocol": "udp", "message": 8192, "in_flight": 2}),
        json!({"load_streams": 2, "direction": "both", "ramp_time": 0.05}),
        json!({"load_streams": 2, "direction": "both", "ramp_time": 0.05, "protocol": "udp"}),
    ] {
        let reading = latency(parameters.clone());
        assert_eq!(reading["faults"], json!([]), "{parameters}");
        let stream = &reading["streams"][0];
        assert!(stream["operations"].as_u64().unwrap() > 10, "{parameters}");
        assert_eq!(stream["latency_ns"]["total"]["count"], stream["operations"]);
        if parameters["load_streams"] == 2 {
            assert!(reading["details"]["idle_p50_ns"].as_u64().unwrap() > 0);
            assert!(reading["details"]["load_down_bytes_s"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn a_busy_server_says_so_and_a_parallel_one_serves() {
    let parameters = |server: &Server| json!({"server": "127.0.0.1", "port": server.address().port(), "runtime": 4.0});
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

#[test]
fn a_client_that_was_cut_off_between_two_tests_comes_again() {
    // iperf3's server closes its socket after each test, and with it those who were waiting to be accepted.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (over, until_over) = std::sync::mpsc::channel::<()>();
    let changes = std::thread::spawn(move || {
        drop(listener.accept().unwrap());
        drop(listener);
        std::thread::sleep(Duration::from_millis(50));
        let server = Server::start(&Serving::at(address)).unwrap();
        until_over.recv().unwrap();
        drop(server);
    });
    let reading = throughput(json!({"server": "127.0.0.1", "port": address.port()}));
    over.send(()).unwrap();
    changes.join().unwrap();
    assert_eq!(reading["faults"], json!([]));
}

/// A server that sends all that a test needs and then does as `then` describes.
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
    let reading = once("network_throughput", &json!({"server": "127.0.0.1", "port": port, "runtime": 60.0}));
    assert!(began.elapsed() < Duration::from_secs(30));
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
    let reading = once("network_throughput", &json!({"server": "127.0.0.1", "port": port}));
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert!(reading["faults"][0]["says"].as_str().unwrap().contains("in time"));
}

#[test]
fn a_stop_ends_it_early_with_what_there_is() {
    // Where a machine is so busy that the test had not begun by then, the stop comes later.
    for patience_ms in [200, 2000, 10_000] {
        let stop = Stop::new();
        let for_thread = stop.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(patience_ms));
            for_thread.set();
        });
        match run("network_throughput", &json!({"runtime": 60.0}), &stop) {
            Ok(reading) if reading.details["sent_bytes"].as_u64() > Some(0) => {
                assert!(reading.interrupted && reading.elapsed_s < 30.0);
                return;
            }
            Ok(reading) => assert!(reading.interrupted),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("nothing was measured in 10 s");
}

#[test]
fn nobody_at_the_other_end_is_one_line() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = run("network_throughput", &json!({"server": "127.0.0.1", "port": port}), &Stop::new()).unwrap_err();
    assert!(error.to_string().contains("iperf3 -s") && !error.to_string().contains('\n'), "{error}");
}
