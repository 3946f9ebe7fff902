//! A vector index in a store that keeps its objects in memory: the same bytes and answers as in a file, read by ranges of
//! which a beam is in flight at once, and what becomes of requests that fail.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hwdyno_engine::{run, Error, Reading, Stop};
use serde_json::{json, Value};

const FOLDER: &str = "s3://bench/hwdyno-0123456789abcdef";
const INDEX: &str = "/bench/hwdyno-0123456789abcdef/vectors.hwdyno";
const SLOW_DOWN: &str = "HTTP/1.1 503 x\r\ncontent-length: 28\r\n\r\n<E><Code>SlowDown</Code></E>";
const DENIED: &str = "HTTP/1.1 403 x\r\ncontent-length: 32\r\n\r\n<E><Code>AccessDenied</Code></E>";

/// What a store does instead of answering rightly: by the request's line and how many requests came before.
type Fault = fn(&str, usize) -> Option<&'static str>;

#[derive(Default)]
struct Memory {
    objects: BTreeMap<String, Vec<u8>>,
    lines: Vec<String>,
    in_flight: usize,
    max_in_flight: usize,
}

/// A store in memory.
#[derive(Clone)]
struct Store {
    memory: Arc<Mutex<Memory>>,
    fault: Arc<Mutex<Fault>>,
    delay: Duration,
    endpoint: String,
}

