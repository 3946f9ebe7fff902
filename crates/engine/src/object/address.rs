//! Where the endpoints of an object store are: their URLs, and the addresses that their names have.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::contract::kernel::Error;
use crate::object::tls::{self, Security};

/// One address of an endpoint.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where connections go.
    pub address: SocketAddr,
    /// The host as the URL names it, with its port unless that is the scheme's: what `Host` says.
    pub host: String,
    /// What makes its connections TLS; none for plain TCP.
    pub security: Option<Security>,
}

impl Place {
    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.security.is_some() { "https" } else { "http" }, self.host)
    }
}

/// Addresses of several endpoints, as a list with commas: `http://10.0.0.1:9000,http://10.0.0.2:9000`.
///
/// A name that has several addresses gives all of them, of one family, so that connections spread over them. Requests
/// name the host behind `before`, such as `bucket.`; `ca_file` is that of [`tls::trust`].
pub fn resolve(endpoints: &str, before: &str, ca_file: &str) -> Result<Vec<Place>, Error> {
    let mut places = Vec::new();
    let is_https = is_tls(endpoints);
    let trusted = if is_https { Some(tls::trust(ca_file)?) } else { None };
    for url in list(endpoints) {
        let (host, port) = parse(url, is_https)?;
        let bare = host.trim_matches(['[', ']']);
        let mut found = if before.is_empty() || bare.parse::<IpAddr>().is_ok() {
            Vec::new()
        } else {
            look_up(&format!("{before}{bare}"), port)
        };
        if found.is_empty() {
            // Many stores have a name, and none for each bucket: what `Host` says is enough for them.
            found = look_up(bare, port);
        }
        let Some(first) = found.first() else {
            return Err(Error::usage(format!("endpoint = {url}: no host is called '{bare}'")));
        };
        let shown =
            if port == default_port(is_https) { format!("{before}{host}") } else { format!("{before}{host}:{port}") };
        let security = trusted.as_ref().map(|config| Security::new(config, &format!("{before}{bare}"))).transpose()?;
        let of_family = found.iter().filter(|address| address.is_ipv4() == first.is_ipv4());
        places.extend(of_family.map(|&address| Place { address, host: shown.clone(), security: security.clone() }));
    }
    if places.is_empty() {
        return Err(Error::usage("endpoint: name the store's URL, such as http://127.0.0.1:9000"));
    }
    Ok(places)
}

fn look_up(host: &str, port: u16) -> Vec<SocketAddr> {
    (host, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default()
}

/// Whether the first endpoint is by TLS; all must be alike.
#[must_use]
pub fn is_tls(endpoints: &str) -> bool {
    list(endpoints).next().is_some_and(|url| url.starts_with("https://"))
}

fn list(endpoints: &str) -> impl Iterator<Item = &str> {
    endpoints.split(',').map(str::trim).filter(|url| !url.is_empty())
}

fn default_port(is_https: bool) -> u16 {
    if is_https {
        443
    } else {
        80
    }
}

/// The host and the port of a URL. An error never shows a URL with a user, because a password may follow.
fn parse(url: &str, is_https: bool) -> Result<(String, u16), Error> {
    if url.contains('@') {
        return Err(Error::usage(
            "endpoint: a URL with a user or password is refused; credentials come from AWS_* or ~/.aws",
        ));
    }
    let wrong =
        || Error::usage(format!("endpoint = {url}: use a URL with a host and a port, such as http://127.0.0.1:9000"));
    let (scheme, other) = if is_https { ("https://", "http://") } else { ("http://", "https://") };
    if url.starts_with(other) {
        return Err(Error::usage("endpoint: some URLs are http:// and some https://; use one of them for all"));
    }
    let place = url.strip_prefix(scheme).ok_or_else(wrong)?;
    let place = place.strip_suffix('/').unwrap_or(place);
    let is_plain = place.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte));
    if place.is_empty() || !is_plain {
        return Err(wrong());
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| wrong())?),
        _ => (place, default_port(is_https)),
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
            let places = resolve(url, "", "").unwrap();
            assert_eq!((places[0].host.as_str(), places[0].address.to_string().as_str()), (host, address));
        }
        assert_eq!(resolve("http://127.0.0.1:1, http://127.0.0.2:1", "", "").unwrap().len(), 2);
        assert_eq!(resolve("http://127.0.0.1:1", "bench.", "").unwrap()[0].url(), "http://bench.127.0.0.1:1");
        assert_eq!(parse("https://127.0.0.1/", true).unwrap(), ("127.0.0.1".to_string(), 443));
    }

    #[test]
    fn other_urls_are_refused_without_a_password() {
        for (url, says) in [
            ("", "name the store's URL"),
            ("http://127.0.0.1, https://127.0.0.1", "use one of them for all"),
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
            let error = resolve(url, "", "").unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
