//! Multipart uploads against a store that records them: what is sent, what is aborted, and what is counted as a failure.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use hwdyno_engine::{run, Stop};
use serde_json::{json, Value};

type Answer = fn(&str) -> Option<&'static str>;
type Seen = Arc<Mutex<Vec<(String, String)>>>;

const MIB: usize = 1 << 20;
const PREFIX: &str = "hwdyno-0123456789abcdef/";

/// A store that answers as a function says, or else rightly; and the head and body of each request, but for long bodies.
fn store(answer: Answer) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (place, seen) = (listener.local_addr().unwrap(), Seen::default());
    let kept = seen.clone();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let seen = kept.clone();
            thread::spawn(move || serve(connection, answer, &seen));
        }
    });
    (format!("http://{place}"), seen)
}

fn serve(mut connection: TcpStream, answer: Answer, seen: &Seen) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while connection.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        if connection.read_exact(&mut body).is_err() {
            return;
        }
        let body = if body.len() < 10_000 { String::from_utf8_lossy(&body).into_owned() } else { String::new() };
        let line = text.lines().next().unwrap();
        let says = answer(line).map_or_else(|| right(line), str::to_string);
        seen.lock().unwrap().push((text.clone(), body));
        if connection.write_all(says.as_bytes()).is_err() {
            return;
        }
        head.clear();
    }
}

