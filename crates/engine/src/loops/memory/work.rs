//! What traffic a thread is to make, as its parameters say it.

use crate::loops::memory::primitive::{memory_operations, Primitive};

use super::loops::{find_loop, wide};
use super::operation::Isa;
use crate::contract::declare::{choice, choice_or, integer};
use crate::contract::kernel::Error;
use crate::contract::parameter::{PerElement, Role};
use crate::sys::numa;
use crate::sys::pages::Pages;
use crate::timing::crew::processors;
use crate::{parameters, words};

/// The traffic of one thread.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// What is done at each place.
    pub primitive: Primitive,
    /// The instructions; none to settle them by timing.
    pub isa: Option<Isa>,
    /// Places in random order, each once a pass; else in turn.
    pub random: bool,
    /// Bytes of all arrays of a thread together.
    pub working_set: u64,
    /// Bytes from one place to the next.
    pub stride: u64,
    /// Bytes touched at each place, in turn.
    pub block: u64,
    /// Cycles of a pause after every two lines; none to go at full speed.
    pub delay: Option<u64>,
    /// The pages of the arrays.
    pub pages: Pages,
    /// The NUMA node of the arrays; none for where its thread runs.
    pub node: Option<usize>,
}

/// Blocks from this size on hold a mix's pattern within them; in shorter ones whole blocks take turns.
const MIX_WITHIN: u64 = 4096;

