//! The wire of iperf3 at both ends: control messages, parameters, results, and the headers of datagrams.

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

use serde_json::Value;

use crate::network::settings::Settings;

/// What parameters are made of.
pub const PARAMETERS: &[&str] = &[
    "\"tcp\":true",
    "\"udp\":true",
    "\"parallel\":",
    "\"len\":",
    "\"time\":",
    "\"omit\":",
    "\"num\":",
    "\"blockcount\":",
    "\"reverse\":true",
    "\"bidirectional\":true",
    "\"bandwidth\":",
    "\"burst\":",
    "\"window\":",
    "\"MSS\":",
    "\"TOS\":",
    "\"congestion\":\"reno\"",
    "\"nodelay\":true",
    "\"zerocopy\":1",
    "\"skip_rx_copy\":1",
    "\"udp_counters_64bit\":1",
    "\"get_server_output\":1",
    "\"hwdyno\":{",
    "\"runtime_s\":",
    "\"omit_s\":",
    "\"segmented\":true",
    "\"plain\":true",
    "\"echo\":{\"udp\":true,\"message\":64}",
    "\"echo\":{\"connect\":true,\"spin\":true}",
    "\"streams\":[",
    "\"id\":1",
    "\"bytes\":",
];
/// What results are made of.
pub const RESULTS: &[&str] = &[
    "\"streams\":[",
    "\"id\":1",
    "\"id\":3",
    "\"bytes\":",
    "\"packets\":",
    "\"errors\":",
    "\"omitted_packets\":",
    "\"omitted_errors\":",
    "\"jitter\":",
    "\"retransmits\":",
    "\"start_time\":",
    "\"end_time\":",
    "\"cpu_util_total\":",
    "\"cpu_util_user\":",
    "\"cpu_util_system\":",
    "\"sender_has_retransmits\":",
    "\"congestion_used\":",
    "\"hwdyno\":{",
    "\"operations\":",
    "\"reordered\":",
    "\"duplicates\":",
    "\"tcp\":{",
    "\"rtt_mean_us\":",
    "\"busy_us\":",
    "\"cpu_user_s\":",
    "18446744073709551615",
    "1e300",
    "|",
];
const TCP: &str = r#"{"tcp":true,"omit":0,"time":1,"parallel":1,"len":1000,"client_version":"3.12"}"#;
const ONE: &str = r#"{"cpu_util_total":1.5,"cpu_util_user":1,"cpu_util_system":0.5,"sender_has_retransmits":1,"congestion_used":"cubic","streams":[{"id":1,"bytes":4000,"retransmits":2,"jitter":0.001,"errors":1,"omitted_errors":0,"packets":9,"omitted_packets":1,"start_time":0,"end_time":1.5}]}"#;
const OURS: &str = r#"{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":0,"sender_has_retransmits":-1,"streams":[{"id":1,"bytes":4000,"retransmits":-1,"end_time":1,"hwdyno":{"operations":7,"reordered":1,"duplicates":2,"tcp":{"retransmits":4,"acked_bytes":4000,"rtt_mean_us":120.5,"busy_us":900}}},{"id":3,"bytes":10,"end_time":2}],"hwdyno":{"cpu_user_s":0.1,"cpu_system_s":0.2}}"#;

/// The ends of a connection.
fn pair() -> (TcpStream, TcpStream) {
    let both = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| {
        let near = TcpStream::connect(listener.local_addr()?)?;
        Ok((near, listener.accept()?.0))
    });
    #[allow(clippy::expect_used, reason = "without it nothing can be fuzzed")]
    both.expect("a connection within this machine")
}

/// What one end sends: each part that begins as JSON behind its length, any other as it is. A bar parts them, which
/// is no state.
fn sent(parts: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts.split(|&byte| byte == b'|') {
        if matches!(part.first(), Some(b'{' | b'[')) {
            bytes.extend((part.len() as u32).to_be_bytes());
        }
        bytes.extend(part);
    }
    bytes
}

fn parse_settings(line: &[u8]) -> Option<Settings> {
    let fields: Value = serde_json::from_slice(line).ok()?;
    Settings::from_parameters(&fields).ok()
}

/// A client's parameters.
pub mod iperf3_parameters {
    use super::{Settings, Value, TCP};
    use crate::fuzzing::checks::accepted;
    use crate::network::settings::{LARGEST_BLOCK, MAX_STREAMS};

