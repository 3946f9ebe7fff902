//! Words of 64 bits that threads share: in memory, or in a file that outlives the process, however it ends.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;

use super::mapping::FileMapping;

/// Words of 64 bits that threads share. They are reached as atomics only.
pub struct Words {
    base: *const AtomicU64,
    count: usize,
    /// The owner of the words' memory, for as long as they are reached.
    _owner: Owner,
}

enum Owner {
    Memory { _words: Vec<AtomicU64> },
    File { _mapping: FileMapping },
}

// SAFETY: the memory behind `base` is owned by `_owner`, does not move, and is handed out as shared atomics only.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// This many words of memory, all 0 and all touched.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let words: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { base: words.as_ptr(), count, _owner: Owner::Memory { _words: words } }
    }

    /// The first `count` words of a file that is at least as long. One that is cut short meanwhile ends no process.
    ///
    /// # Errors
    /// What keeps the file from being mapped, or that it is too short.
    pub fn of_file(file: &File, count: usize, write: bool) -> io::Result<Self> {
        let length = count * size_of::<AtomicU64>();
        if count == 0 || file.metadata()?.len() < length as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mapping = FileMapping::new(file, 0, length, write)?.guarded();
        Ok(Self { base: mapping.start().cast(), count, _owner: Owner::File { _mapping: mapping } })
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `base` is aligned (a vector of words, or a page), valid for `count` words as long as `_owner`
        // lives, and atomics may be shared, with other processes too.
        unsafe { std::slice::from_raw_parts(self.base, self.count) }
    }
}

impl std::fmt::Debug for Words {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Words({})", self.count)
    }
}
