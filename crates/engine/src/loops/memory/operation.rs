//! The instructions and the order with which a memory kernel goes through its arrays.

use crate::words;

words! {
    /// Instruction sets that memory loops exist for, by the field's names.
    pub enum Isa {
        /// Plain 8-byte loads and stores.
        Scalar = "scalar",
        /// 16-byte SSE2.
        Sse = "sse",
        /// 32-byte AVX2.
        Avx2 = "avx2",
        /// 64-byte AVX-512.
        Avx512 = "avx512",
        /// 16-byte NEON in pairs.
        Neon = "neon",
        /// SVE, at the machine's own length.
        Sve = "sve",
    }
}

/// The instructions of paced loops.
pub const PACED: Isa = if cfg!(target_arch = "x86_64") { Isa::Sse } else { Isa::Scalar };

words! {
    /// The order in which a loop goes through a block, and what else it does.
    pub enum Way {
        /// Line after line.
        Plain = "lines",
        /// Line after line, with a prefetch of each 1 KiB before it is stored, so that the read that a store through
        /// the caches needs does not wait for the store to leave the core.
        Ahead = "prefetched lines",
        /// Two lines of each of eight neighbouring pages in turn: a prefetcher follows one stream a page, and
        /// stores past the caches go to more of the memory's banks at once.
        Pages = "eight pages in turn",
    }
}

/// Blocks for [`Way::Pages`] are multiples of this.
pub const PAGES: u64 = 8 * 4096;

impl Way {
    /// All of them, the plain one first.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Ahead, Self::Pages];
}

/// Which loop does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The instructions.
    pub isa: Isa,
    /// The order of the accesses.
    pub way: Way,
}

impl From<Isa> for Choice {
    fn from(isa: Isa) -> Self {
        Self { isa, way: Way::Plain }
    }
}
