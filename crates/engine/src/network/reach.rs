//! The way to a server until a test is agreed on: its address, a connection, a greeting, and what mends a failure.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use crate::contract::kernel::{Error, Stop};
use crate::network::settings::Settings;
use crate::network::wire::{self, Control, Cookie};
use crate::sys::net::{self, Options};
use crate::timing::clock::now_ns;

/// What a server that serves someone else is reported by.
const BUSY: &str = "the server is busy running a test; try again later";
/// How long a server may take from one test to the next.
const BETWEEN_TESTS: Duration = Duration::from_secs(1);
/// Default port of iperf3's servers and ours.
const DEFAULT_PORT: u16 = 5201;

/// This machine's loopback: IPv6's where it has no IPv4.
#[must_use]
pub fn loopback() -> IpAddr {
    let ipv4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    [ipv4, IpAddr::V6(Ipv6Addr::LOCALHOST)].into_iter().find(|ip| is_routed(SocketAddr::new(*ip, 9))).unwrap_or(ipv4)
}

/// Whether this machine has a way to an address. A datagram socket sends nothing when it is connected.
fn is_routed(address: SocketAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(address)).is_ok()
}

/// Finds the first address of `host` that this machine has a way to; a port in it (`host:port`, `[::1]:port`) wins over `port`.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, Error> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let (name, port) = match host.rsplit_once(':') {
        None => (bare, port),
        Some((name, given)) => match given.parse::<u16>() {
            Ok(given) if given > 0 => (name.trim_matches(['[', ']']), given),
            _ => return Err(Error::usage(format!("server = {host}: '{given}' is not a port; use 1 to 65535"))),
        },
    };
    let all: Vec<SocketAddr> = (name, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    // On a host with IPv6 alone, `localhost` still begins with 127.0.0.1.
    let found = all.iter().find(|address| is_routed(**address)).or(all.first());
    found.copied().ok_or_else(|| Error::usage(format!("server = {host}: the name '{name}' cannot be resolved")))
}

/// An address as people say it.
#[must_use]
pub fn place(address: SocketAddr) -> String {
    format!("{} port {}", address.ip(), address.port())
}

/// Connects to a server's port and gives it the cookie, until it asks for parameters.
///
/// Right after a test a server may not be ready for the next: ours is busy, and iperf3's closes its socket, which refuses
/// who comes and cuts off who waits. It is therefore asked again for a while.
pub fn greet(address: SocketAddr, cookie: &Cookie, timeout: Duration, stop: &Stop) -> Result<Control, Error> {
    let until_ns = now_ns() + BETWEEN_TESTS.as_nanos() as u64;
    loop {
        match greet_once(address, cookie, timeout, stop) {
            Err((_, kind)) if is_between_tests(kind) && !stop.is_set() && now_ns() < until_ns => {
                std::thread::sleep(Duration::from_millis(60));
            }
            answer => return answer.map_err(|(error, _)| error),
        }
    }
}

fn is_between_tests(kind: ErrorKind) -> bool {
    kind == ErrorKind::ResourceBusy || kind == ErrorKind::ConnectionRefused || is_cut_off(kind)
}

fn is_cut_off(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

fn greet_once(
    address: SocketAddr,
    cookie: &Cookie,
    timeout: Duration,
    stop: &Stop,
) -> Result<Control, (Error, ErrorKind)> {
    let options = Options { nodelay: true, ..Options::default() };
    let connection = net::connect(&address, &options, timeout)
        .map_err(|error| (unreached(address, timeout, &error), error.kind()))?;
    let greeted = Control::new(connection, stop.clone()).and_then(|mut control| {
        control.send(cookie)?;
        expect(&mut control, wire::PARAM_EXCHANGE, timeout)?;
        Ok(control)
    });
    greeted.map_err(|error| {
        let kind = error.kind();
        if stop.is_set() {
            return (Error::stopped(), kind);
        }
        let place = place(address);
        let says = match kind {
            ErrorKind::TimedOut => format!(
                "something listens at {place}, but did not answer as an iperf3 server within {} s; {WHICH}",
                timeout.as_secs()
            ),
            ErrorKind::InvalidData => {
                format!("the service at {place} does not speak iperf3's protocol ({error}); {WHICH}")
            }
            _ if is_cut_off(kind) => format!("the service at {place} closed the connection before the test; {WHICH}"),
            _ => format!("the server at {place}: {error}"),
        };
        (Error::Machine(says, error.raw_os_error()), kind)
    })
}

const WHICH: &str = "run `hwdyno network server` or `iperf3 -s` there";

fn unreached(address: SocketAddr, timeout: Duration, error: &io::Error) -> Error {
    let (ip, errno) = (address.ip(), error.raw_os_error());
    let says = match errno {
        Some(libc::ECONNREFUSED) => {
            format!("nothing listens at {}; start {} there", place(address), start(address))
        }
        Some(libc::ETIMEDOUT) => format!(
            "no answer from {} within {} s: check the address, the host and the firewall; try `ping {ip}`",
            place(address),
            timeout.as_secs()
        ),
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH) => {
            format!("no route to {} ({error}); `ip route get {ip}` shows where it ends", place(address))
        }
        _ => format!("connect to {}: {error}", place(address)),
    };
    Error::Machine(says, errno)
}