    /// What is accepted is within a server's limits, and means the same after another trip over the wire.
    pub fn read(input: &[u8]) -> bool {
        let Ok(fields) = serde_json::from_slice::<Value>(input) else { return false };
        let read = Settings::from_parameters(&fields);
        if let Ok(settings) = &read {
            assert!(settings.streams <= MAX_STREAMS && settings.block <= LARGEST_BLOCK && settings.block > 0);
            assert!(settings.memory_bytes() < 1 << 31 && settings.segments() > 0);
            let sent = settings.to_parameters();
            assert_eq!(Settings::from_parameters(&sent).map(|again| again.to_parameters()), Ok(sent));
        }
        accepted(read)
    }

    /// iperf3's, and ours with all that they may have.
    pub fn seeds() -> Vec<Vec<u8>> {
        let ours = Settings {
            udp: true,
            down: true,
            rate_bits_s: 1_000_000,
            burst: 3,
            runtime_s: 0.5,
            echo: Some(crate::network::settings::Echo { udp: true, connect: false, spin: true, message: 64 }),
            block: 1200,
            ..Settings::default()
        };
        vec![TCP.into(), ours.to_parameters().to_string().into_bytes()]
    }
}

/// Parameters on a line, then the results that the other end sends.
pub mod iperf3_results {
    use std::net::{IpAddr, Ipv4Addr};

    use super::{parse_settings, Value, ONE, OURS, TCP};
    use crate::fuzzing::checks::first_line;
    use crate::network::client::{Outcome, StreamEnd};
    use crate::network::document::{document, Course};
    use crate::network::outcome::reading;
    use crate::network::results::Report;

    /// The report, the server's document and the client's reading of it are whole.
    pub fn read(input: &[u8]) -> bool {
        let (parameters, results) = first_line(input);
        let (Some(settings), Ok(results)) = (parse_settings(parameters), serde_json::from_slice::<Value>(results))
        else {
            return false;
        };
        let report = Report::from_json(&results, settings.total());
        assert_eq!(report.streams.len(), settings.total());
        let again = Report::from_json(&report.to_json(None), settings.total());
        assert_eq!(again.streams.len(), report.streams.len());
        let (here, there) = (Some(again), Some(report.clone()));
        let course = Course { settings: Some(settings.clone()), here, there };
        let text = document(&course, IpAddr::V4(Ipv4Addr::LOCALHOST), "cookie", None).to_string();
        let end = |index| StreamEnd { up: settings.goes_up(index), ..StreamEnd::default() };
        let streams = (0..settings.total()).map(end).collect();
        let outcome = Outcome { streams, there: Some(report), elapsed_s: 1.0, ..Outcome::default() };
        let made = serde_json::to_string(&reading(&settings, &outcome, true)).unwrap_or_default();
        for text in [text, made] {
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        }
        true
    }

    /// iperf3's and ours, of either direction and protocol.
    pub fn seeds() -> Vec<Vec<u8>> {
        let udp = r#"{"udp":true,"parallel":2,"len":1000,"bidirectional":true}"#;
        [(TCP, ONE), (TCP, OURS), (udp, ONE), (udp, OURS)].map(|(a, b)| format!("{a}\n{b}").into_bytes()).into()
    }
}

/// What comes over a control connection.
pub mod iperf3_control {
    use std::time::Duration;

    use super::{pair, Shutdown, Write, ONE, TCP};
    use crate::fuzzing::checks::accepted;
    use crate::network::wire::{Control, MAX_PARAMETERS};
    use crate::Stop;

    /// Reads a state, then a document, then an error's two numbers.
    pub fn read(input: &[u8]) -> bool {
        let (near, far) = pair();
        let Ok(mut control) = Control::new(near, Stop::new()) else { return false };
        let _ = (&far).write_all(&input[..input.len().min(1 << 16)]);
        let _ = far.shutdown(Shutdown::Write);
        let timeout = Duration::from_secs(1);
        let _ = control.poll_state(timeout);
        let document = control.read_json("its parameters", MAX_PARAMETERS, timeout);
        let _ = accepted(Err::<(), _>(control.read_error()));
        if let Ok(document) = &document {
            assert!(document.is_object());
        }
        accepted(document)
    }

