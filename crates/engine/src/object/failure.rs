//! How a request can fail, by kind, and what each kind means to a reader.

/// Why a request did not end as it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// 503 with `SlowDown` or another code: the store sheds load.
    SlowDown,
    /// It was not over by its deadline.
    Timeout,
    /// No connection could be made.
    Unreachable,
    /// The connection ended before the response did.
    Lost,
    /// The object has another length than it should.
    Length,
    /// The response is no HTTP/1.1, or its head has no end.
    Malformed,
    /// The object's checksum is not the one that the store states.
    Checksum,
    /// 404.
    Missing,
    /// 401 or 403.
    Denied,
    /// 403 with `RequestTimeTooSkewed`.
    Skewed,
    /// 3xx.
    Redirected,
    /// Any other 4xx.
    Rejected,
    /// Any other 5xx.
    Server,
    /// TLS broke, or could not begin.
    Tls,
    /// The store uses TLS, and the request was sent without.
    Encrypted,
}

/// Number of kinds.
pub const KINDS: usize = 15;

/// All kinds, in the order of their numbers.
pub const ALL: [Failure; KINDS] = [
    Failure::SlowDown,
    Failure::Timeout,
    Failure::Unreachable,
    Failure::Lost,
    Failure::Length,
    Failure::Malformed,
    Failure::Checksum,
    Failure::Missing,
    Failure::Denied,
    Failure::Skewed,
    Failure::Redirected,
    Failure::Rejected,
    Failure::Server,
    Failure::Tls,
    Failure::Encrypted,
];

impl Failure {
    /// Its place among all.
    #[must_use]
    pub fn number(self) -> usize {
        self as usize
    }

    /// The kind of a response with this status and this code of S3, which may be unknown; none of a success.
    #[must_use]
    pub fn of_response(status: u16, code: &[u8]) -> Option<Self> {
        match (status, code) {
            (200..=299, _) => None,
            (_, b"RequestTimeTooSkewed") => Some(Self::Skewed),
            (503, _) | (_, b"SlowDown") => Some(Self::SlowDown),
            (300..=399, _) => Some(Self::Redirected),
            (401 | 403, _) => Some(Self::Denied),
            (404, _) => Some(Self::Missing),
            (408, _) => Some(Self::Timeout),
            (400..=499, _) => Some(Self::Rejected),
            (500..=599, _) => Some(Self::Server),
            _ => Some(Self::Malformed),
        }
    }

    /// What it means, in a few words.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::SlowDown => "503 SlowDown: the store sheds load",
            Self::Timeout => "no complete response by the deadline",
            Self::Unreachable => "no connection could be made",
            Self::Lost => "the connection ended before the response did",
            Self::Length => "the response has another length than the object",
            Self::Malformed => "the response is not HTTP/1.1",
            Self::Checksum => "the object's checksum is not the one that the store states",
            Self::Missing => "404: the key is missing",
            Self::Denied => "403: access is denied",
            Self::Skewed => "RequestTimeTooSkewed: this clock and the store's differ by more than 15 minutes",
            Self::Redirected => "3xx: the bucket is at another endpoint",
            Self::Rejected => "4xx: the store refused the request",
            Self::Server => "5xx: the store failed",
            Self::Tls => "TLS could not begin, or broke",
            Self::Encrypted => "the store uses TLS, and the endpoint is http://",
        }
    }

    /// Whether the same request may succeed a moment later.
    #[must_use]
    pub fn may_pass(self) -> bool {
        matches!(self, Self::SlowDown | Self::Timeout | Self::Unreachable | Self::Lost | Self::Server)
    }

    /// What mends it, where one thing does; empty otherwise.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::SlowDown => "use fewer requests in flight, or wait until the store is less loaded",
            Self::Timeout => "check the store's load and the path to it",
            Self::Unreachable => "check the endpoint and that the store runs",
            Self::Missing => "check the bucket's name (hwdyno object --create-bucket makes it)",
            Self::Denied => "check the credentials, the bucket's policy and the region",
            Self::Skewed => "set this machine's clock (timedatectl)",
            Self::Redirected => "use the endpoint of the bucket's region",
            Self::Encrypted => "use https:// in --endpoint",
            Self::Malformed => "check that the endpoint is the S3 port of the store",
            _ => "",
        }
    }

    /// What it means and what mends it, in one line.
    #[must_use]
    pub fn line(self) -> String {
        match self.advice() {
            "" => self.says().into(),
            advice => format!("{}; {advice}", self.says()),
        }
    }

    /// The system's number of what is alike; 0 where nothing is.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            Self::Missing => libc::ENOENT,
            Self::Timeout => libc::ETIMEDOUT,
            Self::Unreachable => libc::EHOSTUNREACH,
            _ => 0,
        }
    }
}

/// The text between `<tag>` and `</tag>` in some XML; empty where there is none.
#[must_use]
pub fn text_of<'a>(xml: &'a [u8], tag: &str) -> &'a [u8] {
    let find = |text: &[u8], wanted: &[u8]| text.windows(wanted.len().max(1)).position(|part| part == wanted);
    let (begin, end) = (tag.as_bytes(), b"</");
    let mut from = 0;
    while let Some(at) = find(&xml[from..], begin) {
        let (first, after) = (from + at, from + at + begin.len());
        if first > 0 && xml[first - 1] == b'<' && xml.get(after) == Some(&b'>') {
            let text = &xml[after + 1..];
            return find(text, end).map_or(b"", |length| &text[..length]);
        }
        from = after;
    }
    b""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_numbers() {
        for (number, kind) in ALL.into_iter().enumerate() {
            assert_eq!(kind.number(), number);
        }
    }

    #[test]
    fn responses_have_their_kind() {
        for (status, code, kind) in [
            (200, "", None),
            (206, "SlowDown", None),
            (503, "SlowDown", Some(Failure::SlowDown)),
            (503, "", Some(Failure::SlowDown)),
            (403, "RequestTimeTooSkewed", Some(Failure::Skewed)),
            (403, "AccessDenied", Some(Failure::Denied)),
            (301, "PermanentRedirect", Some(Failure::Redirected)),
            (404, "NoSuchKey", Some(Failure::Missing)),
            (400, "", Some(Failure::Rejected)),
            (500, "", Some(Failure::Server)),
            (199, "", Some(Failure::Malformed)),
        ] {
            assert_eq!(Failure::of_response(status, code.as_bytes()), kind, "{status} {code}");
        }
    }

    #[test]
    fn the_code_of_an_error_is_read_whole_or_not_at_all() {
        let of = |xml: &str| String::from_utf8(text_of(xml.as_bytes(), "Code").to_vec()).unwrap();
        assert_eq!(of("<?xml?><Error><Code>SlowDown</Code><Message>x</Message></Error>"), "SlowDown");
        assert_eq!(of("<Error><BarCode>x</BarCode><Code>A</Code>"), "A");
        for xml in ["", "<Code>Slow", "Code", "<Code", "CodeCodeCode", "Code>x</"] {
            assert_eq!(of(xml), "", "{xml}");
        }
    }
}
