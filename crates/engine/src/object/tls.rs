//! TLS on the client's side, by rustls: whom a store's certificate must be signed by, and a session over a socket.
//!
//! Records are received into the buffer that all connections of a thread share, and decrypted there. rustls itself
//! allocates each record's text once; nothing else is allocated after the handshake.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{AlertDescription, CertificateError, CipherSuite, ClientConfig, InvalidMessage, RootCertStore};

use crate::contract::kernel::Error;

/// Room before received records, into which their text goes: more than the longest record has (2^14 + 2,048 + 5 bytes).
pub const GAP: usize = 18 << 10;
/// Bytes that are encrypted before they are sent.
const SENT_AT_ONCE: usize = 64 << 10;
/// Bytes of text in a record, and what a record has besides.
const RECORD: usize = 16 << 10;
const OVERHEAD: usize = 64;
/// Bytes of a file of certificates.
const MAX_FILE: u64 = 16 << 20;
/// Names of a certificate that an error shows.
const SHOWN_NAMES: usize = 3;

/// The authorities that may sign a store's certificate: those of a file, of `AWS_CA_BUNDLE`, or of this system.
///
/// # Errors
/// Usage: the file has no certificate. Machine: it cannot be read, or the system has none.
pub fn trust(ca_file: &str) -> Result<Arc<ClientConfig>, Error> {
    let bundle = std::env::var("AWS_CA_BUNDLE").unwrap_or_default();
    let file = if ca_file.is_empty() { bundle.as_str() } else { ca_file };
    let roots = if file.is_empty() { of_system()? } else { of_file(Path::new(file))? };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Machine(format!("prepare TLS: {error}"), None))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn of_file(path: &Path) -> Result<RootCertStore, Error> {
    let doing = || format!("read the authorities' certificates in {}", path.display());
    let about = std::fs::metadata(path).map_err(|error| Error::machine(doing(), &error))?;
    if !about.is_file() || about.len() > MAX_FILE {
        return Err(Error::usage(format!("{} is no file of certificates; name one in PEM", path.display())));
    }
    let bytes = std::fs::read(path).map_err(|error| Error::machine(doing(), &error))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&bytes).filter_map(Result::ok));
    if roots.is_empty() {
        return Err(Error::usage(format!(
            "{} has no certificate of an authority in PEM (BEGIN CERTIFICATE)",
            path.display()
        )));
    }
    Ok(roots)
}

fn of_system() -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let text =
            "this system has no certificates of authorities; install ca-certificates, or name a file by --ca-file";
        return Err(Error::Machine(text.into(), None));
    }
    Ok(roots)
}

/// What makes a connection one by TLS.
#[derive(Debug, Clone)]
pub struct Security {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Security {
    /// A store of this name, whose certificate has it and is signed by one of those authorities.
    ///
    /// # Errors
    /// Usage: it is neither a host's name nor an address.
    pub fn new(config: &Arc<ClientConfig>, host: &str) -> Result<Self, Error> {
        let name = ServerName::try_from(host.to_string());
        let name = name.map_err(|_| Error::usage(format!("no certificate can name the host '{host}'")))?;
        Ok(Self { config: config.clone(), name })
    }
}

/// One TLS session. It keeps no socket, so that a connection has one with a session or without.
pub struct Session {
    tls: UnbufferedClientConnection,
    /// The beginning of a record whose end has not come.
    partial: Vec<u8>,
    /// What was encrypted and not sent, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    is_ready: bool,
    is_closed: bool,
    /// Why it cannot go on.
    pub fault: Option<rustls::Error>,
}

impl Session {
    /// One that has yet to greet the store of this name.
    ///
    /// # Errors
    /// Other: rustls refuses the configuration.
    pub fn new(security: &Security) -> io::Result<Self> {
        let Security { config, name } = security.clone();
        let tls = UnbufferedClientConnection::new(config, name).map_err(io::Error::other)?;
        let (partial, outgoing) = (Vec::with_capacity(GAP), Vec::with_capacity(4096));
        Ok(Self { tls, partial, outgoing, sent: 0, is_ready: false, is_closed: false, fault: None })
    }