macro_rules! operations {
    ($($(#[$about:meta])* $name:ident $word:ident $line:tt;)*) => {
        words! {
            /// What is done at each place; STREAM's names.
            pub enum Operation named {
                $($(#[$about])* $name $word,)*
                /// Lines read and lines written in the proportion of [`Mix`].
                Mix mix,
            }
        }

        impl Operation {
            /// Its loop; of a mix, that of its proportion.
            fn primitive(self, mix: Mix) -> Primitive {
                match self {
                    $(Self::$name => Primitive::$name,)*
                    Self::Mix => mix.primitive(),
                }
            }
        }
    };
}
memory_operations!(offered operations);

impl Operation {
    /// None of a mix, whose proportion decides.
    fn per_element(self) -> Option<PerElement> {
        (self != Self::Mix).then(|| self.primitive(Mix::Reads).per_element())
    }
}

words! {
    /// Lines read : lines written on the bus; a written line is read first, or with `-nt` written past the caches.
    pub enum Mix {
        /// Reads alone.
        Reads = "1:0",
        /// Four to one.
        FourToOne = "4:1",
        /// Three to one.
        ThreeToOne = "3:1",
        /// Two to one.
        TwoToOne = "2:1",
        /// Three to two.
        ThreeToTwo = "3:2",
        /// One to one.
        OneToOne = "1:1",
        /// Writes alone, which are always past the caches.
        Writes = "0:1",
        /// One to one.
        NtOneToOne = "1:1-nt",
        /// Two to one.
        NtTwoToOne = "2:1-nt",
        /// Three to one.
        NtThreeToOne = "3:1-nt",
        /// Writes alone.
        NtWrites = "0:1-nt",
    }
}

words! {
    /// Order of the places.
    pub enum Pattern {
        /// Blocks in turn.
        Sequential = "sequential",
        /// Each once a pass, in random order.
        Random = "random",
    }
}

parameters! {
    /// The traffic of a thread; `working_set`, `pages` and `node` are declared apart.
    pub struct TrafficParameters {
        operation: Operation = choice("operation, as STREAM names them").per_element(Operation::per_element),
        mix: Mix = choice("lines read : lines written on the bus, for operation mix; -nt writes past the caches, as \
            0:1 always does"),
        pattern: Pattern = choice("order of accesses"),
        stride: u64 = integer("distance between blocks; 0 for no gaps", "B", (0, 1 << 40), 0),
        block: u64 = integer("contiguous bytes per access: 8, 16, 32 or a multiple of \
            64", "B", (8, 1 << 40), 64).role(Role::Size),
        isa: Option<Isa> = choice_or("auto", "instruction set; auto selects the fastest in a short test"),
    }
}

parameters! {
    /// The pages and node of a working set, and the processors that work on it.
    pub struct Placement {
        pages: Pages = choice("page size: the base pages of the system, 2 MiB (reserved, else transparent) or 1 GiB \
            (reserved)").default(Pages::Huge2M),
        node: Option<usize> = integer("NUMA node of the memory; -1 for the thread's node", "", (-1, 1023), -1),
        cpu_node: Option<usize> = integer("NUMA node of the CPUs; -1 for any, or for those in \
            cpus", "", (-1, 1023), -1),
    }
}

impl Placement {
    /// The processors that were named; else those of `cpu_node` that are allowed, or all that are.
    ///
    /// # Errors
    /// Usage, where the node has none.
    pub fn processors(&self, named: &[u64]) -> Result<Vec<u64>, Error> {
        let allowed = processors(named);
        let Some(node) = self.cpu_node.filter(|_| named.is_empty()) else { return Ok(allowed) };
        let found: Vec<_> = numa::processors(node).into_iter().filter(|cpu| allowed.contains(cpu)).collect();
        if found.is_empty() {
            return Err(Error::usage(format!(
                "cpu_node {node}: this NUMA node has no usable CPU; `hwdyno machine` lists the nodes"
            )));
        }
        Ok(found)
    }
}

impl Mix {
    fn primitive(self) -> Primitive {
        match self {
            Self::Reads => Primitive::Read,
            Self::FourToOne => Primitive::Mix41,
            Self::ThreeToOne => Primitive::Mix31,
            Self::TwoToOne => Primitive::Mix21,
            Self::ThreeToTwo => Primitive::Mix32,
            Self::OneToOne => Primitive::Update,
            Self::Writes | Self::NtWrites => Primitive::NtWrite,
            Self::NtOneToOne => Primitive::NtMix11,
            Self::NtTwoToOne => Primitive::NtMix21,
            Self::NtThreeToOne => Primitive::NtMix31,
        }
    }
}

impl TrafficParameters {
    /// The traffic of a thread on `working_set` bytes for all its arrays, with a pause of `delay` cycles after
    /// every two lines.
    ///
    /// # Errors
    /// Usage: sizes that do not fit together, or instructions that this machine lacks.
    pub fn work(&self, placement: &Placement, working_set: u64, delay: Option<u64>) -> Result<Work, Error> {
        let block = self.block;
        let stride = if self.stride == 0 { block } else { self.stride };
        if !(matches!(block, 8 | 16 | 32) || block % 64 == 0) {
            return Err(Error::usage(format!("block {block}: use 8, 16, 32 or a multiple of 64 bytes")));
        }
        if !(matches!(stride, 8 | 16 | 32) || stride % 64 == 0) || stride < block {
            return Err(Error::usage(format!(
                "stride {stride}: use 0, 8, 16, 32 or a multiple of 64 bytes that is at least the block ({block})"
            )));
        }
        let primitive = self.operation.primitive(self.mix);
        if let Some(isa) = self.isa.filter(|&isa| isa != Isa::Scalar && !wide().contains(&isa)) {
            return Err(Error::usage(format!("isa {}: this CPU lacks it", isa.word())));
        }
        if let Some(isa) = self.isa.filter(|&isa| find_loop(primitive, isa.into(), 64).is_none()) {
            let operation = self.operation.word();
            return Err(Error::usage(format!("isa {}: it has no loop for {operation}; use auto", isa.word())));
        }
        let work = Work {
            primitive,
            isa: self.isa,
            random: self.pattern == Pattern::Random,
            working_set,
            stride,
            block,
            delay,
            pages: placement.pages,
            node: placement.node,
        };
        if work.array_bytes() < stride.max(64) {
            return Err(Error::usage(format!(
                "working_set {working_set}: {} arrays with a stride of {stride} bytes need at least {}",
                primitive.arrays(),
                primitive.arrays() as u64 * stride.max(64)
            )));
        }
        Ok(work)
    }
}

impl Work {
    /// Bytes of one array, before it is cut to whole places.
    #[must_use]
    pub fn array_bytes(&self) -> u64 {
        self.working_set / self.primitive.arrays() as u64 / 64 * 64
    }

    /// Whether it is one unbroken walk through memory.
    #[must_use]
    pub fn dense(&self) -> bool {
        !self.random && self.stride == self.block && self.delay.is_none()
    }

    /// Whether a mix's reads and updates take turns by whole blocks.
    #[must_use]
    pub fn by_turns(&self) -> bool {
        self.primitive.mixed().is_some() && !self.dense() && self.block < MIX_WITHIN
    }
}
