//! The choices of the loader: its order, what it makes of a file, and what becomes of the page cache.

use crate::words;

words! {
    /// The order in which an epoch goes through the files.
    pub enum Order {
        /// Sorted, as DLIO does.
        Dlio = "dlio",
        /// Random, another order each epoch.
        Shuffled = "shuffled",
    }
}

words! {
    /// What is made of what was read.
    pub enum Parse {
        /// Each format is checked by its checksums.
        Full = "full",
        /// Nothing.
        Raw = "raw",
    }
}

words! {
    /// What becomes of the page cache first.
    pub enum Cache {
        /// It stays as it is.
        Keep = "keep",
        /// It is emptied of the files.
        Drop = "drop",
        /// It is filled with them.
        Warm = "warm",
    }
}
