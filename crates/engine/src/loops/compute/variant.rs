//! One loop of arithmetic: what it does, on what numbers, and what it must leave in its registers.

use crate::sys::clock_chain;

use crate::words;

words! {
    /// The kind of arithmetic.
    pub enum Operation {
        /// Multiply and add in one instruction: 2 operations a lane.
        Fma = "fma",
        /// Addition.
        Add = "add",
        /// Multiplication.
        Multiply = "multiply",
        /// Products of narrow numbers added up in a wide one (VNNI, BF16 and tile instructions).
        Dot = "dot",
    }
}

words! {
    /// The numbers.
    pub enum Precision {
        /// 64-bit floating point.
        Double = "double",
        /// 32-bit floating point.
        Single = "single",
        /// 16-bit floating point (IEEE binary16).
        Half = "half",
        /// Upper half of a single, added up in singles.
        Bfloat16 = "bfloat16",
        /// Whole numbers of 8 bits; in a dot product, added up in 32.
        Int8 = "int8",
        /// Integers of 16 bits.
        Int16 = "int16",
        /// Integers of 32 bits.
        Int32 = "int32",
        /// Integers of 64 bits.
        Int64 = "int64",
    }
}

words! {
    /// The numbers that a loop works on: a core that switches fewer bits draws less power, and may clock higher.
    pub enum Operands {
        /// Small numbers, none of them zero, whose closed form tells each turn that was left out.
        Nonzero = "nonzero",
        /// Zeros, as peak loops without data have them.
        Zero = "zero",
    }
}

impl Precision {
    /// Bytes of one number.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Double | Self::Int64 => 8,
            Self::Single | Self::Int32 => 4,
            Self::Half | Self::Bfloat16 | Self::Int16 => 2,
            Self::Int8 => 1,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Self::Double | Self::Single | Self::Half | Self::Bfloat16)
    }
}

/// Bytes of the widest register, and how many registers a loop may leave (a tile counts as 16).
pub const WIDTH: usize = 64;
const REGISTERS: usize = 96;

/// General registers that a scalar loop of whole numbers goes round.
pub const GENERAL: usize = 10;

/// What a loop loads before and stores after; all that it touches in memory.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct Bank {
    /// The multiplier, or one side of a dot product, in every lane.
    pub x: [u8; WIDTH],
    /// The addend, or the other side.
    pub y: [u8; WIDTH],
    /// What every accumulator begins with.
    pub start: [u8; WIDTH],
    /// What the accumulators hold in the end.
    pub out: [[u8; WIDTH]; REGISTERS],
}

impl Bank {
    /// Every general register at the start, and the operand that a loop on such registers has: the first lane of each.
    #[must_use]
    pub fn words(&self, operand: &[u8; WIDTH]) -> ([u64; GENERAL], u64) {
        let word = |bytes: &[u8; WIDTH]| {
            u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
        };
        ([word(&self.start); GENERAL], word(operand))
    }