    /// Whether something encrypted waits until it may be sent.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// What it encrypts by, where that is settled.
    #[must_use]
    pub fn suite(&self) -> Option<CipherSuite> {
        self.tls.negotiated_cipher_suite().map(|suite| suite.suite())
    }

    /// Received bytes of a record whose end has not come.
    #[must_use]
    pub fn partial_bytes(&self) -> u64 {
        self.partial.len() as u64
    }

    /// Goes on with the handshake by one read at most. `buffer` is longer than `GAP`.
    ///
    /// # Errors
    /// `WouldBlock`: it is not over yet. Other: it failed.
    pub fn shake(&mut self, stream: &mut (impl Read + Write), buffer: &mut [u8]) -> io::Result<()> {
        if !self.is_ready && self.partial.is_empty() && self.outgoing.is_empty() {
            self.advance(buffer, 0)?;
        }
        self.flush(stream)?;
        if !self.is_ready {
            let length = self.fill(stream, buffer)?;
            self.advance(buffer, length)?;
            self.flush(stream)?;
        }
        if self.is_ready {
            Ok(())
        } else {
            Err(ErrorKind::WouldBlock.into())
        }
    }

    /// Sends some of a request; gives how many of its bytes were taken, which may wait here to be sent.
    ///
    /// # Errors
    /// `WouldBlock`: what was taken before has to be sent first.
    pub fn send(&mut self, stream: &mut impl Write, parts: &[&[u8]]) -> io::Result<usize> {
        self.flush(stream)?;
        let mut taken = 0;
        for part in parts {
            let left = SENT_AT_ONCE - taken;
            let piece = &part[..part.len().min(left)];
            if !piece.is_empty() {
                self.encrypt(piece)?;
            }
            taken += piece.len();
            if piece.len() < part.len() {
                break;
            }
        }
        match self.flush(stream) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(taken),
            Err(error) => Err(error),
            Ok(()) => Ok(taken),
        }
    }

    /// Receives into the beginning of a buffer; gives the bytes of text, 0 at the end. `buffer` is longer than `GAP`.
    ///
    /// # Errors
    /// `WouldBlock`: no text has come. `UnexpectedEof`: the connection ended without TLS's own end. Other: no TLS.
    pub fn receive(&mut self, stream: &mut (impl Read + Write), buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_closed {
            return Ok(0);
        }
        let length = self.fill(stream, buffer)?;
        let text = self.advance(buffer, length)?;
        if self.is_sending() {
            match self.flush(stream) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        if text == 0 && !self.is_closed {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(text)
    }

    /// Sends what was encrypted.
    ///
    /// # Errors
    /// `WouldBlock`: not all of it could be sent.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        while self.sent < self.outgoing.len() {
            match stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Receives encrypted bytes behind the partial record; gives how many there are behind the gap.
    fn fill(&mut self, stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        let from = GAP + self.partial.len();
        let count = stream.read(&mut buffer[from..])?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        buffer[GAP..from].copy_from_slice(&self.partial);
        Ok(from + count - GAP)
    }

    /// Decrypts the records behind the gap, `length` bytes; gives the bytes of text at the buffer's beginning.
    fn advance(&mut self, buffer: &mut [u8], length: usize) -> io::Result<usize> {
        let Self { tls, outgoing, is_ready, is_closed, fault, .. } = self;
        let (mut from, mut text) = (GAP, 0);
        let end = GAP + length;
        loop {
            // Text is shorter than its records, so it never reaches those that are not decrypted yet.
            let (front, records) = buffer[..end].split_at_mut(from);
            let UnbufferedStatus { mut discard, state, .. } = tls.process_tls_records(records);
            let state = state.map_err(|error| {
                *fault = Some(error.clone());
                io::Error::new(ErrorKind::InvalidData, error)
            })?;
            let mut is_over = false;
            match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(io::Error::other)?;
                        discard += record.discard;
                        front[text..text + record.payload.len()].copy_from_slice(record.payload);
                        text += record.payload.len();
                    }
                }
                ConnectionState::EncodeTlsData(data) => encode(outgoing, data),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::WriteTraffic(_) => (*is_ready, is_over) = (true, true),
                ConnectionState::PeerClosed | ConnectionState::Closed => (*is_closed, is_over) = (true, true),
                _ => is_over = true,
            }
            from += discard;
            if is_over {
                break;
            }
        }
        self.partial.clear();
        self.partial.extend_from_slice(&buffer[from..end]);
        Ok(text)
    }

    fn encrypt(&mut self, text: &[u8]) -> io::Result<()> {
        let Self { tls, outgoing, .. } = self;
        let room = text.len() + (text.len() / RECORD + 1) * OVERHEAD;
        loop {
            let UnbufferedStatus { state, .. } = tls.process_tls_records(&mut []);
            match state.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let mut refused = None;
                    append(outgoing, room, |room| {
                        Ok(traffic.encrypt(text, room).unwrap_or_else(|error| {
                            refused = Some(io::Error::other(error));
                            0
                        }))
                    });
                    return refused.map_or(Ok(()), Err);
                }
                ConnectionState::EncodeTlsData(data) => encode(outgoing, data),
                ConnectionState::TransmitTlsData(data) => data.done(),
                _ => return Err(ErrorKind::NotConnected.into()),
            }
        }
    }
}

