//! Why a run gave no reading.

use std::fmt;
use std::path::Path;

use crate::sys::{address_space, filesystem};

/// What is used up where every file and directory takes an inode, and there are no more.
pub const NO_INODES: &str = "no inodes are left, of which each file takes one";

/// Why nothing was measured where a run was to end before its timed region began.
pub const STOPPED: &str = "it was stopped before it measured";

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
        let errno = error.raw_os_error();
        let refusal = Self::Machine(format!("{doing}: {error}"), errno);
        match errno {
            Some(libc::EMFILE) => refusal.also("allow more of them, as by `ulimit -n 4096`, or ask for fewer at once"),
            Some(libc::ENOMEM) => refusal.with_memory_limit(),
            _ => refusal,
        }
    }

    /// A refusal to start `count` threads, each of which takes a stack.
    #[must_use]
    pub fn threads(count: usize, error: &std::io::Error) -> Self {
        let doing = if count == 1 { "start a thread".into() } else { format!("start {count} threads; use fewer") };
        let refusal = Self::machine(doing, error);
        match error.raw_os_error() {
            Some(libc::EAGAIN) => refusal.with_memory_limit(),
            _ => refusal,
        }
    }

    /// The end of a run that was stopped before its timed region began.
    #[must_use]
    pub fn stopped() -> Self {
        Self::Machine(STOPPED.into(), Some(libc::ECANCELED))
    }

    /// A refusal by the filesystem that contains `path`: where its inodes are used up, the system says that its space is.
    pub fn filesystem(doing: impl fmt::Display, path: &Path, error: &std::io::Error) -> Self {
        if error.raw_os_error() == Some(libc::ENOSPC) && filesystem::free_inodes(path) == Some(0) {
            return Self::Machine(
                format!("{doing}: {NO_INODES}; remove files or use another path"),
                Some(libc::ENOSPC),
            );
        }
        Self::machine(doing, error)
    }

    /// Refuses to create `needed` files and directories, of which `what` consists, where the filesystem has fewer inodes.
    pub fn without_inodes(what: &str, path: &Path, needed: u64) -> Result<(), Self> {
        match filesystem::free_inodes(path) {
            Some(free) if free < needed => Err(Self::Machine(
                format!(
                    "{what} needs {needed} files and directories, and the filesystem of {} has {free} inodes left: use \
                     fewer files or another path",
                    path.display()
                ),
                Some(libc::ENOSPC),
            )),
            _ => Ok(()),
        }
    }

    /// The same with the limit of this process's memory, where there is one.
    #[must_use]
    pub fn with_memory_limit(self) -> Self {
        match address_space::description() {
            Some(says) => self.also(&says),
            None => self,
        }
    }

    /// The same with a further clause.
    #[must_use]
    pub fn also(self, says: &str) -> Self {
        match self {
            Self::Usage(why) => Self::Usage(format!("{why}; {says}")),
            Self::Machine(why, errno) => Self::Machine(format!("{why}; {says}"), errno),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(says) | Self::Machine(says, _) => formatter.write_str(&one_line(says)),
        }
    }
}

/// Longest text of an error, as Python's `LONGEST_ERROR`.
pub const LONGEST_ERROR: usize = 2000;
/// Characters kept of the beginning and the end of a longer text.
const SHOWN: (usize, usize) = (800, 200);

/// The text as one line: a file or a request may contain control characters, so they are escaped.
#[must_use]
pub fn one_line(says: &str) -> String {
    let mut line = String::with_capacity(says.len());
    for letter in says.chars() {
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    let count = line.chars().count();
    if count <= LONGEST_ERROR {
        return line;
    }
    let start: String = line.chars().take(SHOWN.0).collect();
    let end: String = line.chars().skip(count - SHOWN.1).collect();
    format!("{start} … {end}")
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_named_with_what_mends_it() {
        let of = |errno| Error::machine("open /x", &std::io::Error::from_raw_os_error(errno)).to_string();
        assert!(of(libc::EMFILE).contains("(os error 24); allow more of them, as by `ulimit -n 4096`"));
        assert!(of(libc::EIO).ends_with("(os error 5)"));
    }

    #[test]
    fn what_is_refused_is_one_line_whatever_it_holds() {
        let error = Error::usage("no key 'a\nb\u{1b}[31m' in 'é'");
        assert_eq!(error.to_string(), "no key 'a\\nb\\u{1b}[31m' in 'é'");
        let long = Error::usage(format!("{}end", "x".repeat(5000))).to_string();
        assert!(long.starts_with("xxx") && long.ends_with("xend") && long.chars().count() == 1003, "{}", long.len());
    }
}