    /// Takes what general registers hold in the end.
    pub fn keep(&mut self, registers: [u64; GENERAL]) {
        for (out, value) in self.out.iter_mut().zip(registers) {
            out[..8].copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// A loop over `turns` turns, each of one operation on every accumulator.
///
/// # Safety
/// The machine has the loop's instructions, and `turns` is at least 1.
pub type Loop = unsafe fn(&mut Bank, u64);

/// A chain of [`crate::sys::clock_chain::TURN`] dependent additions a turn, with this many of a loop's wide
/// instructions between them that the core keeps the clock that it has under that loop; returns the sum. `turns` is even.
///
/// # Safety
/// As [`Loop`] says.
pub type Beat = unsafe fn(u64) -> u64;

/// One loop, described.
#[derive(Clone, Copy)]
pub struct Variant {
    /// The instruction set, by the field's name.
    pub isa: &'static str,
    /// What it does.
    pub operation: Operation,
    /// The type of its operands.
    pub precision: Precision,
    /// How many registers it accumulates in, each needing only its own last value.
    pub accumulators: u64,
    /// Bytes of a register that take part.
    pub active: usize,
    /// Arithmetic operations of one instruction.
    pub operations: u64,
    /// Registers of `out` that one accumulator fills (16 for a tile).
    pub rows: u64,
    /// The loop.
    pub run: Loop,
    /// The chain that tells its clock; none where the plain one does.
    pub beat: Option<Beat>,
}

/// Rounds a number that binary16 can hold exactly, and that is normal or zero, to its bits.
fn half(value: f64) -> u16 {
    if value == 0.0 {
        return 0;
    }
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7FF) as i64 - 1023 + 15;
    ((bits >> 63) << 15) as u16 | (exponent as u16) << 10 | ((bits >> 42) & 0x3FF) as u16
}

fn lane(precision: Precision, value: f64, whole: u64) -> Vec<u8> {
    match precision {
        Precision::Double => value.to_bits().to_le_bytes().to_vec(),
        Precision::Single => (value as f32).to_bits().to_le_bytes().to_vec(),
        Precision::Half => half(value).to_le_bytes().to_vec(),
        Precision::Bfloat16 => (((value as f32).to_bits() >> 16) as u16).to_le_bytes().to_vec(),
        _ => whole.to_le_bytes()[..precision.bytes()].to_vec(),
    }
}

fn fill(lane: &[u8]) -> [u8; WIDTH] {
    std::array::from_fn(|at| lane[at % lane.len()])
}

impl Variant {
    /// Turns of one slice: odd, so that a sign that changes each turn has changed; few enough that
    /// every sum is exact (11 bits in a half, 24 in a single), and 10 to 100 µs long.
    #[must_use]
    pub fn turns(&self) -> u64 {
        match (self.precision, self.rows) {
            (_, 2..) => 2047,
            (Precision::Half, _) => 4095,
            _ => 16_383,
        }
    }

    /// What the accumulators start with, x and y, as (value, whole number).
    fn numbers(&self, operands: Operands) -> [(f64, u64); 3] {
        // Steps that stay exact and never come near a denormal: -2 + n 2^-10 in a half, else 2^-14.
        let step = if self.precision == Precision::Half { 1.0 / 1024.0 } else { 1.0 / 16_384.0 };
        let start = if self.operation == Operation::Multiply { 1.5 } else { -2.0 };
        let x = if self.operation == Operation::Multiply { -1.0 } else { 1.0 };
        let dot = self.operation == Operation::Dot;
        let (x_whole, y_whole) = if dot { (1, 3) } else { (5, 3) };
        match operands {
            Operands::Nonzero => [(start, 7), (x, x_whole), (if dot { 1.0 / 4096.0 } else { step }, y_whole)],
            Operands::Zero => [(start, 7), (0.0, 0), (0.0, 0)],
        }
    }

    /// The numbers of the accumulators: wider than the operands in a dot product.
    fn result_precision(&self) -> Precision {
        match (self.operation, self.precision.is_float()) {
            (Operation::Dot, true) => Precision::Single,
            (Operation::Dot, false) => Precision::Int32,
            _ => self.precision,
        }
    }

    /// A bank with the operands in it.
    #[must_use]
    pub fn bank(&self, operands: Operands) -> Box<Bank> {
        let [start, x, y] = self.numbers(operands);
        Box::new(Bank {
            x: fill(&lane(self.precision, x.0, x.1)),
            y: fill(&lane(self.precision, y.0, y.1)),
            start: fill(&lane(self.result_precision(), start.0, start.1)),
            out: [[0; WIDTH]; REGISTERS],
        })
    }

    /// What every register must hold after `turns` turns, by the closed form.
    #[must_use]
    pub fn expected(&self, turns: u64, operands: Operands) -> [u8; WIDTH] {
        let [start, x, y] = self.numbers(operands);
        let n = turns as f64;
        // Products added to each accumulator by one instruction.
        let products = self.operations / 2 / (self.active as u64 * self.rows / 4).max(1);
        let (value, whole) = match self.operation {
            Operation::Fma | Operation::Multiply if operands == Operands::Zero => (0.0, 0),
            Operation::Fma | Operation::Add => (start.0 + n * y.0, start.1.wrapping_add(turns.wrapping_mul(y.1))),
            Operation::Multiply => {
                let sign = if turns % 2 == 1 { x.0 } else { 1.0 };
                let power = (0..turns).fold(1_u64, |power, _| power.wrapping_mul(x.1));
                (start.0 * sign, start.1.wrapping_mul(power))
            }
            Operation::Dot => (
                start.0 + n * products as f64 * x.0 * y.0,
                start.1.wrapping_add((turns * products).wrapping_mul(x.1 * y.1)),
            ),
        };
        fill(&lane(self.result_precision(), value, whole))
    }

    /// How many accumulators hold anything else in the bytes that take part.
    #[must_use]
    pub fn wrong(&self, bank: &Bank, expected: &[u8; WIDTH]) -> u64 {
        let registers = (self.accumulators * self.rows) as usize;
        bank.out[..registers].iter().filter(|out| out[..self.active] != expected[..self.active]).count() as u64
    }

    /// Runs one slice of `turns` turns.
    #[inline]
    pub fn slice(&self, bank: &mut Bank, turns: u64) {
        // SAFETY: variants come from `available` alone, which checks that the processor has the instructions.
        unsafe { (self.run)(bank, turns.max(1)) };
    }

    /// Runs `turns` turns of the chain that tells the clock under this loop; 0 where there is none.
    #[inline]
    #[must_use]
    pub fn beat(&self, turns: u64) -> u64 {
        match self.beat {
            // SAFETY: as in `slice`.
            Some(beat) => unsafe { beat(turns.max(1)) },
            None => clock_chain::chain(turns.max(1)),
        }
    }

    /// Arithmetic operations of a slice.
    #[must_use]
    pub fn count_operations(&self, turns: u64) -> u64 {
        turns * self.accumulators * self.operations
    }
}

#[cfg(test)]
mod tests {
    use super::Operands;

    #[test]
    fn every_loop_leaves_what_the_closed_form_says() {
        let variants = crate::loops::compute::available();
        assert!(variants.len() > 10);
        for variant in variants {
            for operands in [Operands::Nonzero, Operands::Zero] {
                let mut bank = variant.bank(operands);
                for turns in [1, 3, 1000, variant.turns()] {
                    variant.slice(&mut bank, turns);
                    let expected = variant.expected(turns, operands);
                    let name = (variant.isa, variant.operation, variant.precision, operands);
                    assert_eq!(variant.wrong(&bank, &expected), 0, "{name:?} {turns}: {:?} {expected:?}", bank.out[0]);
                }
            }
        }
    }

    #[test]
    fn every_chain_does_each_of_its_additions() {
        for variant in crate::loops::compute::available() {
            let sum = 78 * crate::sys::clock_chain::TURN * 3;
            assert_eq!(variant.beat(78), sum, "{} {:?} {:?}", variant.isa, variant.operation, variant.precision);
        }
    }

    #[test]
    fn a_wrong_lane_and_a_turn_left_out_are_found() {
        for variant in crate::loops::compute::available() {
            let mut bank = variant.bank(Operands::Nonzero);
            let expected = |turns| variant.expected(turns, Operands::Nonzero);
            variant.slice(&mut bank, 5);
            assert!(variant.wrong(&bank, &expected(4)) > 0, "{} {:?}", variant.isa, variant.precision);
            bank.out[1][variant.active - 1] ^= 1;
            assert_eq!(variant.wrong(&bank, &expected(5)), 1);
        }
    }
}
