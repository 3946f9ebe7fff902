//! Where the endpoints of an object store are: their URLs, and the addresses that their names have.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::contract::kernel::Error;

/// One address of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where connections go.
    pub address: SocketAddr,
    /// The host as the URL names it, with its port unless that is 80: what `Host` says.
    pub host: String,
}

/// Addresses of several endpoints, as a list with commas: `http://10.0.0.1:9000,http://10.0.0.2:9000`.
///
/// A name that has several addresses gives all of them, of one family, so that connections spread over them.
pub fn resolve(endpoints: &str) -> Result<Vec<Place>, Error> {
    let mut places = Vec::new();
    for url in endpoints.split(',').map(str::trim).filter(|url| !url.is_empty()) {
        let (host, port) = parse(url)?;
        let bare = host.trim_matches(['[', ']']);
        let found: Vec<SocketAddr> = (bare, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        let Some(first) = found.first() else {
            return Err(Error::usage(format!("endpoint = {url}: no host is called '{bare}'")));
        };
        let shown = if port == 80 { host.clone() } else { format!("{host}:{port}") };
        let of_family = found.iter().filter(|address| address.is_ipv4() == first.is_ipv4());
        places.extend(of_family.map(|&address| Place { address, host: shown.clone() }));
    }
    if places.is_empty() {
        return Err(Error::usage("endpoint: name the store's URL, such as http://127.0.0.1:9000"));
    }
    Ok(places)
}

/// The host and the port of a URL. An error never shows a URL with a user, because a password may follow.
fn parse(url: &str) -> Result<(String, u16), Error> {
    if url.contains('@') {
        return Err(Error::usage(
            "endpoint: a URL with a user or password is refused; credentials come from AWS_* or ~/.aws",
        ));
    }
    if url.starts_with("https://") {
        return Err(Error::usage(format!("endpoint = {url}: TLS is not supported yet; use an http:// endpoint")));
    }
    let wrong =
        || Error::usage(format!("endpoint = {url}: use a URL with a host and a port, such as http://127.0.0.1:9000"));
    let place = url.strip_prefix("http://").ok_or_else(wrong)?;
    let place = place.strip_suffix('/').unwrap_or(place);
    let is_plain = place.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte));
    if place.is_empty() || !is_plain {
        return Err(wrong());
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| wrong())?),
        _ => (place, 80),
    };
    if host.is_empty() || port == 0 || (host.contains(':') && !host.starts_with('[')) {
        return Err(wrong());
    }
    Ok((host.to_string(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_give_host_and_address() {
        for (url, host, address) in [
            ("http://127.0.0.1:9000", "127.0.0.1:9000", "127.0.0.1:9000"),
            ("http://127.0.0.1/", "127.0.0.1", "127.0.0.1:80"),
            ("http://[::1]:7070", "[::1]:7070", "[::1]:7070"),
            ("http://[::1]", "[::1]", "[::1]:80"),
        ] {
            let places = resolve(url).unwrap();
            assert_eq!((places[0].host.as_str(), places[0].address.to_string().as_str()), (host, address));
        }
        assert_eq!(resolve("http://127.0.0.1:1, http://127.0.0.2:1").unwrap().len(), 2);
    }

    #[test]
    fn other_urls_are_refused_without_a_password() {
        for (url, says) in [
            ("", "name the store's URL"),
            ("https://s3.example.org", "TLS is not supported yet"),
            ("ftp://x", "use a URL"),
            ("http://", "use a URL"),
            ("http://a b", "use a URL"),
            ("http://x:0", "use a URL"),
            ("http://x:99999", "use a URL"),
            ("http://x/path", "use a URL"),
            ("http://::1", "use a URL"),
            ("http://name:hunter2@x", "user or password is refused"),
            ("http://a..b.invalid:1", "no host is called"),
        ] {
            let error = resolve(url).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
