//! What a memory kernel does at each place: which arrays it reads and writes, with which instructions, and in what order.

use crate::words;

/// A loop over blocks of memory. What each moves is stated here; every rate is derived from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Primitive {
    /// Adds up `b`.
    Read,
    /// `a = w`.
    Write,
    /// `a = w` past the caches.
    NtWrite,
    /// `a = b`.
    Copy,
    /// `a = s b`.
    Scale,
    /// `a = b + c`.
    Add,
    /// `a = b + s c`.
    Triad,
    /// `a = b` past the caches.
    NtCopy,
    /// `a = s b` past the caches.
    NtScale,
    /// `a = b + c` past the caches.
    NtAdd,
    /// `a = b + s c` past the caches.
    NtTriad,
    /// `a = a + 1` on whole numbers: a line read and written back, nothing else.
    Update,
    /// Lines of `a` in turn: read, updated.
    Mix21,
    /// Read, read, updated.
    Mix31,
    /// Read, updated, updated.
    Mix32,
    /// Read, read, read, updated.
    Mix41,
    /// Reads `b`; `a = w` past the caches.
    NtMix11,
    /// Reads `b` and `c`; `a = w` past the caches.
    NtMix21,
    /// Reads `b`, `c` and `d`; `a = w` past the caches.
    NtMix31,
}

impl Primitive {
    /// How many arrays besides `a` it reads.
    #[must_use]
    pub fn sources(self) -> usize {
        match self {
            Self::Write | Self::NtWrite | Self::Update | Self::Mix21 | Self::Mix31 | Self::Mix32 | Self::Mix41 => 0,
            Self::Read | Self::Copy | Self::Scale | Self::NtCopy | Self::NtScale | Self::NtMix11 => 1,
            Self::Add | Self::Triad | Self::NtAdd | Self::NtTriad | Self::NtMix21 => 2,
            Self::NtMix31 => 3,
        }
    }

    /// How many arrays it needs, `a` included if it is touched.
    #[must_use]
    pub fn arrays(self) -> usize {
        self.sources() + usize::from(self != Self::Read)
    }

    /// Whether it stores past the caches.
    #[must_use]
    pub fn non_temporal(self) -> bool {
        matches!(
            self,
            Self::NtWrite
                | Self::NtCopy
                | Self::NtScale
                | Self::NtAdd
                | Self::NtTriad
                | Self::NtMix11
                | Self::NtMix21
                | Self::NtMix31
        )
    }

    /// Whether it stores lines that it did not read, through the caches: the hardware reads them first.
    #[must_use]
    pub fn write_allocates(self) -> bool {
        matches!(self, Self::Write | Self::Copy | Self::Scale | Self::Add | Self::Triad)
    }

    /// Reads and updates within one array, as (lines read only, lines updated) in turn.
    #[must_use]
    pub fn mixed(self) -> Option<(u64, u64)> {
        match self {
            Self::Mix21 => Some((1, 1)),
            Self::Mix31 => Some((2, 1)),
            Self::Mix32 => Some((1, 2)),
            Self::Mix41 => Some((3, 1)),
            _ => None,
        }
    }

    /// For a mix: the period of its pattern in lines, where a block's last incomplete period is read
    /// only; and whether line `line` of a period is updated.
    #[must_use]
    pub fn updates_line(self, line: u64, lines_in_block: u64) -> bool {
        let Some((reads, updates)) = self.mixed() else { return self == Self::Update };
        let unrolled = self.unrolled_lines();
        line < lines_in_block / unrolled * unrolled && line % (reads + updates) >= reads
    }

    /// Lines in one turn of the widest loop.
    #[must_use]
    pub fn unrolled_lines(self) -> u64 {
        match self {
            Self::Mix31 | Self::Mix32 => 6,
            _ => 4,
        }
    }

    /// Floating-point operations on each 8-byte element.
    #[must_use]
    pub fn flops(self) -> u64 {
        match self {
            Self::Scale | Self::Add | Self::NtScale | Self::NtAdd => 1,
            Self::Triad | Self::NtTriad => 2,
            _ => 0,
        }
    }
}

/// STREAM's scalar.
pub const SCALAR: f64 = 3.0;
/// What a write leaves in every element.
pub const WRITTEN: f64 = 17.0;

/// Constants of the loops, in the order in which they load them.
pub static CONSTANTS: [u64; 3] = [SCALAR.to_bits(), WRITTEN.to_bits(), 1];

/// One call of a loop: the same block of `bytes` at each of `count` offsets.
#[derive(Debug)]
pub struct Job {
    /// The array that is written or updated.
    pub a: *mut u8,
    /// The arrays that are read.
    pub b: *const u8,
    /// See `b`.
    pub c: *const u8,
    /// See `b`.
    pub d: *const u8,
    /// Byte offsets of the blocks, the same in each array.
    pub offsets: *const u64,
    /// How many offsets; at least 1.
    pub count: u64,
    /// Length of each block: a multiple of 64, or 8, 16 or 32 for the portable loops.
    pub bytes: u64,
    /// Wrapping sum of every 8-byte word that was read by [`Primitive::Read`] or as a mix's read.
    pub sum: u64,
}

/// A loop.
///
/// # Safety
/// Every block of the job lies in the arrays that the primitive touches, which nobody else uses;
/// blocks of 64 bytes and more are aligned to 64 bytes; the machine has the loop's instructions.
pub type Loop = unsafe fn(&mut Job);

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

words! {
    /// In which order a loop goes through a block, and what else it does.
    pub enum Way {
        /// Line after line.
        Plain = "lines",
        /// As well, and prefetches each line 1 KiB before it is stored, so that the read that a store through
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
    /// With which instructions.
    pub isa: Isa,
    /// In which way.
    pub way: Way,
}

impl From<Isa> for Choice {
    fn from(isa: Isa) -> Self {
        Self { isa, way: Way::Plain }
    }
}
