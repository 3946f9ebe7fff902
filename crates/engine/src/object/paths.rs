//! What is known of the connections of a run: TCP's own figures of each at its end, and how each address answered.

use rustls::CipherSuite;
use serde_json::{json, Map, Value};

use crate::contract::reading::Reading;
use crate::network::route;
use crate::object::options::Bucket;
use crate::object::records;
use crate::sys::tcp_info::TcpInfo;

/// Where objects go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Objects come from the store.
    Down,
    /// Objects go to the store.
    Up,
    /// Objects go both ways, over windows that may differ.
    Both,
}

/// How one address of the store answered.
#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    operations: u64,
    failed: u64,
    total_ns: u64,
}

/// Sums over connections.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    by_place: Vec<Answers>,
    connections: u64,
    rtt_us: u64,
    min_rtt_us: u64,
    /// Windows that this end grants, and that the store grants, bytes.
    granted_bytes: u64,
    receive_window_bytes: u64,
    busy_us: u64,
    receiver_limited_us: u64,
    buffer_limited_us: u64,
    /// What TLS encrypts by, where there is TLS.
    suite: Option<CipherSuite>,
}

impl Paths {
    /// Those to this many addresses.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self { by_place: vec![Answers::default(); places], ..Self::default() }
    }

    /// Counts a complete request of the connection with this number.
    pub fn complete(&mut self, connection: usize, total_ns: u64) {
        if let Some(answers) = self.of(connection) {
            answers.operations += 1;
            answers.total_ns += total_ns;
        }
    }

    /// Counts a request that failed.
    pub fn fail(&mut self, connection: usize) {
        if let Some(answers) = self.of(connection) {
            answers.failed += 1;
        }
    }

    /// Adds the figures of a connection.
    pub fn look(&mut self, info: &TcpInfo) {
        self.connections += 1;
        self.rtt_us += info.rtt_us;
        self.min_rtt_us = if self.connections == 1 { info.min_rtt_us } else { self.min_rtt_us.min(info.min_rtt_us) };
        self.granted_bytes += info.granted_window_bytes;
        self.receive_window_bytes += info.receive_window_bytes;
        self.busy_us += info.busy_us;
        self.receiver_limited_us += info.receiver_limited_us;
        self.buffer_limited_us += info.buffer_limited_us;
    }

    /// Keeps what a connection is, or was, encrypted by.
    pub fn secure(&mut self, suite: Option<CipherSuite>) {
        self.suite = self.suite.or(suite);
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in self.by_place.iter_mut().zip(&other.by_place) {
            sum.operations += more.operations;
            sum.failed += more.failed;
            sum.total_ns += more.total_ns;
        }
        self.min_rtt_us = match (self.connections, other.connections) {
            (0, _) => other.min_rtt_us,
            (_, 0) => self.min_rtt_us,
            _ => self.min_rtt_us.min(other.min_rtt_us),
        };
        self.connections += other.connections;
        self.rtt_us += other.rtt_us;
        self.granted_bytes += other.granted_bytes;
        self.receive_window_bytes += other.receive_window_bytes;
        self.busy_us += other.busy_us;
        self.receiver_limited_us += other.receiver_limited_us;
        self.buffer_limited_us += other.buffer_limited_us;
        self.secure(other.suite);
    }

    /// Adds them to a reading. The window is that of the end that receives objects; a store's is known from Linux 5.4 on.
    pub fn describe(&self, flow: Flow, reading: &mut Reading) {
        if self.by_place.len() > 1 {
            let row = |of: fn(&Answers) -> u64| json!(self.by_place.iter().map(of).collect::<Vec<_>>());
            reading.detail("endpoint_requests", row(|answers| answers.operations));
            reading.detail("endpoint_failed", row(|answers| answers.failed));
            reading.detail("endpoint_mean_ns", row(|answers| answers.total_ns / answers.operations.max(1)));
        }
        if let Some((suite, bytes_cpu_s)) = self.suite.and_then(|suite| Some((suite, records::bytes_cpu_s(suite)?))) {
            reading.detail("tls_suite", suite.as_str());
            reading.detail("tls_bytes_cpu_s", bytes_cpu_s);
        }
        if self.connections == 0 {
            return;
        }
        let mean = |sum: u64| sum as f64 / self.connections as f64;
        reading.detail("rtt_mean_us", mean(self.rtt_us));
        reading.detail("rtt_min_us", self.min_rtt_us);
        let window = match flow {
            Flow::Down => self.granted_bytes,
            Flow::Up => self.receive_window_bytes,
            Flow::Both => 0,
        };
        if window > 0 {
            reading.detail("window_bytes", mean(window));
        }
        if flow == Flow::Up && self.busy_us > 0 {
            reading.detail("receiver_limited_share", self.receiver_limited_us as f64 / self.busy_us as f64);
            reading.detail("buffer_limited_share", self.buffer_limited_us as f64 / self.busy_us as f64);
        }
    }

    fn of(&mut self, connection: usize) -> Option<&mut Answers> {
        let at = connection % self.by_place.len().max(1);
        self.by_place.get_mut(at)
    }
}