    /// A state and a document.
    pub fn seeds() -> Vec<Vec<u8>> {
        [TCP, ONE].map(|text| [&[9][..], &(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()).into()
    }
}

/// The headers of datagrams, 16 bytes each; the first byte chooses their width.
pub mod iperf3_datagrams {
    use crate::network::datagrams::{read_header, Numbers};

    /// Loss, order and jitter add up, no matter what the numbers are.
    pub fn read(input: &[u8]) -> bool {
        let Some((first, rest)) = input.split_first() else { return false };
        let wide = first & 1 == 1;
        let mut numbers = Numbers::default();
        let mut came_ns = 0;
        for datagram in rest.chunks(if wide { 16 } else { 12 }) {
            if let Some((sent_ns, number)) = read_header(datagram, wide) {
                numbers.take(number, sent_ns, came_ns);
                came_ns += 1_000_000;
            }
        }
        let counts = numbers.counts();
        assert!(counts.lost <= counts.highest, "{counts:?}");
        first & 2 == 0
    }

    /// Datagrams in order, late, twice, and after a leap.
    pub fn seeds() -> Vec<Vec<u8>> {
        let wide = [1_u64, 2, 5, 4, 4, 70_000, 3].map(|number| [[0; 8], number.to_be_bytes()].concat()).concat();
        let narrow = [1_u32, 2, 9, 3].map(|number| [&[0; 8][..], &number.to_be_bytes()].concat()).concat();
        vec![[vec![1], wide].concat(), [vec![0], narrow].concat()]
    }
}

/// All that a client sends on its control connection, a bar between messages.
pub mod iperf3_server {
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::Mutex;
    use std::time::Duration;

    use super::{pair, sent, Ipv4Addr, Shutdown, SocketAddr, Write, ONE, TCP};
    use crate::fuzzing::checks::accepted;
    use crate::network::document::{document, Course};
    use crate::network::serve::{serve, Place};
    use crate::Stop;

    /// Serves a test; the memory that it took is given back.
    pub fn read(input: &[u8]) -> bool {
        let (near, far) = pair();
        let _ = (&far).write_all(&sent(&input[..input.len().min(1 << 16)]));
        let _ = far.shutdown(Shutdown::Write);
        let (sender, streams) = channel();
        let (stream, other) = pair();
        let _ = (&other).write_all(&[7; 3000]);
        let _ = other.shutdown(Shutdown::Both);
        let _ = sender.send(stream);
        let memory = AtomicUsize::new(0);
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (stop, admission, leaving) = (Stop::new(), Mutex::new(()), AtomicBool::new(false));
        let place = Place {
            bound: SocketAddr::new(host, 0),
            client: host,
            local: host,
            streams: &streams,
            admission: &admission,
            stop: &stop,
            memory: &memory,
            leaving: &leaving,
            silence: Duration::from_millis(100),
        };
        let mut course = Course::default();
        let served = serve(near, &place, &mut course);
        assert_eq!(memory.load(Ordering::Relaxed), 0);
        assert!(document(&course, host, "cookie", None).is_object());
        accepted(served)
    }

    /// A whole test.
    pub fn seeds() -> Vec<Vec<u8>> {
        vec![[TCP.as_bytes(), b"|\x04|", ONE.as_bytes(), b"|\x10"].concat()]
    }
}

/// All that a server sends on the control connection, a bar between messages.
pub mod iperf3_client {
    use std::io::Read;
    use std::thread;

    use super::{sent, Ipv4Addr, Shutdown, TcpListener, Write, ONE, OURS};
    use crate::fuzzing::checks::accepted;
    use crate::network::client::run;
    use crate::network::outcome::reading;
    use crate::network::settings::Settings;
    use crate::Stop;

    /// Runs a client against it: it ends, with a reading or one line.
    pub fn read(input: &[u8]) -> bool {
        let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) else { return false };
        let Ok(address) = listener.local_addr() else { return false };
        let settings = Settings { block: 1000, runtime_s: 0.002, ..Settings::default() };
        let outcome = thread::scope(|scope| {
            let bytes = sent(&input[..input.len().min(1 << 16)]);
            let server = scope.spawn(move || {
                let mut open = Vec::new();
                // The client tries six times at most, each time with a control connection first.
                while let Ok((mut connection, _)) = listener.accept() {
                    let mut cookie = [0; 37];
                    if connection.read_exact(&mut cookie).is_err() {
                        break;
                    }
                    if cookie_is_new(&open, cookie) {
                        let _ = connection.write_all(&bytes);
                        let _ = connection.shutdown(Shutdown::Write);
                    }
                    open.push((cookie, connection));
                }
            });
            let outcome = run(address, &settings, None, 0.001, &Stop::new());
            // A connection without a cookie ends the server.
            drop(std::net::TcpStream::connect(address));
            let _ = server.join();
            outcome
        });
        if let Ok(outcome) = &outcome {
            for (says, _) in &outcome.faults {
                accepted(Err::<(), _>(says));
            }
            assert!(serde_json::to_string(&reading(&settings, outcome, true)).is_ok());
        }
        accepted(outcome)
    }

    fn cookie_is_new<T>(open: &[([u8; 37], T)], cookie: [u8; 37]) -> bool {
        open.iter().all(|(known, _)| *known != cookie)
    }

    /// A whole test, of iperf3's server and of ours.
    pub fn seeds() -> Vec<Vec<u8>> {
        [ONE, OURS].map(|results| [b"\x09\x0a\x01\x02\x0d|", results.as_bytes(), b"|\x0e"].concat()).into()
    }
}