/// The command that starts a server of ours or of iperf3's at an address; ours binds 127.0.0.1 by default.
fn start(address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    let bind = if ip == IpAddr::V4(Ipv4Addr::LOCALHOST) { String::new() } else { format!(" --bind {ip}") };
    let (ours, theirs) = if port == DEFAULT_PORT {
        (String::new(), String::new())
    } else {
        (format!(" --port {port}"), format!(" -p {port}"))
    };
    format!("`hwdyno network server{bind}{ours}` or `iperf3 -s{theirs}`")
}

/// Waits for a state; what else comes is an error that says what it was.
pub fn expect(control: &mut Control, wanted: i8, timeout: Duration) -> io::Result<()> {
    match control.read_state("its next state", timeout)? {
        state if state == wanted => Ok(()),
        wire::ACCESS_DENIED => Err(io::Error::new(ErrorKind::ResourceBusy, BUSY)),
        wire::SERVER_ERROR => Err(io::Error::other(control.read_error())),
        wire::SERVER_TERMINATE => Err(io::Error::other("the server ended the test")),
        other => Err(io::Error::new(ErrorKind::InvalidData, format!("it answered with state {other}, not {wanted}"))),
    }
}

/// Why a stream could not be opened although the control connection is up.
#[must_use]
pub fn no_stream(address: SocketAddr, settings: &Settings, error: &io::Error) -> Error {
    let (place, control) = (place(address), &settings.socket.congestion);
    let says = if !control.is_empty() && matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EPERM)) {
        format!(
            "congestion = {control}: this system does not allow it ({error}); \
             `sysctl net.ipv4.tcp_available_congestion_control net.ipv4.tcp_allowed_congestion_control` lists the allowed ones"
        )
    } else if settings.udp && matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::ConnectionRefused) {
        format!("{place} answers by TCP but not by UDP ({error}): allow UDP in the firewall, too")
    } else {
        format!("open a stream to {place}: {error}")
    };
    Error::Machine(says, error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(host: &str) -> Result<String, String> {
        resolve(host, 5201).map(|address| address.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_read_with_and_without_a_port() {
        for (host, address) in [
            ("127.0.0.1", "127.0.0.1:5201"),
            ("127.0.0.1:77", "127.0.0.1:77"),
            ("::1", "[::1]:5201"),
            ("[::1]", "[::1]:5201"),
            ("[::1]:77", "[::1]:77"),
            ("2001:db8::7", "[2001:db8::7]:5201"),
        ] {
            assert_eq!(resolved(host), Ok(address.into()));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_was_wrong() {
        for (host, says) in [
            ("127.0.0.1:99999", "'99999' is not a port"),
            ("127.0.0.1:0", "'0' is not a port"),
            ("127.0.0.1:", "'' is not a port"),
            ("[::1]:x", "'x' is not a port"),
            ("a..b", "cannot be resolved"),
            ("", "cannot be resolved"),
        ] {
            let said = resolved(host).unwrap_err();
            assert!(said.contains(says), "{host}: {said}");
        }
    }

    #[test]
    fn the_mend_names_what_has_to_be_told() {
        let at = |text: &str| start(text.parse().unwrap());
        assert_eq!(at("127.0.0.1:5201"), "`hwdyno network server` or `iperf3 -s`");
        assert_eq!(at("192.0.2.7:5201"), "`hwdyno network server --bind 192.0.2.7` or `iperf3 -s`");
        assert_eq!(at("[::1]:77"), "`hwdyno network server --bind ::1 --port 77` or `iperf3 -s -p 77`");
    }
}