fn right(line: &str) -> String {
    let said = |body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    if line.starts_with("POST") && line.contains("?uploads=") {
        // As Amazon S3 sends it, here with the name in two chunks.
        let (begin, end) = ("<X><UploadId>up/", "load=</UploadId></X>");
        let chunks = format!("{:x}\r\n{begin}\r\n{:x}\r\n{end}\r\n0\r\n\r\n", begin.len(), end.len());
        return format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
    }
    if line.starts_with("GET") {
        let mark = "an object run of hwdyno\nprefix hwdyno-0123456789abcdef/\nboot b\npid 1\nprocess 1\nsecond 1\n";
        return said(mark);
    }
    if line.starts_with("PUT") {
        return "HTTP/1.1 200 OK\r\ncontent-length: 0\r\netag: \"e&1\"\r\n\r\n".into();
    }
    said("<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
}

fn measured(answer: Answer, changes: &Value) -> (hwdyno_engine::Reading, Vec<(String, String)>) {
    std::env::set_var("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
    std::env::set_var("AWS_SECRET_ACCESS_KEY", "hunter2hunter2");
    let (endpoint, seen) = store(answer);
    let mut wanted = json!({"endpoint": endpoint, "bucket": "bench", "operation": "multipart", "prefix": PREFIX,
                            "object_size": 11 * MIB, "part_size": 5 * MIB, "concurrency": 2, "runtime": 0.05, "timeout": 5.0});
    for (name, value) in changes.as_object().into_iter().flatten() {
        wanted[name] = value.clone();
    }
    let reading = run("object_requests", &wanted, &Stop::new()).unwrap();
    let seen = seen.lock().unwrap().clone();
    (reading, seen)
}

fn count(seen: &[(String, String)], method: &str, word: &str) -> u64 {
    let is_one = |head: &str| head.starts_with(method) && head.lines().next().is_some_and(|line| line.contains(word));
    seen.iter().filter(|(head, _)| is_one(head)).count() as u64
}

#[test]
fn an_object_is_its_parts_in_their_order() {
    for (checksum, element) in
        [("none", ""), ("sha256", ""), ("crc32c", "ChecksumCRC32C"), ("crc64nvme", "ChecksumCRC64NVME")]
    {
        let (reading, seen) = measured(|_| None, &json!({"checksum": checksum}));
        assert!(reading.faults.is_empty(), "{checksum}: {:?}", reading.faults);
        let objects = reading.streams[0].operations;
        assert!(objects > 0 && reading.streams[0].bytes == objects * 11 * MIB as u64);
        assert_eq!(count(&seen, "POST", "?uploads="), objects);
        assert_eq!(count(&seen, "PUT", "partNumber="), 3 * objects);
        assert_eq!(reading.streams[1].latency_ns["total"]["count"], 3 * objects);
        assert_eq!(count(&seen, "DELETE", ""), 0);
        let lengths = |number: &str| -> Vec<String> {
            let parts =
                seen.iter().filter(|(head, _)| head.contains(&format!("partNumber={number}&uploadId=up%2Fload%3D ")));
            let length =
                |head: &str| head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().to_string();
            parts.map(|(head, _)| length(head)).collect()
        };
        let last: u64 = lengths("3")[0].parse().unwrap();
        assert!((MIB as u64..MIB as u64 + 200).contains(&last), "{last}");
        let (_, body) =
            seen.iter().find(|(head, _)| head.starts_with("POST") && head.contains("?uploadId=up%2Fload%3D ")).unwrap();
        for number in 1..=3 {
            assert!(
                body.contains(&format!("<PartNumber>{number}</PartNumber><ETag>&quot;e&amp;1&quot;</ETag>")),
                "{body}"
            );
        }
        assert_eq!(
            body.matches(&format!("</{element}></Part>")).count(),
            if element.is_empty() { 0 } else { 3 },
            "{body}"
        );
        let (create, _) = seen.iter().find(|(head, _)| head.contains("?uploads=")).unwrap();
        assert_eq!(create.contains("x-amz-checksum-algorithm: CRC"), !element.is_empty(), "{create}");
    }
}

#[test]
fn a_failed_upload_is_one_failure_and_aborted() {
    let cases: &[(&str, bool, Answer)] = &[
        ("503 SlowDown", true, |line| {
            line.contains("partNumber=2")
                .then_some("HTTP/1.1 503 x\r\ncontent-length: 28\r\n\r\n<E><Code>SlowDown</Code></E>")
        }),
        ("5xx", true, |line| {
            (line.starts_with("POST") && line.contains("uploadId=")).then_some(
                "HTTP/1.1 200 OK\r\ncontent-length: 55\r\n\r\n<Error><Code>InternalError</Code><Message>x</Message></",
            )
        }),
        ("is not HTTP/1.1", false, |line| {
            line.contains("?uploads=").then_some("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n<X></X>")
        }),
        ("4xx", false, |line| line.contains("?uploads=").then_some("HTTP/1.1 405 x\r\ncontent-length: 0\r\n\r\n")),
    ];
    for (says, is_aborted, answer) in cases {
        let (reading, seen) = measured(*answer, &json!({}));
        let begun = count(&seen, "POST", "?uploads=");
        let failed: u64 = reading.faults.iter().map(|fault| fault.count).sum();
        assert_eq!((reading.streams[0].operations, failed), (0, begun), "{says}: {:?}", reading.faults);
        assert!(reading.faults.iter().all(|fault| fault.says.contains(says)), "{says}: {:?}", reading.faults);
        assert_eq!(count(&seen, "DELETE", "?uploadId="), if *is_aborted { begun } else { 0 }, "{says}");
    }
}

#[test]
fn what_a_run_left_is_aborted_before_its_objects_go() {
    let answer: Answer = |line| {
        (line.starts_with("GET") && line.contains("list-type=2"))
            .then_some("HTTP/1.1 200 OK\r\ncontent-length: 37\r\n\r\n<ListBucketResult></ListBucketResult>")
    };
    let (endpoint, seen) = store(answer);
    std::env::set_var("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
    std::env::set_var("AWS_SECRET_ACCESS_KEY", "hunter2hunter2");
    // A store that lists no uploads, because it answers something else, is no obstacle.
    let wanted = json!({"endpoint": endpoint, "bucket": "bench", "prefix": PREFIX});
    run("object_removal", &wanted, &Stop::new()).unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!((count(&seen, "GET", "uploads="), count(&seen, "DELETE", ".hwdyno")), (1, 1));
}

#[test]
fn a_store_that_lists_no_uploads_is_named() {
    let notes = |answer: Answer| -> Vec<String> {
        let (reading, _) = measured(answer, &json!({}));
        reading.notes.iter().filter(|note| note.code == "uploads_not_listed").map(|note| note.says.clone()).collect()
    };
    let refused = notes(|line| {
        line.contains("&uploads=")
            .then_some("HTTP/1.1 501 x\r\ncontent-length: 34\r\n\r\n<E><Code>NotImplemented</Code></E>")
    });
    assert!(refused.len() == 1 && refused[0].contains("NotImplemented") && !refused[0].contains('\n'), "{refused:?}");
    // rclone's words for an empty list.
    let none = notes(|line| {
        line.contains("&uploads=")
            .then_some("HTTP/1.1 404 x\r\ncontent-length: 32\r\n\r\n<E><Code>NoSuchUpload</Code></E>")
    });
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn too_many_parts_are_refused() {
    let wanted = json!({"operation": "multipart", "object_size": 60_u64 << 30});
    let says = run("object_requests", &wanted, &Stop::new()).unwrap_err().to_string();
    assert!(says.contains("12288 parts, and S3 takes 10,000"), "{says}");
}
