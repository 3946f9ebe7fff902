//! What traffic a thread is to make, as its parameters say it.

use super::loops::{self, loop_of};
use super::operation::{Isa, Primitive};
use crate::declare::{self, choice, chosen, integer};
use crate::kernel::{Error, Parameter, Parameters};
use crate::sys::pages::Pages;

/// The traffic of one thread.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// What is done at each place.
    pub primitive: Primitive,
    /// With which instructions; none to settle it by timing.
    pub isa: Option<Isa>,
    /// Places in random order, each once a pass; else in turn.
    pub random: bool,
    /// Bytes of all arrays of a thread together.
    pub working_set: u64,
    /// Bytes from one place to the next.
    pub stride: u64,
    /// Bytes touched at each place, in turn.
    pub block: u64,
    /// Cycles of a dependent chain after each place.
    pub delay: u64,
    /// On which pages.
    pub pages: Pages,
    /// On which NUMA node; none for where its thread runs.
    pub node: Option<usize>,
}

const OPERATIONS: [&str; 12] =
    ["read", "write", "nt_write", "copy", "scale", "add", "triad", "nt_copy", "nt_scale", "nt_add", "nt_triad", "mix"];
const MIXES: [&str; 11] = ["1:0", "4:1", "3:1", "2:1", "3:2", "1:1", "0:1", "1:1-nt", "2:1-nt", "3:1-nt", "0:1-nt"];
/// Blocks from this size on hold a mix's pattern within them; in shorter ones whole blocks take turns.
const MIX_WITHIN: u64 = 4096;

fn primitive_of(operation: &str, mix: &str) -> Option<Primitive> {
    Some(match (operation, mix) {
        ("read", _) | ("mix", "1:0") => Primitive::Read,
        ("write", _) => Primitive::Write,
        ("nt_write", _) | ("mix", "0:1" | "0:1-nt") => Primitive::NtWrite,
        ("copy", _) => Primitive::Copy,
        ("scale", _) => Primitive::Scale,
        ("add", _) => Primitive::Add,
        ("triad", _) => Primitive::Triad,
        ("nt_copy", _) => Primitive::NtCopy,
        ("nt_scale", _) => Primitive::NtScale,
        ("nt_add", _) => Primitive::NtAdd,
        ("nt_triad", _) => Primitive::NtTriad,
        ("mix", "1:1") => Primitive::Update,
        ("mix", "2:1") => Primitive::Mix21,
        ("mix", "3:1") => Primitive::Mix31,
        ("mix", "3:2") => Primitive::Mix32,
        ("mix", "4:1") => Primitive::Mix41,
        ("mix", "1:1-nt") => Primitive::NtMix11,
        ("mix", "2:1-nt") => Primitive::NtMix21,
        ("mix", "3:1-nt") => Primitive::NtMix31,
        _ => return None,
    })
}

/// The processors to pin to.
#[must_use]
pub fn cpus() -> Parameter {
    declare::cpus("processors to pin to, thread i to the i-th in turn; empty for all that are allowed")
}

/// The pages and node of a working set.
#[must_use]
pub fn placement() -> Vec<Parameter> {
    vec![
        chosen(
            "pages",
            "page size: the base pages of the system, 2 MiB (reserved, else transparent) or 1 GiB (reserved)",
            &Pages::WORDS,
            "2m",
        ),
        integer("node", "NUMA node of the memory; -1 for that of its thread", "", (-1, 1023), -1),
        integer("cpu_node", "NUMA node of the processors; -1 for any, or for those in cpus", "", (-1, 1023), -1),
    ]
}

/// Those of a thread's traffic; `working_set`, `pages` and `node` are declared apart.
#[must_use]
pub fn parameters(default_operation: &'static str) -> Vec<Parameter> {
    vec![
        chosen("operation", "what is done at each place; STREAM's names", &OPERATIONS, default_operation),
        choice(
            "mix",
            "lines read : lines written on the bus, for operation mix: a written line is read first, or with -nt written past the caches; 0:1 is always so",
            &MIXES,
        ),
        choice("pattern", "order of the places", &["sequential", "random"]),
        integer("stride", "distance from one place to the next; 0 for no gaps between blocks", "B", (0, 1 << 40), 0),
        integer("block", "bytes touched in turn at each place: 8, 16, 32 or a multiple of 64", "B", (8, 1 << 40), 64),
        choice("isa", "instructions of the loop; auto takes the fastest by a short timing", &Isa::WORDS),
    ]
}

/// Reads the traffic from parameters; `working_set` is for the arrays of one thread together.
///
/// # Errors
/// Usage: sizes that do not fit together, or instructions that this machine lacks.
pub fn of(parameters: &Parameters, working_set: u64) -> Result<Work, Error> {
    let (block, given) = (parameters.integer("block"), parameters.integer("stride"));
    let stride = if given == 0 { block } else { given };
    if !(matches!(block, 8 | 16 | 32) || block % 64 == 0) {
        return Err(Error::usage(format!("block {block}: take 8, 16, 32 or a multiple of 64 bytes")));
    }
    if !(matches!(stride, 8 | 16 | 32) || stride % 64 == 0) || stride < block {
        return Err(Error::usage(format!(
            "stride {stride}: take 0, 8, 16, 32 or a multiple of 64 bytes that is at least the block ({block})"
        )));
    }
    let (operation, mix) = (parameters.text("operation"), parameters.text("mix"));
    let primitive = primitive_of(operation, mix)
        .ok_or_else(|| Error::usage(format!("operation {operation} with mix {mix} is not one of the loops")))?;
    let isa = Isa::of(parameters.text("isa"));
    if let Some(isa) = isa.filter(|&isa| isa != Isa::Scalar && !loops::wide().contains(&isa)) {
        return Err(Error::usage(format!("isa {}: this processor does not have it", isa.word())));
    }
    if let Some(isa) = isa.filter(|&isa| loop_of(primitive, isa.into(), 64).is_none()) {
        return Err(Error::usage(format!("isa {}: there is no loop of it for {operation}; take auto", isa.word())));
    }
    let work = Work {
        primitive,
        isa,
        random: parameters.text("pattern") == "random",
        working_set,
        stride,
        block,
        delay: parameters.integer("delay"),
        pages: Pages::of(parameters.text("pages")),
        node: parameters.node("node"),
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

impl Parameters {
    /// The parameter called `name`, a NUMA node; none for -1 or where there is none.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<usize> {
        self.as_json().get(name).and_then(serde_json::Value::as_i64).and_then(|node| usize::try_from(node).ok())
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
        !self.random && self.stride == self.block && self.delay == 0
    }

    /// Whether a mix's reads and updates take turns by whole blocks.
    #[must_use]
    pub fn by_turns(&self) -> bool {
        self.primitive.mixed().is_some() && !self.dense() && self.block < MIX_WITHIN
    }
}
