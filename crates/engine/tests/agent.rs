//! The agent in one process: any bytes give documents, a run on hold starts on `start`, and nothing stays behind.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::io::{self, BufReader, Read, Write};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hwdyno_engine::agent::{serve, LONGEST_LINE};
use hwdyno_engine::parts::now_ns;
use serde_json::{json, Value};

/// Gates belong to the process, so that one agent at a time serves here.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An input that is fed while the agent reads it.
struct Fed(Receiver<Vec<u8>>, Vec<u8>);

impl Read for Fed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.is_empty() {
            self.1 = self.0.recv().unwrap_or_default();
        }
        let taken = self.1.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&self.1[..taken]);
        self.1.drain(..taken);
        Ok(taken)
    }
}

/// An output whose lines arrive one by one, each in one piece: whoever waits for it wakes for each.
struct Lines(Sender<Value>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert_eq!(bytes.last(), Some(&b'\n'), "a piece of a line");
        let _ = self.0.send(serde_json::from_slice(bytes).expect("a line is a document"));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Conversation {
    input: Option<Sender<Vec<u8>>>,
    output: Receiver<Value>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Conversation {
    fn begin() -> Self {
        let ((input, fed), (lines, output)) = (channel(), channel());
        let thread = std::thread::spawn(move || serve(BufReader::new(Fed(fed, Vec::new())), Lines(lines)));
        let conversation = Self { input: Some(input), output, thread: Some(thread) };
        assert_eq!(conversation.next()["agent"], "hwdyno-engine");
        conversation
    }

    fn say(&self, request: &Value) {
        self.bytes(format!("{request}\n").into_bytes());
    }

    fn bytes(&self, bytes: Vec<u8>) {
        self.input.as_ref().unwrap().send(bytes).unwrap();
    }

    fn next(&self) -> Value {
        self.output.recv_timeout(Duration::from_secs(30)).expect("an answer in time")
    }

    fn end(mut self) -> Vec<Value> {
        drop(self.input.take());
        self.thread.take().unwrap().join().expect("the agent does not panic");
        self.output.try_iter().collect()
    }
}

#[test]
fn a_held_run_is_ready_and_starts_when_it_is_told_to() {
    let _alone = alone();
    let agent = Conversation::begin();
    agent.say(&json!({"id": 1, "do": "run", "kernel": "idle", "parameters": {"runtime": 0.01}, "hold": true}));
    assert_eq!(agent.next(), json!({"id": 1, "ready": true}));
    agent.say(&json!({"id": 2, "do": "clock"}));
    assert!(agent.next()["answer"]["ns"].as_u64().unwrap() <= now_ns(), "it answers while it waits");
    let at_ns = now_ns() + 50_000_000;
    agent.say(&json!({"id": 3, "do": "start", "at_ns": at_ns}));
    let done = agent.next();
    assert_eq!(done["id"], 1, "a start has no answer");
    assert!(done["answer"]["started_ns"].as_u64().unwrap() >= at_ns);
    assert_eq!(done["answer"]["reading"]["interrupted"], false);
    assert!(agent.end().is_empty());
}

#[test]
fn a_run_after_a_held_one_waits_for_nobody() {
    let _alone = alone();
    let agent = Conversation::begin();
    for id in 0..2 {
        agent.say(&json!({"id": id, "do": "run", "kernel": "idle", "parameters": {"runtime": 0.01}}));
        assert!(agent.next()["answer"]["started_ns"].as_u64().unwrap() <= now_ns());
    }
    agent.end();
}

#[test]
fn the_end_of_the_input_opens_what_is_held() {
    let _alone = alone();
    let agent = Conversation::begin();
    agent.say(&json!({"id": 1, "do": "run", "kernel": "idle", "parameters": {"runtime": 3600}, "hold": true}));
    assert_eq!(agent.next()["ready"], true);
    let last = agent.end();
    assert_eq!(last[0]["answer"]["reading"]["interrupted"], true);
}

#[test]
fn a_start_that_never_comes_is_ended_by_a_stop() {
    let _alone = alone();
    for request in [json!({"start_at_ns": u64::MAX}), json!({"hold": true})] {
        let agent = Conversation::begin();
        let mut begin = json!({"id": 1, "do": "run", "kernel": "idle", "parameters": {"runtime": 3600}});
        begin.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
        agent.say(&begin);
        if request.get("hold").is_some() {
            assert_eq!(agent.next()["ready"], true);
            agent.say(&json!({"id": 2, "do": "start", "at_ns": u64::MAX}));
        }
        agent.say(&json!({"id": 3, "do": "stop"}));
        let answers = [agent.next(), agent.next()];
        let run = answers.iter().find(|answer| answer["id"] == 1).expect("the run has ended");
        assert_eq!(run["answer"]["reading"]["interrupted"], true);
        agent.end();
    }
}

#[test]
fn a_line_that_is_too_long_is_read_to_its_end_and_refused() {
    let _alone = alone();
    let agent = Conversation::begin();
    for _ in 0..3 {
        agent.bytes(vec![b'{'; LONGEST_LINE / 2]);
    }
    agent.bytes(b"\n{\"id\": 9, \"do\": \"clock\"}\n".to_vec());
    assert!(agent.next()["error"]["says"].as_str().unwrap().contains("over 1048576 bytes"));
    assert_eq!(agent.next()["id"], 9);
    agent.end();
}

const LETTERS: &[u8] = b"{}[]\":,0123456789dointrsuew\\\xff\x00 ";

#[test]
fn any_bytes_give_documents() {
    let _alone = alone();
    let agent = Conversation::begin();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut sent = 0;
    for round in 0..2000_usize {
        let mut line: Vec<u8> = (0..round % 60)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Mostly letters of JSON, so that some of it is nearly right.
                LETTERS[(state >> 33) as usize % LETTERS.len()]
            })
            .filter(|byte| *byte != b'\n')
            .collect();
        sent += usize::from(!line.trim_ascii().is_empty());
        line.push(b'\n');
        agent.bytes(line);
    }
    let answers = agent.end();
    assert_eq!(answers.len(), sent);
    assert!(answers.iter().all(|answer| answer.get("error").is_some()));
}