fn encode(outgoing: &mut Vec<u8>, mut data: EncodeTlsData<'_, ClientConnectionData>) {
    append(outgoing, RECORD, |room| match data.encode(room) {
        Err(EncodeError::InsufficientSize(size)) => Err(size.required_size),
        encoded => Ok(encoded.unwrap_or(0)),
    });
}

/// Appends what `write` puts into a room behind some bytes; it says how much it wrote, or how much room it needs.
fn append(bytes: &mut Vec<u8>, mut room: usize, mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
    let before = bytes.len();
    loop {
        bytes.resize(before + room, 0);
        match write(&mut bytes[before..]) {
            Ok(written) => {
                bytes.truncate(before + written);
                return;
            }
            Err(needed) => room = needed,
        }
    }
}

/// One line for a store whose TLS cannot begin: the cause, and what mends it.
#[must_use]
pub fn refusal(url: &str, error: &rustls::Error) -> Error {
    let (cause, advice) = explain(error);
    let refusal = Error::Machine(format!("connect to the store at {url}: {cause}"), None);
    if advice.is_empty() {
        refusal
    } else {
        refusal.also(advice)
    }
}

/// What is wrong with a handshake, and what mends it; the second is empty where nothing sure does.
fn explain(error: &rustls::Error) -> (String, &'static str) {
    let certificate = match error {
        rustls::Error::InvalidCertificate(certificate) => certificate,
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
            return ("it does not speak TLS".into(), "use http:// in --endpoint, or the store's port for TLS");
        }
        rustls::Error::AlertReceived(AlertDescription::ProtocolVersion) | rustls::Error::PeerIncompatible(_) => {
            return ("it offers no safe TLS: 1.2 or 1.3 is needed".into(), "enable TLS 1.2 or 1.3 at the store");
        }
        other => return (format!("TLS failed: {other}"), ""),
    };
    match certificate {
        CertificateError::UnknownIssuer => (
            "its certificate is signed by an authority that is not known here".into(),
            "name a file with the authority's certificate by --ca-file or AWS_CA_BUNDLE",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "its certificate has expired".into(),
            "renew the store's certificate, or set this machine's clock (timedatectl)",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("its certificate is not valid yet".into(), "set this machine's clock (timedatectl)")
        }
        CertificateError::NotValidForName => {
            ("its certificate is for another name".into(), "use a name of its certificate in --endpoint")
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<&str> =
                presented.iter().take(SHOWN_NAMES).map(|name| name.split('"').nth(1).unwrap_or(name)).collect();
            let names = if names.is_empty() { "no name at all".into() } else { names.join(", ") };
            (format!("its certificate is for {names}"), "use a name of its certificate in --endpoint")
        }
        other if other.to_string().contains("CaUsedAsEndEntity") => (
            "its certificate is an authority's own".into(),
            "give the store a certificate that an authority has signed, and name the authority's by --ca-file",
        ),
        other => (format!("its certificate is refused: {other}"), ""),
    }
}
