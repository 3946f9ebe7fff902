//! Training, checkpoints, the KV cache and plain writes on a store that refuses, is silent or is left: what is repeated, what
//! is counted, and when each ends.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hwdyno_engine::{run, Error, Reading, Stop};
use serde_json::{json, Value};

const PLACE: &str = "s3://bench/hwdyno-0123456789abcdef";
const MIB: usize = 1 << 20;
const LATE: Duration = Duration::from_millis(400);

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Answered,
    Refused,
    Silent,
    /// Answered, but only after a while: what it writes is there then, also where it was removed meanwhile.
    Late,
}

/// Decides by the request's line, and by how often it came before.
type Decide = fn(&str, u32) -> Fate;

/// Objects by path, and parts by the path of their upload.
#[derive(Default)]
struct Kept {
    objects: BTreeMap<String, Vec<u8>>,
    parts: BTreeMap<(String, usize), Vec<u8>>,
    came: HashMap<String, u32>,
    decide: Option<Decide>,
}

#[derive(Clone)]
struct Store {
    endpoint: String,
    kept: Arc<Mutex<Kept>>,
}

impl Store {
    fn start() -> Self {
        std::env::set_var("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
        std::env::set_var("AWS_SECRET_ACCESS_KEY", "hunter2hunter2");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let store = Self { endpoint: format!("http://{}", listener.local_addr().unwrap()), kept: Arc::default() };
        let serving = store.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let kept = serving.kept.clone();
                thread::spawn(move || serve(connection, &kept));
            }
        });
        store
    }

    fn decide(&self, decide: Decide) -> &Self {
        let mut kept = self.kept.lock().unwrap();
        kept.decide = Some(decide);
        kept.came.clear();
        self
    }

    fn run(&self, kernel: &str, changes: &Value, stop: &Stop) -> Result<Reading, Error> {
        let mut given = json!({"endpoint": self.endpoint, "path": PLACE});
        for more in [&parameters(kernel), changes] {
            for (name, value) in more.as_object().into_iter().flatten() {
                given[name] = value.clone();
            }
        }
        run(kernel, &given, stop)
    }
}

fn serve(mut connection: TcpStream, kept: &Mutex<Kept>) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while connection.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::to_string));
        let mut body = vec![0; field("content-length: ").map_or(0, |length| length.parse().unwrap())];
        if connection.read_exact(&mut body).is_err() {
            return;
        }
        let line = text.lines().next().unwrap();
        let fate = {
            let mut kept = kept.lock().unwrap();
            let came = kept.came.entry(line.into()).or_default();
            *came += 1;
            let before = *came - 1;
            kept.decide.map_or(Fate::Answered, |decide| decide(line, before))
        };
        if fate == Fate::Late {
            thread::sleep(LATE);
        }
        let answer = match fate {
            Fate::Answered | Fate::Late => kept.lock().unwrap().answer(line, field("range: bytes="), body),
            Fate::Refused => say("503 Slow Down", b"<Error><Code>SlowDown</Code></Error>"),
            Fate::Silent => {
                let _ = connection.read(&mut byte);
                return;
            }
        };
        if connection.write_all(&answer).is_err() {
            return;
        }
        head.clear();
    }
}

