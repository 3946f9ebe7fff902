//! A store behind TLS: requests are complete, and what is wrong with a certificate or a server is one line that says so.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hwdyno_engine::{run, Stop};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use serde_json::{json, Value};

type Stream = StreamOwned<ServerConnection, TcpStream>;
type Answer = fn(&mut Stream, &[u8]);

const SIZE: usize = 300_000;

fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
}

/// A TLS store whose certificate is that file; every request whose body is complete is answered by `answer`.
fn store(name: &str, version: &'static SupportedProtocolVersion, answer: Answer) -> String {
    let chain = vec![CertificateDer::from_pem_file(certificate(name)).unwrap()];
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    raw_store(move |connection| {
        let tls = ServerConnection::new(config.clone()).unwrap();
        serve(StreamOwned::new(tls, connection), answer);
    })
}

fn raw_store(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(connection));
        }
    });
    format!("https://{place}")
}

fn serve(mut stream: Stream, answer: Answer) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&head).into_owned();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            if stream.read_exact(&mut body).is_err() {
                return;
            }
            if head.starts_with(b"HEAD") {
                let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n");
                let _ = stream.write_all(text.as_bytes());
            } else {
                answer(&mut stream, &body);
            }
            head.clear();
        }
    }
}

fn say(stream: &mut Stream, text: &str) {
    let _ = stream.write_all(text.as_bytes());
}