/// Adds what is known of the way to a bucket: its interface, or what memory and, `with_stream`, TCP carry on loopback.
pub fn describe_route(bucket: &Bucket, with_stream: bool, details: &mut Map<String, Value>) {
    let Some(address) = bucket.places.first().map(|place| place.address.ip()) else { return };
    let is_near = route::stays_here(address);
    details.insert("loopback".into(), json!(is_near));
    route::describe(address, details);
    if let Some(bytes_cpu_s) = (is_near && with_stream).then(route::loopback_bytes_cpu_s).flatten() {
        details.insert("loopback_bytes_cpu_s".into(), json!(bytes_cpu_s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_and_direction_has_its_figures() {
        let mut first = Paths::new(2);
        first.complete(2, 10);
        first.complete(4, 30);
        first.fail(3);
        first.look(&TcpInfo { rtt_us: 100, min_rtt_us: 90, granted_window_bytes: 1000, ..TcpInfo::default() });
        let mut second = Paths::new(2);
        second.complete(1, 7);
        let mut both = second.clone();
        both.merge(&first);
        let info = TcpInfo {
            rtt_us: 300,
            min_rtt_us: 80,
            granted_window_bytes: 3000,
            receive_window_bytes: 500,
            busy_us: 100,
            receiver_limited_us: 40,
            ..TcpInfo::default()
        };
        second.look(&info);
        first.merge(&second);
        let described = |paths: &Paths, flow: Flow| {
            let mut reading = Reading::default();
            paths.describe(flow, &mut reading);
            reading.details
        };
        let down = described(&first, Flow::Down);
        assert_eq!(down["endpoint_requests"], json!([2, 1]));
        assert_eq!((&down["endpoint_failed"], &down["endpoint_mean_ns"]), (&json!([0, 1]), &json!([20, 7])));
        assert_eq!((&down["rtt_mean_us"], &down["rtt_min_us"]), (&json!(200.0), &json!(80)));
        assert_eq!((&down["window_bytes"], down.get("receiver_limited_share")), (&json!(2000.0), None));
        let up = described(&first, Flow::Up);
        assert_eq!((&up["window_bytes"], &up["receiver_limited_share"]), (&json!(250.0), &json!(0.4)));
        assert_eq!(described(&both, Flow::Down)["rtt_min_us"], 90);
        let both_ways = described(&first, Flow::Both);
        assert!(both_ways.contains_key("rtt_min_us") && !both_ways.contains_key("window_bytes"));
        let mut gone = Paths::new(1);
        assert!(described(&gone, Flow::Up).is_empty());
        gone.secure(Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
        gone.secure(None);
        assert_eq!(described(&gone, Flow::Down)["tls_suite"], "TLS13_AES_128_GCM_SHA256");
    }
}
