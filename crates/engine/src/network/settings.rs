//! What a test does, as iperf3's parameters describe it: made by our client, and read without trust by our server.

use serde_json::{json, Map, Value};

use crate::sys::datagrams::{LARGEST_DATAGRAM, MAX_SEGMENTS};
use crate::sys::net::Options;
use crate::words;

/// What a reader takes at once, and is woken for: woken for each segment, both ends together spend a quarter more on a
/// byte. Of the powers of two it was the fastest with an L2 cache of 2 MiB.
pub const TAKEN_BYTES: usize = 512 << 10;
/// A server serves at most this many streams a test and direction.
pub const MAX_STREAMS: usize = 128;
/// The largest block of a TCP stream (iperf3's limit).
pub const LARGEST_BLOCK: usize = 1 << 20;
/// A test ends by itself after this many seconds.
const LONGEST_S: f64 = 86_400.0;
/// Seconds, microseconds and the number of a datagram are its first bytes.
pub const HEADER_BYTES: usize = 16;

words! {
    /// How datagrams are passed to the kernel.
    pub enum Handing {
        /// Many a call (`sendmmsg`, `recvmmsg`).
        Batched = "batched",
        /// One call each, as iperf3 does.
        Plain = "plain",
        /// One buffer that the kernel (or the interface) cuts up (`UDP_SEGMENT`, `UDP_GRO`).
        Segmented = "segmented",
    }
}

/// Round trips along with the streams, or instead of them; only our server knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// UDP instead of TCP.
    pub udp: bool,
    /// A connection for each round trip.
    pub connect: bool,
    /// Both ends look for the next message again and again for a while before they sleep.
    pub spin: bool,
    /// Length of a message each way.
    pub message: usize,
}

impl Echo {
    /// Reads what a client requests, each figure within a server's limits.
    fn from_parameters(fields: &Value) -> Self {
        let flag = |name: &str| fields[name].as_bool().unwrap_or(false);
        Self {
            udp: flag("udp"),
            connect: flag("connect"),
            spin: flag("spin"),
            message: (fields["message"].as_u64().unwrap_or(64) as usize).clamp(1, LARGEST_DATAGRAM),
        }
    }
}

/// What a test does.
// The switches are those of iperf3's parameters, one each.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone)]
pub struct Settings {
    /// UDP instead of TCP.
    pub udp: bool,
    /// Streams a direction.
    pub streams: usize,
    /// Data go from client to server.
    pub up: bool,
    /// Data go from server to client.
    pub down: bool,
    /// Bytes passed to the kernel at a time; of a datagram with UDP.
    pub block: usize,
    /// Rate of each stream, bit/s; 0 for as fast as it goes.
    pub rate_bits_s: u64,
    /// Blocks that may go at once within the rate; 0 for one.
    pub burst: usize,
    /// Set on each stream's socket.
    pub socket: Options,
    /// The sender copies nothing (`sendfile`).
    pub zero_copy: bool,
    /// The receiver copies nothing (`MSG_TRUNC`).
    pub skip_rx_copy: bool,
    /// How datagrams go.
    pub handing: Handing,
    /// Length of the timed region, s; 0 where bytes end it.
    pub runtime_s: f64,
    /// Time before it that is not counted, s.
    pub omit_s: f64,
    /// Bytes after which the client ends; 0 for no such end.
    pub bytes: u64,
    /// Blocks (or datagrams) after which the client ends; 0 for no such end.
    pub blocks: u64,
    /// Datagrams carry 64-bit numbers.
    pub counters_64: bool,
    /// The client wants the server's output.
    pub wants_output: bool,
    /// Round trips, if any.
    pub echo: Option<Echo>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            udp: false,
            streams: 1,
            up: true,
            down: false,
            block: 128 << 10,
            rate_bits_s: 0,
            burst: 0,
            socket: Options::default(),
            zero_copy: false,
            skip_rx_copy: false,
            handing: Handing::Batched,
            runtime_s: 1.0,
            omit_s: 0.0,
            bytes: 0,
            blocks: 0,
            counters_64: true,
            wants_output: false,
            echo: None,
        }
    }
}

impl Settings {
    /// Whether an amount ends the test, and not time.
    #[must_use]
    pub fn by_amount(&self) -> bool {
        self.bytes > 0 || self.blocks > 0
    }

