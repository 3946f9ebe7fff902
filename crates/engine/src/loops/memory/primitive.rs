//! The memory operations: one row each in one table, from which all loops, counts and checks are made.

use crate::contract::parameter::PerElement;

/// Gives every row of the table to a macro: `{ with } { rows of one line } { mixes }`; or `offered`, those alone that
/// a user chooses by name.
///
/// A row has a name, that of its loop and of the user's word, and what is done to a line of each array, in steps. `Sum`
/// adds up the words of an array in whole numbers. `Load`, `Scale` (s times an array), `Axpy` (an array and s times
/// another) and `Plus` make a value `x` in floating point. `Store` writes `x`, or the constant `w`, into the array `a`,
/// and `Stream` does so past the caches. `Bump` adds one to each word of `a`. A mix has its lines in turn.
macro_rules! memory_operations {
    (@every $then:ident $with:tt { $($offered:tt)* } { $($unnamed:tt)* } $mixes:tt) => {
        $then! { $with { $($offered)* $($unnamed)* } $mixes }
    };
    (@offered $then:ident $with:tt { $($offered:tt)* } $unnamed:tt $mixes:tt) => { $then! { $($offered)* } };
    (@rows $which:ident $then:ident $with:tt) => {
        memory_operations! { @$which $then $with
            {
                /// Adds up an array.
                Read read [Sum b];
                /// Stores one value through the caches.
                Write write [-> Store w];
                /// Stores it past the caches.
                NtWrite nt_write [-> Stream w];
                /// `a = b`.
                Copy copy [Load b -> Store x];
                /// `a = s b`.
                Scale scale [Scale b -> Store x];
                /// `a = b + c`.
                Add add [Load b, Plus c -> Store x];
                /// `a = b + s c`.
                Triad triad [Axpy b c -> Store x];
                /// `a = b` past the caches.
                NtCopy nt_copy [Load b -> Stream x];
                /// `a = s b` past the caches.
                NtScale nt_scale [Scale b -> Stream x];
                /// `a = b + c` past the caches.
                NtAdd nt_add [Load b, Plus c -> Stream x];
                /// `a = b + s c` past the caches.
                NtTriad nt_triad [Axpy b c -> Stream x];
            }
            {
                /// A line read and written back, nothing else.
                Update update [Bump a];
                /// Reads `b`; `a = w` past the caches.
                NtMix11 nt_mix11 [Sum b -> Stream w];
                /// Reads `b` and `c`; `a = w` past the caches.
                NtMix21 nt_mix21 [Sum b, Sum c -> Stream w];
                /// Reads `b`, `c` and `d`; `a = w` past the caches.
                NtMix31 nt_mix31 [Sum b, Sum c, Sum d -> Stream w];
            }
            {
                /// Lines of `a` in turn: read, updated.
                Mix21 mix21 [Sum a] [Bump a] [Sum a] [Bump a];
                /// Read, read, updated.
                Mix31 mix31 [Sum a] [Sum a] [Bump a] [Sum a] [Sum a] [Bump a];
                /// Read, updated, updated.
                Mix32 mix32 [Sum a] [Bump a] [Bump a] [Sum a] [Bump a] [Bump a];
                /// Read, read, read, updated.
                Mix41 mix41 [Sum a] [Sum a] [Sum a] [Bump a];
            }
        }
    };
    (offered $then:ident) => { memory_operations! { @rows offered $then {} } };
    ($then:ident $($with:tt)*) => { memory_operations! { @rows every $then { $($with)* } } };
}

pub(crate) use memory_operations;

/// What is done to each word of a line; arrays by number, `a` is 0.
#[derive(Debug, Clone, Copy)]
enum Step {
    Sum(usize),
    Load(usize),
    Scale(usize),
    Axpy(usize, usize),
    Plus(usize),
    Bump(usize),
}

/// Where a value is written.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// A store through the caches.
    Store,
    /// A store past them.
    Stream,
}

/// What is done to a line of each array.
#[derive(Debug, Clone, Copy)]
struct Line {
    steps: &'static [Step],
    target: Option<Target>,
}

impl Line {
    /// The arrays that are read, a bit each.
    const fn read(self) -> u32 {
        let (mut found, mut at) = (0, 0);
        while at < self.steps.len() {
            found |= match self.steps[at] {
                Step::Sum(array) | Step::Load(array) | Step::Scale(array) | Step::Plus(array) | Step::Bump(array) => {
                    1 << array
                }
                Step::Axpy(array, other) => 1 << array | 1 << other,
            };
            at += 1;
        }
        found
    }

    const fn flops(self) -> u64 {
        let (mut found, mut at) = (0, 0);
        while at < self.steps.len() {
            found += match self.steps[at] {
                Step::Scale(_) | Step::Plus(_) => 1,
                Step::Axpy(..) => 2,
                Step::Sum(_) | Step::Load(_) | Step::Bump(_) => 0,
            };
            at += 1;
        }
        found
    }

    const fn updates(self) -> bool {
        matches!(self.steps, [Step::Bump(_)])
    }
}

/// The counts that follow from a row of the table.
#[derive(Debug, Clone, Copy)]
struct Facts {
    /// The arrays that each line reads, a bit each.
    read: u32,
    writes: bool,
    allocates: bool,
    updates: bool,
    flops: u64,
    mixed: Option<(u64, u64)>,
    unrolled_lines: u64,
}