fn say(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\netag: \"e\"\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

impl Kept {
    fn answer(&mut self, line: &str, range: Option<String>, body: Vec<u8>) -> Vec<u8> {
        let (method, target) = line.trim_end_matches(" HTTP/1.1").split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.to_string();
        let value =
            |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)).map(|v| v.replace("%2F", "/"));
        let part = value("partNumber=").map_or(0, |number| number.parse().unwrap());
        match method {
            "GET" if path == "/bench" => say("200 OK", self.list(&value("prefix=").unwrap_or_default()).as_bytes()),
            "POST" if query.starts_with("uploads") => say("200 OK", b"<X><UploadId>up</UploadId></X>"),
            "POST" => {
                let parts: Vec<_> = self.parts.keys().filter(|(of, _)| *of == path).cloned().collect();
                let whole = parts.iter().flat_map(|part| self.parts.remove(part).unwrap()).collect();
                self.objects.insert(path, whole);
                say("200 OK", b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
            }
            "PUT" if part > 0 => {
                self.parts.insert((path, part), body);
                say("200 OK", b"")
            }
            "PUT" => {
                self.objects.insert(path, body);
                say("200 OK", b"")
            }
            "DELETE" => {
                self.parts.retain(|(of, _), _| *of != path || part > 0);
                self.objects.remove(&path);
                b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
            }
            _ => match (self.objects.get(&path), range) {
                (None, _) => say("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>"),
                (Some(object), None) => say("200 OK", object),
                (Some(object), Some(range)) => {
                    let (first, last) = range.split_once('-').unwrap();
                    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
                    say("206 Partial Content", &object[first..=last])
                }
            },
        }
    }

    fn list(&self, prefix: &str) -> String {
        let mut page = String::from("<ListBucketResult>");
        for (path, object) in &self.objects {
            if let Some(key) = path.strip_prefix("/bench/").filter(|key| key.starts_with(prefix)) {
                let _ = write!(page, "<Contents><Key>{key}</Key><Size>{}</Size></Contents>", object.len());
            }
        }
        page + "</ListBucketResult>"
    }
}

/// A short run of each kernel.
fn parameters(kernel: &str) -> Value {
    let shape =
        json!({"format": "npz", "files": 6, "samples_per_file": 1, "record_bytes": 9000, "record_bytes_stdev": 0});
    let mut given = match kernel {
        "training_checkpoint" => {
            return json!({"checkpoint_bytes": 12 * MIB, "ranks": 2, "model_share": 0.1, "writes": 1, "reads": 1,
                          "transfer_size": 5 * MIB})
        }
        "inference_kv_cache" => {
            return json!({"users": 2, "scale": 0.01, "think": 0.0, "runtime": 1.0, "capacity": 1 << 30,
                          "transfer_size": 5 * MIB, "user_kind": "chatbot"})
        }
        "training_loader" => json!({"batch_size": 2, "epochs": 1, "compute": 0, "read_threads": 2}),
        _ => json!({"threads": 2}),
    };
    for (name, value) in shape.as_object().into_iter().flatten() {
        given[name] = value.clone();
    }
    given
}

/// A store with a data set, whose later answers a function decides.
fn with_data(decide: Decide) -> Store {
    let store = Store::start();
    let made = store.run("training_generate", &json!({}), &Stop::new()).unwrap();
    assert!(made.faults.is_empty(), "{:?}", made.faults);
    store.decide(decide);
    store
}

const KERNELS: [&str; 3] = ["training_loader", "training_checkpoint", "inference_kv_cache"];

fn is_data(line: &str) -> bool {
    ["img_", "checkpoint-", "kv-"].iter().any(|name| line.contains(name))
}

fn repeated(reading: &Reading) -> u64 {
    reading.details["requests_repeated"].as_u64().unwrap()
}

#[test]
fn objects_that_are_there_are_read_whole_or_by_ranges_as_they_are() {
    let store = with_data(|_, _| Fate::Answered);
    let sizes: Vec<usize> = (1..5).map(|part| 1000 * part).collect();
    for size in &sizes {
        let path = format!("/bench/hwdyno-0123456789abcdef/train/more_{size}.npy");
        store.kept.lock().unwrap().objects.insert(path, vec![7; *size]);
    }
    let read = |changes: Value| {
        let mut given = json!({"endpoint": store.endpoint, "bucket": "bench", "prefix": "hwdyno-0123456789abcdef/train/",
                               "concurrency": 2, "runtime": 0.05, "existing": "npy"});
        for (name, value) in changes.as_object().into_iter().flatten() {
            given[name] = value.clone();
        }
        run("object_requests", &given, &Stop::new())
    };
    let whole = read(json!({"operation": "get"})).unwrap();
    let (operations, bytes) = (whole.streams[0].operations, whole.streams[0].bytes);
    assert!(whole.faults.is_empty() && operations > 10, "{:?}", whole.faults);
    assert!(
        bytes % 1000 == 0 && (1000 * operations..=4000 * operations).contains(&bytes) && bytes != 1000 * operations
    );
    let ranges = read(json!({"operation": "range", "range_size": 500})).unwrap();
    assert!(ranges.faults.is_empty() && ranges.streams[0].bytes == 500 * ranges.streams[0].operations);
    let refused = |changes: Value| read(changes).unwrap_err().to_string();
    assert!(refused(json!({"operation": "put"})).contains("by operation get or range alone"));
    assert!(refused(json!({"existing": "hdf5"})).contains("there is no .hdf5 object below"));
}

