//! A store that answers wrongly: each request ends by its deadline and is counted by kind, and no error shows a secret.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hwdyno_engine::{run, Reading, Stop};
use serde_json::{json, Value};

type Answer = fn(&mut TcpStream);

const SIZE: usize = 5000;
const SECRET: &str = "hunter2hunter2";

/// A store that looks right to a HEAD, and answers every other request as a function says.
fn store(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || serve(connection, answer));
        }
    });
    format!("http://{place}")
}

fn serve(mut connection: TcpStream, answer: Answer) {
    let mut head = Vec::new();
    let mut byte = [0];
    while connection.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            if head.starts_with(b"HEAD") {
                let _ = connection.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n").as_bytes());
            } else {
                answer(&mut connection);
            }
            head.clear();
        }
    }
}

fn say(connection: &mut TcpStream, text: &str) {
    let _ = connection.write_all(text.as_bytes());
}

fn given(endpoint: &str) -> Value {
    std::env::set_var("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
    std::env::set_var("AWS_SECRET_ACCESS_KEY", SECRET);
    json!({"endpoint": endpoint, "bucket": "bench", "object_size": SIZE, "concurrency": 2, "runtime": 0.1, "timeout": 0.4})
}

/// The faults of a short run against such a store; it is over within its deadlines.
fn faults(answer: Answer) -> String {
    let began = Instant::now();
    let reading = run("object_requests", &given(&store(answer)), &Stop::new()).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let counted: u64 = reading.faults.iter().map(|fault| fault.count).sum();
    assert_eq!(reading.streams[1].latency_ns["until_failure"]["count"], counted, "{:?}", reading.streams);
    let text = serde_json::to_string(&reading).unwrap();
    assert!(!text.contains(SECRET) && !text.contains("AKIDEXAMPLE"));
    assert_eq!(reading.streams[0].operations, 0);
    reading.faults.iter().map(|fault| fault.says.as_str()).collect::<Vec<_>>().join("; ")
}

#[test]
fn wrong_answers_are_counted_by_kind() {
    let cases: &[(&str, Answer)] = &[
        ("is not HTTP/1.1", |to| say(to, "SSH-2.0-OpenSSH_9\r\n")),
        ("is not HTTP/1.1", |to| say(to, &format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(10_000)))),
        ("is not HTTP/1.1", |to| say(to, &"HTTP/1.1 100 Continue\r\n\r\n".repeat(50))),
        ("is not HTTP/1.1", |to| say(to, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n")),
        ("another length", |to| say(to, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcd")),
        ("another length", |to| say(to, "HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\nabcd")),
        ("another length", |to| {
            say(to, &format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n{}", "x".repeat(SIZE + 1)));
        }),
        ("3xx", |to| say(to, "HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")),
        ("no complete response by the deadline", |_| {}),
        ("no complete response by the deadline", |to| say(to, "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\nhalf")),
        ("503 SlowDown", |to| say(to, "HTTP/1.1 503 x\r\ncontent-length: 28\r\n\r\n<E><Code>SlowDown</Code></E>")),
        ("the connection ended", |to| drop(to.shutdown(std::net::Shutdown::Both))),
        ("RequestTimeTooSkewed", |to| {
            let body = "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference …</Message></Error>";
            say(to, &format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        }),
        ("no complete response by the deadline", |to| {
            say(to, "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n");
            while to.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        }),
    ];
    for (says, answer) in cases {
        let found = faults(*answer);
        assert!(found.contains(says), "{says}: {found}");
    }
}

#[test]
fn a_response_after_an_interim_one_is_read() {
    let answer: Answer = |to| {
        let body = "x".repeat(SIZE);
        say(to, &format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n{body}"));
    };
    let reading = run("object_requests", &given(&store(answer)), &Stop::new()).unwrap();
    assert!(reading.faults.is_empty() && reading.streams[0].operations > 0, "{:?}", reading.faults);
}

#[test]
fn a_wrong_checksum_is_found() {
    let answer: Answer = |to| {
        let sums = "x-amz-checksum-crc32c: AAAAAA==\r\nx-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\n\
            x-amz-checksum-sha256: 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\r\n";
        let head = format!("HTTP/1.1 200 OK\r\n{sums}content-length: {SIZE}\r\n\r\n");
        say(to, &format!("{head}{}", "x".repeat(SIZE)));
    };
    let mut wanted = given(&store(answer));
    for checksum in ["crc32c", "crc64nvme", "sha256-trailer"] {
        wanted["checksum"] = json!(checksum);
        let reading = run("object_requests", &wanted, &Stop::new()).unwrap();
        assert!(reading.faults[0].says.contains("checksum"), "{checksum}: {:?}", reading.faults);
    }
}

#[test]
fn what_ends_a_run_before_it_begins_is_one_line() {
    let refused = |kernel: &str, changes: Value| {
        let mut wanted = given(&store(|to| {
            let body = "<Error><Code>RequestTimeTooSkewed</Code><Message>hunter2</Message></Error>";
            say(to, &format!("HTTP/1.1 403 x\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        }));
        for (name, value) in changes.as_object().into_iter().flatten() {
            wanted[name] = value.clone();
        }
        for name in ["object_size", "concurrency", "runtime"] {
            if kernel == "object_removal" {
                wanted.as_object_mut().unwrap().remove(name);
            }
        }
        let says = run(kernel, &wanted, &Stop::new()).unwrap_err().to_string();
        assert!(!says.contains("hunter2") && !says.contains('\n'), "{says}");
        says
    };
    let skewed = refused("object_requests", json!({"operation": "put", "prefix": "hwdyno-0123456789abcdef/"}));
    assert!(skewed.contains("RequestTimeTooSkewed") && skewed.contains("set this machine's clock"), "{skewed}");
    let unmarked = refused("object_requests", json!({"operation": "put", "prefix": "data/"}));
    assert!(unmarked.contains("only below hwdyno-… of a run"), "{unmarked}");
    let removal = refused("object_removal", json!({"prefix": "data/"}));
    assert!(removal.contains("only below hwdyno-… of a run"), "{removal}");
    let nothing = refused("object_requests", json!({"endpoint": "http://127.0.0.1:1"}));
    assert!(nothing.contains("connect to the store at http://127.0.0.1:1"), "{nothing}");
}

/// Reads the object of such a store by two ranges.
fn fetch(answer: Answer) -> Result<Reading, String> {
    let given = given(&store(answer));
    let parameters = json!({"endpoint": given["endpoint"], "bucket": "bench", "prefix": "models/", "object": "weights",
        "timeout": 1.0, "threads": 2, "chunk": SIZE / 2});
    let began = Instant::now();
    let found = run("object_fetch", &parameters, &Stop::new()).map_err(|error| error.to_string());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    found
}

fn give_half(to: &mut TcpStream) {
    say(to, &format!("HTTP/1.1 206 Partial Content\r\ncontent-length: {0}\r\n\r\n{1:0$}", SIZE / 2, ' '));
}

#[test]
fn refusals_that_end_are_repeated_and_counted() {
    static REFUSALS: AtomicU64 = AtomicU64::new(0);
    let reading = fetch(|to| match REFUSALS.fetch_add(1, Ordering::Relaxed) {
        0..=2 => say(to, "HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n"),
        _ => give_half(to),
    })
    .unwrap();
    assert_eq!((reading.streams[0].operations, reading.streams[0].bytes), (2, SIZE as u64));
    assert_eq!((&reading.details["requests"], &reading.details["requests_repeated"]), (&json!(6), &json!(3)));
    assert!(reading.notes.iter().any(|note| note.code == "requests_repeated"), "{:?}", reading.notes);
}

#[test]
fn what_ends_a_fetch_is_one_line() {
    let cases: &[(&str, Answer)] = &[
        ("503 SlowDown: the store sheds load; use fewer --threads", |to| {
            say(to, "HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n");
        }),
        ("404: the key is missing; check the bucket and the key", |to| {
            say(to, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
        }),
        ("another length than the object", |to| {
            say(to, &format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n{}", "x".repeat(SIZE)));
        }),
        ("another length than the object", |to| {
            say(to, "HTTP/1.1 206 Partial Content\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n");
        }),
        ("the connection ended before the response did", |to| {
            say(to, &format!("HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\n\r\nabc", SIZE / 2));
            let _ = to.shutdown(std::net::Shutdown::Both);
        }),
        ("no complete response by the deadline", |to| {
            say(to, &format!("HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\n\r\nabc", SIZE / 2));
        }),
    ];
    for (says, answer) in cases {
        let error = fetch(*answer).unwrap_err();
        assert!(error.starts_with("read s3://bench/models/weights: ") && error.contains(says), "{says}: {error}");
        assert!(!error.contains('\n') && !error.contains(SECRET), "{error}");
    }
}
