//! The other end: a store that is there, or a null server on loopback that lives as long as this.

use std::net::SocketAddr;

use crate::contract::kernel::Error;
use crate::network::reach;
use crate::object::control::Control;
use crate::object::credentials::Credentials;
use crate::object::null_server::NullServer;
use crate::object::options::{Bucket, ReachParameters, StoreParameters};
use crate::object::signing::Signer;

/// The other end.
pub struct End {
    /// Its bucket.
    pub bucket: Bucket,
    /// Who signs.
    pub credentials: Credentials,
    timeout_s: f64,
    server: Option<NullServer>,
}

impl End {
    /// The store at the endpoint, or a null server, in which with `every_key` each key has an object of that many bytes.
    ///
    /// # Errors
    /// Usage: an endpoint, a bucket or credentials that are none.
    pub fn of(store: &StoreParameters, every_key: Option<u64>) -> Result<Self, Error> {
        let timeout_s = store.reach.timeout;
        if !store.reach.endpoint.is_empty() {
            let (bucket, credentials) = (store.bucket()?, store.credentials()?);
            return Ok(Self { bucket, credentials, timeout_s, server: None });
        }
        let server = NullServer::start(SocketAddr::new(reach::loopback(), 0), every_key)
            .map_err(|error| Error::machine("start a null server on loopback", &error))?;
        let endpoint = format!("http://{}", server.address());
        let reach = ReachParameters { endpoint, ca_file: String::new(), timeout: timeout_s };
        let bucket = StoreParameters { reach, tls: false, ..store.clone() }.bucket()?;
        Ok(Self { bucket, credentials: Credentials::of_null_server(), timeout_s, server: Some(server) })
    }

    /// Whether it is a null server of this process.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.server.is_some()
    }

    /// Single requests to it.
    #[must_use]
    pub fn control(&self) -> Control {
        Control::new(&self.bucket, Signer::new(self.credentials.clone()), self.timeout_s)
    }
}
