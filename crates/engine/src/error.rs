//! Why a run gave no reading.

use std::fmt;

/// Why a run gave no reading.
#[derive(Debug)]
pub enum Error {
    /// A mistake of the caller: an unknown name, a value out of range.
    Usage(String),
    /// What the machine refused before the timed region began, with the `errno` where there is one.
    Machine(String, Option<i32>),
}

impl Error {
    /// A mistake of the caller.
    pub fn usage(says: impl Into<String>) -> Self {
        Self::Usage(says.into())
    }

    /// A refusal by the machine; `doing` says what was tried, such as `open /data/x`.
    pub fn machine(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::Machine(format!("{doing}: {error}"), error.raw_os_error())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(says) | Self::Machine(says, _) => formatter.write_str(says),
        }
    }
}

impl std::error::Error for Error {}