impl Store {
    fn start(delay_ms: u64) -> Self {
        std::env::set_var("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
        std::env::set_var("AWS_SECRET_ACCESS_KEY", "hunter2hunter2");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let fault: Fault = |_, _| None;
        let (memory, delay) = (Arc::default(), Duration::from_millis(delay_ms));
        let store = Self { memory, fault: Arc::new(Mutex::new(fault)), delay, endpoint };
        let serving = store.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let store = serving.clone();
                thread::spawn(move || store.serve(connection));
            }
        });
        store
    }

    fn serve(&self, mut connection: TcpStream) {
        let (mut head, mut byte) = (Vec::new(), [0]);
        connection.set_nodelay(true).unwrap();
        while connection.read(&mut byte).is_ok_and(|count| count == 1) {
            head.push(byte[0]);
            if !head.ends_with(b"\r\n\r\n") {
                continue;
            }
            let text = String::from_utf8_lossy(&head).into_owned();
            let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let mut body = vec![0; value("content-length").map_or(0, |length| length.parse().unwrap())];
            if connection.read_exact(&mut body).is_err() {
                return;
            }
            let line = text.lines().next().unwrap().to_string();
            let before = {
                let mut memory = self.memory.lock().unwrap();
                memory.lines.push(line.clone());
                memory.in_flight += 1;
                memory.max_in_flight = memory.max_in_flight.max(memory.in_flight);
                memory.lines.len() - 1
            };
            thread::sleep(self.delay);
            let fault = *self.fault.lock().unwrap();
            let answer = match fault(&line, before) {
                Some("") => return thread::sleep(Duration::from_secs(60)),
                Some(answer) => answer.as_bytes().to_vec(),
                None => self.answer(&line, value("range"), body),
            };
            self.memory.lock().unwrap().in_flight -= 1;
            if connection.write_all(&answer).is_err() {
                return;
            }
            head.clear();
        }
    }

    fn answer(&self, line: &str, range: Option<&str>, body: Vec<u8>) -> Vec<u8> {
        let mut memory = self.memory.lock().unwrap();
        let (method, target) = line.split_once(' ').unwrap();
        let target = target.split(' ').next().unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let of = |status: &str, body: &[u8]| {
            let head = format!("HTTP/1.1 {status}\r\netag: \"e\"\r\ncontent-length: {}\r\n\r\n", body.len());
            [head.as_bytes(), body].concat()
        };
        match (method, query) {
            ("GET", query) if query.contains("list-type") => of("200 OK", b"<ListBucketResult></ListBucketResult>"),
            ("POST", "uploads=") => of("200 OK", b"<X><UploadId>u</UploadId></X>"),
            ("POST", _) => of("200 OK", b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>"),
            ("PUT", _) => {
                memory.objects.entry(path.to_string()).or_default().extend(body);
                of("200 OK", b"")
            }
            ("DELETE", _) => of("204 No Content", b""),
            ("GET" | "HEAD", _) => match memory.objects.get(path) {
                None => of("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>"),
                Some(object) if method == "HEAD" => {
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", object.len()).into_bytes()
                }
                Some(object) => match range {
                    None => of("200 OK", object),
                    Some(range) => {
                        let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
                        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
                        of("206 Partial Content", &object[first..=last])
                    }
                },
            },
            _ => of("400 Bad Request", b""),
        }
    }

    fn fail(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn run(&self, kernel: &str, changes: &Value, stop: &Stop) -> Result<Reading, Error> {
        let mut given = given(changes, FOLDER);
        given["endpoint"] = json!(self.endpoint);
        run(kernel, &given, stop)
    }

    fn build(&self, changes: &Value) -> Reading {
        self.run("inference_vector_index", changes, &Stop::new()).unwrap()
    }

    fn search(&self, changes: &Value) -> Reading {
        self.run("inference_vector_search", &searched(changes), &Stop::new()).unwrap()
    }
}

fn given(changes: &Value, path: &str) -> Value {
    let mut given = json!({"path": path, "index": "diskann", "vectors": 200, "dim": 24, "degree": 12, "queries": 4,
                           "distribution": "uniform"});
    given.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    given
}

fn searched(changes: &Value) -> Value {
    let mut given = json!({"runtime": 0.2, "search_list": 12, "probes": 4, "beam": 4});
    given.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    given
}

fn says(reading: &Reading) -> String {
    let faults = reading.faults.iter();
    faults.map(|fault| format!("{}: {}", fault.operation, fault.says)).collect::<Vec<_>>().join("; ")
}

fn detail(reading: &Reading, name: &str) -> f64 {
    reading.details[name].as_f64().unwrap()
}

#[test]
fn an_object_has_the_bytes_and_the_answers_of_a_file() {
    for kind in ["diskann", "hnsw", "ivf"] {
        let folder = std::env::temp_dir().join(format!("hwdyno-object-index-{kind}-{}", std::process::id()));
        // Of a single query the means are exact, however many times it is answered.
        let (store, kind) = (Store::start(0), json!({"index": kind, "queries": 1}));
        let built = run("inference_vector_index", &given(&kind, folder.to_str().unwrap()), &Stop::new()).unwrap();
        let reading = store.build(&kind);
        assert_eq!(reading.streams[0].bytes, built.streams[0].bytes);
        let object = store.memory.lock().unwrap().objects[INDEX].clone();
        assert!(object == std::fs::read(folder.join("vectors.hwdyno")).unwrap(), "{kind}: other bytes");
        let mut wanted = searched(&kind);
        (wanted["runtime"], wanted["direct"]) = (json!(0.5), json!(false));
        let of_file = given(&wanted, folder.to_str().unwrap());
        let (file, found) = (run("inference_vector_search", &of_file, &Stop::new()).unwrap(), store.search(&wanted));
        assert!(found.faults.is_empty(), "{}", says(&found));
        for name in ["recall", "reads_per_query", "bytes_per_query", "hops_per_query"] {
            assert_eq!(found.details[name], file.details[name], "{kind} {name}");
        }
        assert!(detail(&found, "recall") > 0.2 && found.counters.is_empty());
        let reads = detail(&found, "reads_per_query") * found.streams[0].operations as f64;
        assert_eq!(found.details["store_requests"], reads.round() as u64);
        assert_eq!(found.details["connections_made"], 4);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_beam_of_each_thread_is_in_flight_at_once() {
    let store = Store::start(3);
    store.build(&json!({}));
    for (threads, beam) in [(1, 1), (1, 6), (2, 4)] {
        store.memory.lock().unwrap().max_in_flight = 0;
        let reading = store.search(&json!({"threads": threads, "beam": beam, "search_list": 40}));
        assert!(reading.faults.is_empty(), "{}", says(&reading));
        assert_eq!(store.memory.lock().unwrap().max_in_flight, threads * beam, "{threads} threads, beam {beam}");
    }
}

#[test]
fn what_passes_is_repeated_and_counted() {
    let store = Store::start(0);
    store.build(&json!({}));
    store.fail(|line, before| (line.starts_with("GET") && before % 40 == 7).then_some(SLOW_DOWN));
    let reading = store.search(&json!({"runtime": 0.6}));
    assert!(reading.faults.is_empty(), "{}", says(&reading));
    assert!(detail(&reading, "requests_repeated") > 0.0 && detail(&reading, "recall") > 0.3);
}

#[test]
fn what_does_not_pass_ends_the_search_in_one_line() {
    let store = Store::start(0);
    store.build(&json!({}));
    for (fault, expected) in [
        (SLOW_DOWN, "get: s3://bench/hwdyno-0123456789abcdef/vectors.hwdyno: 503 SlowDown: the store sheds load"),
        (DENIED, "get: s3://bench/hwdyno-0123456789abcdef/vectors.hwdyno: 403: access is denied"),
    ] {
        // What is kept in memory has been read when the first block is wanted: they are the only reads of a block's length.
        store.memory.lock().unwrap().lines.clear();
        store.fail(if fault == DENIED {
            |line, before| (line.contains("vectors") && before > 60).then_some(DENIED)
        } else {
            |line, before| (line.contains("vectors") && before > 60).then_some(SLOW_DOWN)
        });
        let began = Instant::now();
        let reading = store.search(&json!({"runtime": 60.0, "threads": 2}));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(says(&reading), expected);
        assert!(!reading.interrupted);
    }
}

#[test]
fn a_stop_ends_a_search_whose_answer_never_comes() {
    let store = Store::start(0);
    store.build(&json!({}));
    store.memory.lock().unwrap().lines.clear();
    store.fail(|line, before| (line.contains("vectors") && before > 60).then_some(""));
    let (stop, began) = (Stop::new(), Instant::now());
    let setter = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(400));
        setter.set();
    });
    let reading = store.run("inference_vector_search", &searched(&json!({"runtime": 60.0})), &stop).unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(reading.interrupted && reading.faults.is_empty(), "{}", says(&reading));
}

