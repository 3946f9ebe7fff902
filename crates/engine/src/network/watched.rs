//! What TCP reports of a sending stream while it runs, at whichever end it is, and how that goes over the wire.

use serde_json::{json, Value};

use crate::sys::tcp_info::TcpInfo;

/// Looks at one stream's `TCP_INFO` over the timed region.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watched {
    first: TcpInfo,
    last: TcpInfo,
    looks: u64,
    cwnd_sum: u64,
    rtt_sum: u64,
    cwnd_max: u64,
    rtt_max: u64,
}

impl Watched {
    /// Whether it was looked at yet.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.looks > 0
    }

    /// Takes one look; nothing, where the socket reports nothing any more.
    pub fn look(&mut self, info: Option<TcpInfo>) {
        let Some(info) = info else {
            self.looks += 1;
            return;
        };
        if self.looks == 0 {
            self.first = info;
        }
        self.last = info;
        self.looks += 1;
        self.cwnd_sum += info.cwnd_bytes;
        self.rtt_sum += info.rtt_us;
        self.cwnd_max = self.cwnd_max.max(info.cwnd_bytes);
        self.rtt_max = self.rtt_max.max(info.rtt_us);
    }

    /// The figures of what was seen.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let looks = self.looks.max(1) as f64;
        let (first, last) = (&self.first, &self.last);
        let grown = |of: fn(&TcpInfo) -> u64| of(last).saturating_sub(of(first));
        Figures {
            retransmits: grown(|info| info.retransmits),
            acked_bytes: grown(|info| info.acked_bytes),
            cwnd_mean_bytes: self.cwnd_sum as f64 / looks,
            cwnd_max_bytes: self.cwnd_max,
            rtt_mean_us: self.rtt_sum as f64 / looks,
            rtt_max_us: self.rtt_max,
            rtt_min_us: last.min_rtt_us,
            rttvar_us: last.rttvar_us,
            pmtu_bytes: last.pmtu,
            mss_bytes: last.mss_bytes,
            reordering_segments: last.reordering,
            receive_window_bytes: last.receive_window_bytes,
            busy_us: grown(|info| info.busy_us),
            receiver_limited_us: grown(|info| info.receiver_limited_us),
            buffer_limited_us: grown(|info| info.buffer_limited_us),
        }
    }
}

/// One sending stream's figures over the timed region.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// Segments sent again.
    pub retransmits: u64,
    /// Bytes that the receiver acknowledged.
    pub acked_bytes: u64,
    /// Mean congestion window.
    pub cwnd_mean_bytes: f64,
    /// The largest.
    pub cwnd_max_bytes: u64,
    /// Mean of the smoothed round trip.
    pub rtt_mean_us: f64,
    /// The longest.
    pub rtt_max_us: u64,
    /// The shortest round trip that the connection ever saw.
    pub rtt_min_us: u64,
    /// Mean deviation of the round trip.
    pub rttvar_us: u64,
    /// Path MTU.
    pub pmtu_bytes: u64,
    /// Payload of a full segment.
    pub mss_bytes: u64,
    /// Segments by which the path is taken to reorder.
    pub reordering_segments: u64,
    /// The window that the receiver granted.
    pub receive_window_bytes: u64,
    /// Time with data to send.
    pub busy_us: u64,
    /// Part of that spent waiting for the receiver's window.
    pub receiver_limited_us: u64,
    /// Part of that spent waiting for room in the send buffer.
    pub buffer_limited_us: u64,
}

impl Figures {
    /// The JSON that goes over the wire.
    #[must_use]
    pub fn to_json(self) -> Value {
        json!({
            "retransmits": self.retransmits, "acked_bytes": self.acked_bytes,
            "cwnd_mean_bytes": self.cwnd_mean_bytes, "cwnd_max_bytes": self.cwnd_max_bytes,
            "rtt_mean_us": self.rtt_mean_us, "rtt_max_us": self.rtt_max_us, "rtt_min_us": self.rtt_min_us,
            "rttvar_us": self.rttvar_us, "pmtu_bytes": self.pmtu_bytes, "mss_bytes": self.mss_bytes,
            "reordering_segments": self.reordering_segments, "receive_window_bytes": self.receive_window_bytes,
            "busy_us": self.busy_us, "receiver_limited_us": self.receiver_limited_us,
            "buffer_limited_us": self.buffer_limited_us,
        })
    }

    /// Reads what the other end sent; none where it sent nothing, and nonsense is 0.
    #[must_use]
    pub fn from_json(fields: &Value) -> Option<Self> {
        fields.as_object()?;
        let number =
            |name: &str| fields.get(name).and_then(Value::as_f64).filter(|n| n.is_finite()).unwrap_or(0.0).max(0.0);
        let whole = |name: &str| number(name) as u64;
        Some(Self {
            retransmits: whole("retransmits"),
            acked_bytes: whole("acked_bytes"),
            cwnd_mean_bytes: number("cwnd_mean_bytes"),
            cwnd_max_bytes: whole("cwnd_max_bytes"),
            rtt_mean_us: number("rtt_mean_us"),
            rtt_max_us: whole("rtt_max_us"),
            rtt_min_us: whole("rtt_min_us"),
            rttvar_us: whole("rttvar_us"),
            pmtu_bytes: whole("pmtu_bytes"),
            mss_bytes: whole("mss_bytes"),
            reordering_segments: whole("reordering_segments"),
            receive_window_bytes: whole("receive_window_bytes"),
            busy_us: whole("busy_us"),
            receiver_limited_us: whole("receiver_limited_us"),
            buffer_limited_us: whole("buffer_limited_us"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_to_means_and_growth() {
        let mut watched = Watched::default();
        for (rtt_us, retransmits) in [(100, 5), (300, 9)] {
            watched.look(Some(TcpInfo { rtt_us, retransmits, cwnd_bytes: rtt_us * 10, ..TcpInfo::default() }));
        }
        let figures = watched.figures();
        assert_eq!((figures.retransmits, figures.rtt_max_us, figures.cwnd_max_bytes), (4, 300, 3000));
        assert!((figures.rtt_mean_us - 200.0).abs() < 1e-9);
        assert_eq!(Figures::from_json(&figures.to_json()), Some(figures));
        assert_eq!(Figures::from_json(&json!({"busy_us": -4, "pmtu_bytes": "x"})), Some(Figures::default()));
        assert_eq!(Figures::from_json(&json!(null)), None);
    }
}