#[test]
fn what_is_refused_for_a_time_is_sent_again_and_whole() {
    let refuse: Decide = |_, before| if before == 0 { Fate::Refused } else { Fate::Answered };
    let store = Store::start();
    store.decide(refuse);
    let made = store.run("training_generate", &json!({}), &Stop::new()).unwrap();
    assert!(made.faults.is_empty() && made.streams[0].operations == 6, "{:?}", made.faults);
    let store = with_data(refuse);
    let loaded = store.run("training_loader", &json!({}), &Stop::new()).unwrap();
    assert!(loaded.faults.is_empty(), "{:?}", loaded.faults);
    assert_eq!((repeated(&loaded), loaded.details["lost_samples"].as_u64()), (6, Some(0)));
    let saved = Store::start().decide(refuse).run("training_checkpoint", &json!({}), &Stop::new()).unwrap();
    assert!(saved.faults.is_empty(), "{:?}", saved.faults);
    let size = saved.details["checkpoint_bytes"].as_u64().unwrap();
    assert_eq!(saved.streams.iter().map(|stream| stream.bytes).collect::<Vec<_>>(), [size, size]);
    // Of each rank the model, and the optimizer's beginning, two parts and end; then a load of each.
    assert_eq!(repeated(&saved), 2 * (1 + 4) + 2 * 2);
    let kept = Store::start().decide(refuse).run("inference_kv_cache", &json!({}), &Stop::new()).unwrap();
    assert!(kept.faults.is_empty() && kept.details["corrupt_blocks"] == 0, "{:?}", kept.faults);
    assert!(repeated(&kept) > 0 && kept.details["storage_hits"].as_u64() > Some(0));
}

#[test]
fn what_is_refused_for_ever_is_counted_or_one_line_with_its_mend() {
    let all: Decide = |_, _| Fate::Refused;
    for kernel in KERNELS.into_iter().chain(["training_generate"]) {
        let refused = Store::start().decide(all).run(kernel, &json!({}), &Stop::new()).unwrap_err().to_string();
        assert!(refused.contains("503 SlowDown") && refused.contains("use fewer requests in flight"), "{refused}");
        assert!(!refused.contains('\n') && !refused.contains("hunter2"), "{refused}");
    }
    let data: Decide = |line, _| if is_data(line) { Fate::Refused } else { Fate::Answered };
    for kernel in KERNELS {
        let reading = with_data(data).run(kernel, &json!({}), &Stop::new()).unwrap();
        assert!(!reading.faults.is_empty(), "{kernel}");
        assert!(reading.faults.iter().all(|fault| fault.says.contains("503 SlowDown")), "{:?}", reading.faults);
        assert!(repeated(&reading) >= 3, "{kernel}");
        if kernel == "training_loader" {
            assert_eq!((reading.details["lost_samples"].as_u64(), repeated(&reading)), (Some(6), 3 * 6));
        }
    }
}

#[test]
fn a_store_that_falls_silent_ends_them_by_the_deadline() {
    let silent: Decide = |line, _| if is_data(line) { Fate::Silent } else { Fate::Answered };
    for kernel in KERNELS {
        for readers in [0, 2] {
            let mut given = json!({"timeout": 0.3});
            if kernel == "training_loader" {
                given["read_threads"] = json!(readers);
            }
            let (store, began) = (with_data(silent), Instant::now());
            let reading = store.run(kernel, &given, &Stop::new()).unwrap();
            assert!(began.elapsed() < Duration::from_secs(4), "{kernel}: {:?}", began.elapsed());
            assert!(reading.faults.iter().all(|fault| fault.says.contains("by the deadline")), "{:?}", reading.faults);
            assert!(!reading.faults.is_empty() && repeated(&reading) == 0 && !reading.interrupted, "{kernel}");
        }
    }
}