impl Facts {
    const fn of(lines: &[Line]) -> Self {
        let line = lines[0];
        let (mut reads, mut updates) = (0, 0);
        while reads < lines.len() && !lines[reads].updates() {
            reads += 1;
        }
        while reads + updates < lines.len() && lines[reads + updates].updates() {
            updates += 1;
        }
        let is_mix = lines.len() > 1;
        Self {
            read: line.read(),
            writes: is_mix || line.updates() || line.target.is_some(),
            allocates: matches!(line.target, Some(Target::Store)),
            updates: !is_mix && line.updates(),
            flops: line.flops(),
            mixed: if is_mix { Some((reads as u64, updates as u64)) } else { None },
            unrolled_lines: if is_mix { lines.len() as u64 } else { 4 },
        }
    }
}

const fn number(array: &str) -> usize {
    (array.as_bytes()[0] - b'a') as usize
}

macro_rules! line {
    ([$($step:ident $($array:ident)*),* $(-> $target:ident $value:ident)?]) => {
        Line {
            steps: const { &[$(Step::$step($(number(stringify!($array))),*)),*] },
            target: line!(@ $($target)?),
        }
    };
    (@ $target:ident) => { Some(Target::$target) };
    (@) => { None };
}

macro_rules! primitives {
    ({} { $($(#[$about:meta])* $name:ident $loop:ident $line:tt;)* }
        { $($(#[$mix:meta])* $mixed:ident $mixed_loop:ident $([$($lines:tt)*])+;)* }) => {
        /// A loop over blocks of memory.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Primitive {
            $($(#[$about])* $name,)*
            $($(#[$mix])* $mixed,)*
        }

        impl Primitive {
            /// Every one, for tests that walk them.
            #[cfg(test)]
            pub const ALL: &[Self] = &[$(Self::$name,)* $(Self::$mixed,)*];

            #[inline]
            const fn facts(self) -> Facts {
                match self {
                    $(Self::$name => const { Facts::of(&[line!($line)]) },)*
                    $(Self::$mixed => const { Facts::of(&[$(line!([$($lines)*])),+]) },)*
                }
            }

            /// A mix has those of its first line.
            const fn steps(self) -> &'static [Step] {
                match self {
                    $(Self::$name => const { line!($line).steps },)*
                    $(Self::$mixed => const { [$(line!([$($lines)*])),+][0].steps },)*
                }
            }
        }
    };
}
memory_operations!(primitives);

impl Primitive {
    /// How many arrays besides `a` it reads.
    #[must_use]
    pub fn sources(self) -> usize {
        (self.facts().read >> 1).count_ones() as usize
    }

    /// Whether it reads or writes `a`.
    #[must_use]
    pub fn touches_a(self) -> bool {
        self.facts().writes || self.facts().read & 1 == 1
    }

    /// How many arrays it needs, `a` included if it is touched.
    #[must_use]
    pub fn arrays(self) -> usize {
        self.sources() + usize::from(self.touches_a())
    }

    /// Whether it updates each line of `a`: reads it and writes it back.
    #[must_use]
    pub fn updates(self) -> bool {
        self.facts().updates
    }

    /// What it does to each element of its arrays; of a mix, where it only reads.
    #[must_use]
    pub fn per_element(self) -> PerElement {
        let Facts { read, writes, allocates, flops, mixed, .. } = self.facts();
        let writes = u64::from(writes && mixed.is_none());
        PerElement { reads: u64::from(read.count_ones()), writes, allocates: u64::from(allocates), flops }
    }

    /// Reads and updates within one array, as (lines read only, lines updated) in turn.
    #[inline]
    #[must_use]
    pub fn mixed(self) -> Option<(u64, u64)> {
        self.facts().mixed
    }

    /// The period of a mix's pattern in lines, where a block's last incomplete period is read
    /// only; and whether line `line` of a period is updated.
    #[inline]
    #[must_use]
    pub fn updates_line(self, line: u64, lines_in_block: u64) -> bool {
        let Some((reads, updates)) = self.mixed() else { return self.updates() };
        let unrolled = self.unrolled_lines();
        line < lines_in_block / unrolled * unrolled && line % (reads + updates) >= reads
    }

    /// Lines in one turn of the widest loop.
    #[inline]
    #[must_use]
    pub fn unrolled_lines(self) -> u64 {
        self.facts().unrolled_lines
    }

    /// What it writes into an element of `a`, by those of `b`, `c` and `d`.
    #[must_use]
    pub fn written(self, sources: [f64; 3], scalar: f64) -> f64 {
        self.steps().iter().fold(WRITTEN, |x, step| match *step {
            Step::Load(array) => sources[array - 1],
            Step::Scale(array) => scalar * sources[array - 1],
            Step::Axpy(array, other) => scalar.mul_add(sources[other - 1], sources[array - 1]),
            Step::Plus(array) => x + sources[array - 1],
            Step::Sum(_) | Step::Bump(_) => x,
        })
    }

    /// What it adds to the sum for an element of `b`, `c` and `d`.
    #[must_use]
    pub fn summed(self, sources: [u64; 3]) -> u64 {
        self.steps().iter().fold(0, |sum, step| match *step {
            Step::Sum(array @ 1..) => sum.wrapping_add(sources[array - 1]),
            _ => sum,
        })
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
    /// Wrapping sum of every 8-byte word that was added up.
    pub sum: u64,
}

/// A loop.
///
/// # Safety
/// Every block of the job is in the arrays that the primitive touches, which no one else uses; blocks of 64 bytes and
/// more are aligned to 64 bytes; the machine has the loop's instructions.
pub type Loop = unsafe fn(&mut Job);
