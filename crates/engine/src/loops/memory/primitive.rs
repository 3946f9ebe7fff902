//! What a memory loop does at each place: which arrays it reads and writes, and how it is called.

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

    /// Whether a mix updates line `line` of its pattern's period; a block's last incomplete period is only read.
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
    /// The second array that is read.
    pub c: *const u8,
    /// The third array that is read.
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
/// Every block of the job is in the arrays that the primitive touches, which no one else uses; blocks of 64 bytes and
/// more are aligned to 64 bytes; the machine has the loop's instructions.
pub type Loop = unsafe fn(&mut Job);