    /// Memory that a server needs for the streams of this test, at most: blocks, batches and socket buffers, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        /// What a socket's two buffers may hold unless another size is set (the kernel's limits bound the rest).
        const SOCKET_BYTES: usize = 512 << 10;
        let buffer_bytes = if self.udp {
            32 * self.block.max(2048) + LARGEST_DATAGRAM * 4
        } else {
            self.block + self.block.max(TAKEN_BYTES)
        };
        self.total() * (buffer_bytes + SOCKET_BYTES)
    }

    /// How many streams there are over all directions.
    #[must_use]
    pub fn total(&self) -> usize {
        self.streams * (usize::from(self.up) + usize::from(self.down))
    }

    /// Whether stream `index`, in the order of opening, goes from client to server.
    #[must_use]
    pub fn goes_up(&self, index: usize) -> bool {
        self.up && index < self.streams
    }

    /// Datagrams in one buffer.
    #[must_use]
    pub fn segments(&self) -> usize {
        match self.handing {
            Handing::Segmented => (LARGEST_DATAGRAM / self.block.max(1)).clamp(1, MAX_SEGMENTS),
            _ => 1,
        }
    }

    /// The settings as a client's parameters. `hwdyno` has real seconds for our server: iperf3 takes whole ones.
    #[must_use]
    pub fn to_parameters(&self) -> Value {
        let mut fields = Map::new();
        fields.insert(if self.udp { "udp" } else { "tcp" }.into(), json!(true));
        fields.insert("omit".into(), json!(self.omit_s as u64));
        // A server of iperf3 gives up some time after this; only the client decides the end.
        fields.insert("time".into(), json!(if self.by_amount() { 0 } else { self.runtime_s.ceil() as u64 + 1 }));
        fields.insert("num".into(), json!(self.bytes));
        fields.insert("blockcount".into(), json!(self.blocks));
        fields.insert("parallel".into(), json!(self.streams));
        fields.insert("len".into(), json!(self.block));
        fields.insert("pacing_timer".into(), json!(1000));
        fields.insert("client_version".into(), json!("3.12"));
        if self.down {
            fields.insert(if self.up { "bidirectional" } else { "reverse" }.into(), json!(true));
        }
        let options = &self.socket;
        let mut given = |name: &str, holds: bool, value: Value| {
            if holds {
                fields.insert(name.into(), value);
            }
        };
        given("nodelay", options.nodelay, json!(true));
        given("window", options.window > 0, json!(options.window));
        given("MSS", options.mss > 0, json!(options.mss));
        given("TOS", options.tos > 0, json!(options.tos));
        given("congestion", !options.congestion.is_empty(), json!(options.congestion));
        given("bandwidth", self.rate_bits_s > 0, json!(self.rate_bits_s));
        given("burst", self.burst > 0, json!(self.burst));
        given("zerocopy", self.zero_copy, json!(1));
        given("skip_rx_copy", self.skip_rx_copy, json!(1));
        given("udp_counters_64bit", self.udp && self.counters_64, json!(1));
        given("get_server_output", self.wants_output, json!(1));
        let mut extension = Map::new();
        extension.insert("runtime_s".into(), json!(self.runtime_s));
        extension.insert("omit_s".into(), json!(self.omit_s));
        extension.insert("segmented".into(), json!(self.handing == Handing::Segmented));
        extension.insert("plain".into(), json!(self.handing == Handing::Plain));
        if let Some(echo) = self.echo {
            extension.insert(
                "echo".into(),
                json!({"udp": echo.udp, "connect": echo.connect, "spin": echo.spin, "message": echo.message}),
            );
        }
        fields.insert("hwdyno".into(), Value::Object(extension));
        Value::Object(fields)
    }

    /// Reads a client's parameters, each within a server's limits; the error names what is wrong.
    pub fn from_parameters(fields: &Value) -> Result<Self, String> {
        let number = |name: &str| fields.get(name).and_then(Value::as_f64).filter(|n| n.is_finite()).unwrap_or(0.0);
        let whole = |name: &str| number(name).max(0.0) as u64;
        let flag = |name: &str| fields.get(name).is_some_and(|v| v.as_bool().unwrap_or_else(|| v.as_f64() > Some(0.0)));
        if flag("sctp") {
            return Err("SCTP is not supported".into());
        }
        let udp = flag("udp");
        let extension = fields.get("hwdyno");
        let echo = extension.and_then(|extension| extension.get("echo")).map(Echo::from_parameters);
        let parallel = if fields.get("parallel").is_none() { 1 } else { whole("parallel") as usize };
        if parallel > MAX_STREAMS || (parallel == 0 && echo.is_none()) {
            return Err(format!("{parallel} streams; 1 to {MAX_STREAMS} are supported"));
        }
        let counters_64 = flag("udp_counters_64bit");
        let block = block_of(whole("len") as usize, udp)?;
        let seconds = |name: &str, whole: f64| {
            extension
                .and_then(|extension| extension.get(name))
                .and_then(Value::as_f64)
                .unwrap_or(whole)
                .clamp(0.0, LONGEST_S)
        };
        let switched_on = |name: &str| extension.is_some_and(|extension| extension[name].as_bool() == Some(true));
        let congestion = fields.get("congestion").and_then(Value::as_str).unwrap_or("");
        Ok(Self {
            udp,
            streams: parallel,
            up: !flag("reverse") || flag("bidirectional"),
            down: flag("reverse") || flag("bidirectional"),
            block,
            rate_bits_s: whole("bandwidth"),
            burst: whole("burst").min(1000) as usize,
            socket: Options {
                window: (whole("window") as usize).min(512 << 20),
                congestion: congestion.chars().take(15).filter(char::is_ascii_graphic).collect(),
                nodelay: flag("nodelay"),
                mss: (whole("MSS") as usize).min(65_535),
                tos: whole("TOS").min(255) as u8,
            },
            zero_copy: flag("zerocopy"),
            skip_rx_copy: flag("skip_rx_copy"),
            handing: match (switched_on("segmented"), switched_on("plain")) {
                (true, _) => Handing::Segmented,
                (_, true) => Handing::Plain,
                _ => Handing::Batched,
            },
            runtime_s: seconds("runtime_s", number("time")),
            omit_s: seconds("omit_s", number("omit")),
            bytes: whole("num"),
            blocks: whole("blockcount"),
            counters_64,
            wants_output: flag("get_server_output"),
            echo,
        })
    }
}