#[test]
fn a_damaged_or_missing_index_is_named() {
    let store = Store::start(0);
    let refused = |store: &Store| {
        store.run("inference_vector_search", &searched(&json!({})), &Stop::new()).unwrap_err().to_string()
    };
    assert!(refused(&store).contains("/vectors.hwdyno: no index found; build it first"), "{}", refused(&store));
    store.build(&json!({}));
    let whole = store.memory.lock().unwrap().objects[INDEX].clone();
    let replace = |bytes: Vec<u8>| store.memory.lock().unwrap().objects.insert(INDEX.into(), bytes);
    replace(whole[..whole.len() - 100].to_vec());
    assert!(refused(&store).contains("it is cut short: build it again"), "{}", refused(&store));
    let mut flipped = whole.clone();
    for block in 1..8 {
        flipped[4096 * block + 100] ^= 1;
    }
    replace(flipped);
    let reading = store.search(&json!({}));
    assert!(says(&reading).contains("is flipped: its CRC-32C is wrong"), "{}", says(&reading));
    assert!(detail(&reading, "corrupt_blocks") > 0.0);
}

#[test]
fn an_upload_that_fails_is_aborted_and_one_line() {
    let store = Store::start(0);
    store.fail(|line, _| line.contains("partNumber").then_some(DENIED));
    let refused = store.run("inference_vector_index", &json!({}), &Stop::new()).unwrap_err().to_string();
    assert!(refused.ends_with("vectors.hwdyno: 403: access is denied") && !refused.contains('\n'), "{refused}");
    let lines = store.memory.lock().unwrap().lines.clone();
    assert!(lines.iter().any(|line| line.starts_with("DELETE") && line.contains("uploadId=u")), "{lines:?}");
    let unmarked = json!({"path": "s3://bench/data"});
    let refused = store.run("inference_vector_index", &unmarked, &Stop::new()).unwrap_err().to_string();
    assert!(refused.contains("objects are written and removed only below hwdyno-…"), "{refused}");
}