#[test]
fn a_stop_ends_them_in_seconds_on_a_silent_store() {
    let (data, all): (Decide, Decide) =
        (|line, _| if is_data(line) { Fate::Silent } else { Fate::Answered }, |_, _| Fate::Silent);
    let parts: Decide = |line, _| if line.contains("partNumber=2") { Fate::Silent } else { Fate::Answered };
    let late: Decide = |line, _| if line.contains("partNumber=") { Fate::Late } else { Fate::Answered };
    let uploads = [("training_checkpoint", parts), ("training_checkpoint", late)];
    for (kernel, decide) in KERNELS.into_iter().flat_map(|kernel| [(kernel, data), (kernel, all)]).chain(uploads) {
        let (store, stop, began) = (with_data(decide), Stop::new(), Instant::now());
        let later = stop.clone();
        let setting = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            later.set();
        });
        let ended = store.run(kernel, &json!({}), &stop);
        // What was sent has a moment to be answered, and so has the end of an upload.
        assert!(began.elapsed() < Duration::from_secs(6), "{kernel}: {:?}", began.elapsed());
        setting.join().unwrap();
        match ended {
            Ok(reading) => assert!(reading.interrupted && reading.faults.is_empty(), "{kernel}: {:?}", reading.faults),
            Err(error) => assert!(error.to_string().contains("stopped"), "{kernel}: {error}"),
        }
        thread::sleep(LATE);
        assert!(store.kept.lock().unwrap().parts.is_empty(), "an upload was left");
    }
}

/// Writes objects, or their parts, below the data set of a store.
fn write(store: &Store, operation: &str, stop: &Stop) -> Reading {
    let given = json!({"endpoint": store.endpoint, "bucket": "bench", "prefix": "hwdyno-0123456789abcdef/", "timeout": 0.5,
                       "operation": operation, "object_size": 12 * MIB, "part_size": 5 * MIB, "objects": 2,
                       "concurrency": 2, "client_threads": 1, "runtime": 2.0});
    run("object_requests", &given, stop).unwrap()
}

#[test]
fn a_write_that_moves_nothing_ends_by_the_timeout_however_large_it_is() {
    let silent: Decide = |line, _| if line.starts_with("PUT") { Fate::Silent } else { Fate::Answered };
    for operation in ["put", "multipart"] {
        let (store, began) = (with_data(silent), Instant::now());
        let reading = write(&store, operation, &Stop::new());
        // A transfer at the slowest speed that a deadline allows would take minutes.
        assert!(began.elapsed() < Duration::from_secs(6), "{operation}: {:?}", began.elapsed());
        assert!(reading.faults.iter().any(|fault| fault.says.contains("by the deadline")), "{:?}", reading.faults);
    }
}

#[test]
fn a_stop_awaits_what_is_being_written() {
    let late: Decide = |line, _| if line.starts_with("PUT") { Fate::Late } else { Fate::Answered };
    for operation in ["put", "multipart"] {
        let (store, stop) = (with_data(late), Stop::new());
        let later = stop.clone();
        let setting = thread::spawn(move || {
            thread::sleep(LATE / 4);
            later.set();
        });
        let reading = write(&store, operation, &stop);
        setting.join().unwrap();
        let count = || {
            let kept = store.kept.lock().unwrap();
            (kept.objects.len(), kept.parts.len())
        };
        let written = count();
        thread::sleep(2 * LATE);
        assert_eq!(count(), written, "{operation}: the store wrote after the end");
        assert!(reading.interrupted && reading.faults.is_empty(), "{operation}: {:?}", reading.faults);
    }
}
