//! What the kernels of an object store take alike.

use std::sync::Arc;

use crate::contract::declare::{choice, flag, integer, number, text, Group, Integer};
use crate::contract::kernel::Error;
use crate::contract::parameter::Role;
use crate::object::address::{self, Place};
use crate::object::credentials::Credentials;
use crate::{parameters, words};

words! {
    /// What a request does.
    pub enum Operation {
        /// Reads a whole object.
        Get = "get",
        /// Reads a range of an object.
        Range = "range",
        /// Writes a whole object.
        Put = "put",
        /// Writes a whole object in parts.
        Multipart = "multipart",
        /// Asks for an object's metadata.
        Head = "head",
        /// Lists up to 1,000 keys.
        List = "list",
        /// Removes an object.
        Delete = "delete",
        /// One of several, by the shares of a mix.
        Mixed = "mixed",
    }
}

words! {
    /// How a bucket is named in a request.
    pub enum Style {
        /// `http://host/bucket/key`.
        Path = "path",
        /// `http://bucket.host/key`.
        Virtual = "virtual",
    }
}

words! {
    /// What protects a body.
    pub enum Checksum {
        /// Nothing: `UNSIGNED-PAYLOAD`.
        Nothing = "none",
        /// Its SHA-256 is signed.
        Sha256 = "sha256",
        /// Its CRC32C follows it; a read is compared with the store's.
        Crc32c = "crc32c",
        /// Likewise CRC64NVME, which S3 computes of every object that comes without a checksum.
        Crc64Nvme = "crc64nvme",
        /// Likewise SHA-256, unsigned.
        Sha256Trailer = "sha256-trailer",
    }
}

words! {
    /// How often an object was read before it is read.
    pub enum Visit {
        /// Any number of times: objects are chosen by chance.
        Any = "any",
        /// Never since it was written; each object is read once.
        First = "first",
        /// Once; each object is read once more.
        Second = "second",
    }
}

/// The store's bucket, as every kernel takes it.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// How requests name it.
    pub style: Style,
    /// Where they go.
    pub places: Arc<[Place]>,
}

parameters! {
    /// How the store of a bucket is reached.
    pub struct ReachParameters {
        endpoint: String = text("URLs of the store, separated by commas; empty for a null server on loopback", ""),
        ca_file: String = text("file with certificates of the authorities that may sign the store's (PEM); empty for \
            AWS_CA_BUNDLE or this system's", ""),
        timeout: f64 = number("deadline of a request to an object store, besides a second for each 64 KiB", "s", (0.1, 3600.0), 30.0),
    }
}

parameters! {
    /// Where a bucket is.
    pub struct StoreParameters {
        reach: ReachParameters = Group,
        bucket: String = text("name of the bucket", "hwdyno"),
        prefix: String = text("what the keys begin with; what is written is below a folder of the run",
            "hwdyno-0000000000000000/"),
        region: String = text("region of the signature; empty for AWS_REGION or the profile's", ""),
        style: Style = choice("how requests name the bucket: in the path, or in the host's name"),
        tls: bool = flag("connections are TLS, as the endpoint's https:// says", false),
        client: usize = integer("number of this client among those that share a bucket, which its own keys have; 0 for a \
            client alone", "", (0, 1 << 20), 0),
        separate_objects: bool = flag("this client reads separate objects, and not those that all clients read", false),
        seed: u64 = crate::contract::declare::SEED,
    }
}

parameters! {
    /// What is sent and received.
    pub struct LoadParameters {
        object_size: u64 = OBJECT_SIZE,
        objects: u64 = integer("number of objects that requests choose from", "", (1, 99_999_999), 64),
        checksum: Checksum = choice("what protects a body: nothing, a signed SHA-256, or a checksum behind it"),
        client_threads: usize = integer("threads that send and receive; at most one for each request in flight", "", (1, 256), 1)
            .workers(),
        keep_alive: bool = flag("keep connections for the next request", true),
    }
}

const OBJECT_SIZE: Integer = integer("size of an object", "B", (0, 1 << 40), 8 << 20).role(Role::Size);

impl StoreParameters {
    /// What the keys of the objects of an operation begin with, which have this size.
    #[must_use]
    pub fn keys_of(&self, operation: Operation, object_size: u64) -> String {
        let kind = match operation {
            Operation::Put => "put",
            Operation::Multipart => "multipart",
            Operation::Delete => "delete",
            Operation::Get | Operation::Range | Operation::Head | Operation::List | Operation::Mixed => "get",
        };
        format!("{}{kind}-{object_size}-{}", self.prefix, self.owner(kind != "get" || self.separate_objects))
    }

    /// What the keys of the objects begin with that each reading writes anew, to read them once or twice.
    #[must_use]
    pub fn keys_of_visits(&self, object_size: u64) -> String {
        format!("{}visit-{object_size}-{}", self.prefix, self.owner(true))
    }

    /// What shows whose a key is; nothing where it is no client's own, or where there is one client alone.
    fn owner(&self, is_separate: bool) -> String {
        if is_separate && self.client > 0 {
            format!("client-{}-", self.client)
        } else {
            String::new()
        }
    }

    /// The bucket at its endpoints.
    ///
    /// # Errors
    /// Usage: an endpoint or a name that is none.
    pub fn bucket(&self) -> Result<Bucket, Error> {
        if self.tls != address::is_tls(&self.reach.endpoint) {
            return Err(Error::usage(format!("tls = {}: the endpoint's URL says otherwise", self.tls)));
        }
        self.reach.bucket(&self.bucket, &self.prefix, self.style)
    }

    /// Who signs.
    ///
    /// # Errors
    /// Usage: there are no credentials.
    pub fn credentials(&self) -> Result<Credentials, Error> {
        Credentials::find(&self.region)
    }
}

impl ReachParameters {
    /// The bucket of this name, in which keys begin with `prefix`.
    ///
    /// # Errors
    /// Usage: an endpoint, a name or a prefix that is none.
    pub fn bucket(&self, name: &str, prefix: &str, style: Style) -> Result<Bucket, Error> {
        let is_plain =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte));
        if !(3..=63).contains(&name.len()) || !is_plain || name.starts_with(['.', '-']) {
            return Err(Error::usage(format!(
                "bucket = {name}: a bucket's name has 3 to 63 lower-case letters, digits, dots and hyphens"
            )));
        }
        if prefix.starts_with('/') || prefix.chars().any(char::is_control) {
            return Err(Error::usage(format!("prefix = {prefix}: begins without a slash and has plain characters")));
        }
        let before = if style == Style::Virtual { format!("{name}.") } else { String::new() };
        let places = address::resolve(&self.endpoint, &before, &self.ca_file)?;
        Ok(Bucket { name: name.into(), style, places: places.into() })
    }
}
