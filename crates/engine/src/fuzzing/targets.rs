//! The table of all readers that are fuzzed.

use std::path::{Path, PathBuf};

use super::{network, object, requests, storage, survey, training, vectors};

/// One reader.
pub struct Target {
    /// What it reads.
    pub name: &'static str,
    /// Reads one input and checks what came of it: whether it was accepted. It never panics.
    pub read: fn(&[u8]) -> bool,
    /// Inputs that it accepts, from which others are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// What its language is made of.
    pub words: &'static [&'static str],
    /// Mutants that the test tries; fewer where one of them takes long.
    pub mutants: usize,
}

impl Target {
    const fn new(name: &'static str, read: fn(&[u8]) -> bool, seeds: fn() -> Vec<Vec<u8>>) -> Self {
        Self { name, read, seeds, words: &[], mutants: 1000 }
    }

    const fn words(mut self, words: &'static [&'static str]) -> Self {
        self.words = words;
        self
    }

    const fn mutants(mut self, mutants: usize) -> Self {
        self.mutants = mutants;
        self
    }

    /// The inputs on which it once failed.
    #[must_use]
    pub fn failed(&self) -> Vec<Vec<u8>> {
        let Ok(listing) = std::fs::read_dir(kept_in("failed").join(self.name)) else { return Vec::new() };
        let mut paths: Vec<_> = listing.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
    }

    /// The small inputs that reached the most code: a line each, in hexadecimal digits.
    #[must_use]
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let path = kept_in("corpus").join(format!("{}.txt", self.name));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let byte = |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(|two| u8::from_str_radix(two, 16).ok());
        text.lines().map(|line| line.as_bytes().chunks(2).filter_map(byte).collect()).collect()
    }
}

fn kept_in(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(folder)
}

macro_rules! targets {
    ($($module:ident::$name:ident $(.$with:ident($value:expr))*),* $(,)?) => {
        /// Every reader.
        pub const TARGETS: &[Target] = &[
            $(Target::new(stringify!($name), $module::$name::read, $module::$name::seeds)$(.$with($value))*),*
        ];

        #[cfg(test)]
        mod tests {
            $(#[test]
            fn $name() {
                crate::fuzzing::mutation::try_all(stringify!($name));
            })*
        }
    };
}

targets! {
    requests::parameters.words(requests::WORDS),
    requests::jobs.words(requests::WORDS),
    requests::agent.words(requests::VERBS).mutants(300),
    network::iperf3_parameters.words(network::PARAMETERS),
    network::iperf3_results.words(network::RESULTS),
    network::iperf3_control.words(network::PARAMETERS).mutants(300),
    network::iperf3_datagrams,
    network::iperf3_server.words(network::PARAMETERS).mutants(60),
    network::iperf3_client.words(network::RESULTS).mutants(25),
    object::object_response,
    object::object_listing,
    object::object_request,
    object::aws_profile,
    storage::journal.mutants(300),
    storage::verified_block,
    storage::iolog.words(&["add", "open", "read", "write", "wait", "sync", "datasync", "trim", "fio version 3 iolog"]),
    storage::device_marks.mutants(300),
    training::npz.mutants(300),
    training::npy.mutants(300),
    training::tfrecord.mutants(300),
    training::hdf5.mutants(300),
    training::jpeg.mutants(300),
    training::png.mutants(300),
    training::csv.mutants(300),
    training::binary.mutants(300),
    training::parquet.mutants(300),
    training::kv_entry.mutants(300),
    vectors::vector_index.words(vectors::FIELDS).mutants(200),
    survey::survey_tree.mutants(25),
}