fn right(stream: &mut Stream, body: &[u8]) {
    let length = if body.is_empty() { SIZE } else { 0 };
    say(stream, &format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{}", "x".repeat(length)));
}

fn given(endpoint: &str) -> Value {
    std::env::set_var("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
    std::env::set_var("AWS_SECRET_ACCESS_KEY", "hunter2hunter2");
    json!({"endpoint": endpoint, "bucket": "bench", "object_size": SIZE, "concurrency": 2, "runtime": 0.2,
           "timeout": 1.0, "tls": endpoint.starts_with("https"), "ca_file": certificate("authority.pem")})
}

fn refused(wanted: &Value) -> String {
    let began = Instant::now();
    let says = run("object_requests", wanted, &Stop::new()).unwrap_err().to_string();
    assert!(began.elapsed() < Duration::from_secs(10), "{says}: {:?}", began.elapsed());
    assert!(!says.contains('\n'), "{says}");
    says
}

#[test]
fn requests_by_both_versions_are_complete() {
    for version in [&TLS12, &TLS13] {
        let mut wanted = given(&store("right.pem", version, right));
        for keep_alive in [true, false] {
            wanted["keep_alive"] = json!(keep_alive);
            let reading = run("object_requests", &wanted, &Stop::new()).unwrap();
            assert!(reading.faults.is_empty(), "{version:?}: {:?}", reading.faults);
            let stream = &reading.streams[0];
            assert!(stream.operations > 0 && stream.bytes == stream.operations * SIZE as u64, "{stream:?}");
            let suite = reading.details.get("tls_suite").and_then(Value::as_str);
            assert!(suite.is_some_and(|suite| suite.contains("_AES_")), "keep_alive {keep_alive}: {suite:?}");
            assert!(reading.details.contains_key("tls_bytes_cpu_s"));
        }
    }
}

#[test]
fn a_written_object_comes_whole() {
    let answer: Answer = |stream, body| {
        let mark = "an object run of hwdyno\nprefix hwdyno-0123456789abcdef/\nboot b\npid 1\nprocess 1\nsecond 1\n";
        match body.len() {
            0 => say(stream, &format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{mark}", mark.len())),
            SIZE => say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
            _ => say(stream, "HTTP/1.1 400 x\r\ncontent-length: 0\r\n\r\n"),
        }
    };
    let mut wanted = given(&store("right.pem", &TLS13, answer));
    (wanted["operation"], wanted["prefix"]) = (json!("put"), json!("hwdyno-0123456789abcdef/"));
    let reading = run("object_requests", &wanted, &Stop::new()).unwrap();
    assert!(reading.faults.is_empty() && reading.streams[0].operations > 0, "{:?}", reading.faults);
}

#[test]
fn a_wrong_certificate_is_one_line() {
    for (name, says, advice) in [
        ("expired.pem", "its certificate has expired", "renew the store's certificate"),
        ("other-name.pem", "its certificate is for store.example", "use a name of its certificate"),
    ] {
        let found = refused(&given(&store(name, &TLS13, right)));
        assert!(found.contains(says) && found.contains(advice) && found.contains("https://127.0.0.1:"), "{found}");
    }
    let mut unknown = given(&store("right.pem", &TLS13, right));
    unknown["ca_file"] = json!(certificate("expired.pem"));
    let found = refused(&unknown);
    assert!(found.contains("an authority that is not known here") && found.contains("--ca-file"), "{found}");
}

#[test]
fn a_wrong_file_of_authorities_is_one_line() {
    for (file, says) in [
        ("nothing.pem", "No such file"),
        ("server.key", "has no certificate of an authority"),
        ("", "is no file of certificates"),
    ] {
        let mut wanted = given("https://127.0.0.1:1");
        wanted["ca_file"] = json!(certificate(file));
        let found = refused(&wanted);
        assert!(found.contains(says), "{file}: {found}");
    }
}

#[test]
fn a_server_that_speaks_the_other_protocol_is_named() {
    let plain = raw_store(|mut connection| {
        let mut bytes = [0; 4096];
        let _ = connection.read(&mut bytes);
        let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    });
    let found = refused(&given(&plain));
    assert!(found.contains("it does not speak TLS") && found.contains("use http://"), "{found}");
    // It waits for the end of a head, as most servers do.
    let waiting = raw_store(|mut connection| {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while connection.read(&mut byte).is_ok_and(|count| count == 1) {
            head.push(byte[0]);
            if head.ends_with(b"\r\n\r\n") {
                let _ = connection.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
            }
        }
    });
    let found = refused(&given(&waiting));
    assert!(found.contains("it does not speak TLS") && found.contains("use http://"), "{found}");
    let secure = store("right.pem", &TLS13, right).replace("https", "http");
    let found = refused(&given(&secure));
    assert!(found.contains("the store uses TLS") && found.contains("use https://"), "{found}");
    let silent = raw_store(|mut connection| drop(connection.read(&mut [0; 10])));
    let found = refused(&given(&silent.replace("https", "http")));
    assert!(found.contains("the connection ended") && found.contains("use https://"), "{found}");
    let by_text = raw_store(|mut connection| {
        let text = "Client sent an HTTP request to an HTTPS server.\n";
        let head = format!("HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\n{text}");
        let _ = connection.write_all(head.as_bytes());
        let _ = connection.read(&mut [0; 4096]);
    });
    let mut wanted = given(&by_text.replace("https", "http"));
    (wanted["operation"], wanted["prefix"]) = (json!("put"), json!("hwdyno-0123456789abcdef/"));
    let found = refused(&wanted);
    assert!(found.contains("the store uses TLS") && found.contains("use https://"), "{found}");
}

#[test]
fn a_handshake_that_does_not_end_is_over_by_its_deadline() {
    let silent = raw_store(|mut connection| while connection.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {});
    let found = refused(&given(&silent));
    assert!(found.contains("connect to the store at https://") && found.contains("port for TLS"), "{found}");
    let slow = raw_store(|mut connection| {
        for byte in [0x16, 3, 3, 0x3f, 0xff].into_iter().chain(std::iter::repeat(0)) {
            if connection.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let found = refused(&given(&slow));
    assert!(found.contains("connect to the store at https://"), "{found}");
    let gone = raw_store(|mut connection| drop(connection.read(&mut [0; 10])));
    let found = refused(&given(&gone));
    assert!(found.contains("connect to the store at https://"), "{found}");
}

#[test]
fn what_breaks_later_is_counted_by_kind() {
    let cases: &[(&str, Answer)] = &[
        ("TLS could not begin, or broke", |stream, _| {
            let _ = stream.flush();
            let _ = stream.sock.write_all(&[0x17, 3, 3, 0, 40].iter().copied().chain([7; 40]).collect::<Vec<_>>());
        }),
        ("the connection ended", |stream, _| {
            say(stream, "HTTP/1.1 200 OK\r\n\r\ncut off");
            let _ = stream.sock.shutdown(std::net::Shutdown::Both);
        }),
        ("another length", |stream, _| say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcd")),
    ];
    for (says, answer) in cases {
        let reading = run("object_requests", &given(&store("right.pem", &TLS13, *answer)), &Stop::new()).unwrap();
        let found: Vec<_> = reading.faults.iter().map(|fault| fault.says.as_str()).collect();
        assert!(found.iter().any(|found| found.contains(says)), "{says}: {found:?}");
        assert_eq!(reading.streams[0].operations, 0, "{says}");
    }
}