/// The length of a block that was requested as `len`; 0 is iperf3's default.
fn block_of(len: usize, udp: bool) -> Result<usize, String> {
    match len {
        0 if udp => Ok(1460),
        0 => Ok(128 << 10),
        block if udp && !(HEADER_BYTES..=LARGEST_DATAGRAM).contains(&block) => {
            Err(format!("datagrams of {block} bytes; {HEADER_BYTES} to {LARGEST_DATAGRAM} are supported"))
        }
        block if block > LARGEST_BLOCK => {
            Err(format!("blocks of {block} bytes; at most {LARGEST_BLOCK} are supported"))
        }
        block => Ok(block),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_survive_the_wire() {
        let sent = Settings {
            udp: true,
            streams: 3,
            up: true,
            down: true,
            block: 1200,
            rate_bits_s: 5_000_000,
            runtime_s: 0.5,
            omit_s: 0.25,
            handing: Handing::Segmented,
            echo: Some(Echo { udp: false, connect: true, spin: true, message: 512 }),
            ..Settings::default()
        };
        let read = Settings::from_parameters(&sent.to_parameters()).unwrap();
        assert_eq!(format!("{sent:?}"), format!("{read:?}"));
    }

    #[test]
    fn iperf3s_own_parameters_are_read() {
        let fields = json!({"tcp": true, "omit": 1, "time": 10, "num": 0, "blockcount": 0, "parallel": 4, "reverse": true,
                          "len": 131_072, "pacing_timer": 1000, "client_version": "3.12", "congestion": "cubic"});
        let read = Settings::from_parameters(&fields).unwrap();
        assert_eq!((read.streams, read.up, read.down, read.runtime_s as u32), (4, false, true, 10));
        assert_eq!(read.socket.congestion, "cubic");
        assert_eq!(Settings::from_parameters(&json!({"tcp": true})).unwrap().streams, 1);
    }

    #[test]
    fn what_a_server_cannot_bear_is_refused() {
        for fields in [
            json!({"tcp": true, "parallel": 100_000}),
            json!({"tcp": true, "parallel": 0}),
            json!({"udp": true, "parallel": 1, "len": 70_000}),
            json!({"udp": true, "parallel": 1, "len": 4}),
            json!({"tcp": true, "parallel": 1, "len": 1e18}),
            json!({"sctp": true, "parallel": 1}),
        ] {
            assert!(Settings::from_parameters(&fields).is_err(), "{fields}");
        }
    }
}
