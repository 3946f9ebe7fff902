//! What each primitive does to one line of 64 bytes, in the 16-byte accesses that every machine of its kind has.

// Arrays are aligned to 64 bytes, and offsets of lines are multiples of 64.
#![allow(clippy::cast_ptr_alignment)]
// Part of a timed loop, no matter what the optimiser thinks of its length.
#![allow(clippy::inline_always)]

use super::primitive::{memory_operations, Job, SCALAR, WRITTEN};

/// Accesses in a line.
const LANES: usize = 4;

#[cfg(target_arch = "x86_64")]
mod two {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi64, _mm_add_pd, _mm_castpd_si128, _mm_castsi128_pd, _mm_cvtsi128_si64, _mm_mul_pd,
        _mm_prefetch, _mm_set1_epi64x, _mm_stream_si128, _mm_unpackhi_epi64, _MM_HINT_T0,
    };

    /// Two words of 8 bytes. All of it is SSE2, which x86-64 has.
    #[derive(Clone, Copy)]
    pub struct Two(__m128i);

    impl Two {
        #[inline(always)]
        pub fn of(word: u64) -> Self {
            // SAFETY: see the type.
            Self(unsafe { _mm_set1_epi64x(word as i64) })
        }
        #[inline(always)]
        pub unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller owns the 16 bytes.
            Self(unsafe { from.cast::<__m128i>().read_volatile() })
        }
        #[inline(always)]
        pub unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller owns the 16 bytes.
            unsafe { to.cast::<__m128i>().write_volatile(self.0) }
        }
        #[inline(always)]
        pub unsafe fn stream(self, to: *mut u8) {
            // SAFETY: the caller owns the 16 bytes.
            unsafe { _mm_stream_si128(to.cast::<__m128i>(), self.0) }
        }
        #[inline(always)]
        pub fn plus(self, other: Self) -> Self {
            // SAFETY: see the type.
            Self(unsafe { _mm_add_epi64(self.0, other.0) })
        }
        #[inline(always)]
        pub fn sum(self, other: Self) -> Self {
            // SAFETY: see the type.
            Self(unsafe { _mm_castpd_si128(_mm_add_pd(_mm_castsi128_pd(self.0), _mm_castsi128_pd(other.0))) })
        }
        #[inline(always)]
        pub fn product(self, other: Self) -> Self {
            // SAFETY: see the type.
            Self(unsafe { _mm_castpd_si128(_mm_mul_pd(_mm_castsi128_pd(self.0), _mm_castsi128_pd(other.0))) })
        }
        pub fn total(self) -> u64 {
            // SAFETY: see the type.
            let (low, high) =
                unsafe { (_mm_cvtsi128_si64(self.0), _mm_cvtsi128_si64(_mm_unpackhi_epi64(self.0, self.0))) };
            (low as u64).wrapping_add(high as u64)
        }
    }

    /// Asks for the line of an address, which may be anywhere.
    #[inline(always)]
    pub fn fetch(at: *const u8) {
        // SAFETY: a prefetch touches no memory that a program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>()) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod two {
    /// Two words of 8 bytes.
    #[derive(Clone, Copy)]
    pub struct Two([u64; 2]);

    impl Two {
        #[inline(always)]
        pub fn of(word: u64) -> Self {
            Self([word; 2])
        }
        #[inline(always)]
        pub unsafe fn load(from: *const u8) -> Self {
            let from = from.cast::<u64>();
            // SAFETY: the caller owns the 16 bytes.
            Self(unsafe { [from.read_volatile(), from.add(1).read_volatile()] })
        }
        #[inline(always)]
        pub unsafe fn store(self, to: *mut u8) {
            let to = to.cast::<u64>();
            // SAFETY: the caller owns the 16 bytes.
            unsafe {
                to.write_volatile(self.0[0]);
                to.add(1).write_volatile(self.0[1]);
            }
        }
        #[inline(always)]
        pub unsafe fn stream(self, to: *mut u8) {
            // SAFETY: the caller owns the 16 bytes; STNP stores two registers past the caches.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                std::arch::asm!("stnp {0}, {1}, [{2}]", in(reg) self.0[0], in(reg) self.0[1], in(reg) to, options(nostack));
            }
            // SAFETY: the caller owns the 16 bytes.
            #[cfg(not(target_arch = "aarch64"))]
            unsafe {
                self.store(to);
            }
        }
        #[inline(always)]
        pub fn plus(self, other: Self) -> Self {
            Self([self.0[0].wrapping_add(other.0[0]), self.0[1].wrapping_add(other.0[1])])
        }
        #[inline(always)]
        pub fn sum(self, other: Self) -> Self {
            let sum = |at: usize| (f64::from_bits(self.0[at]) + f64::from_bits(other.0[at])).to_bits();
            Self([sum(0), sum(1)])
        }
        #[inline(always)]
        pub fn product(self, other: Self) -> Self {
            let product = |at: usize| (f64::from_bits(self.0[at]) * f64::from_bits(other.0[at])).to_bits();
            Self([product(0), product(1)])
        }
        pub fn total(self) -> u64 {
            self.0[0].wrapping_add(self.0[1])
        }
    }

    /// Asks for the line of an address, which may be anywhere.
    #[inline(always)]
    pub fn fetch(at: *const u8) {
        // SAFETY: a prefetch touches no memory that a program could see.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at, options(nostack, readonly));
        }
        let _ = at;
    }
}

pub use two::fetch;
use two::Two;

/// The wrapping sum of the words that were read.
pub struct Sum([Two; 2]);

impl Sum {
    /// The sum of no words.
    #[must_use]
    pub fn zero() -> Self {
        Self([Two::of(0); 2])
    }

    /// The sum as one word.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0[0].plus(self.0[1]).total()
    }

    #[inline(always)]
    fn take(&mut self, lane: usize, value: Two) {
        self.0[lane % 2] = self.0[lane % 2].plus(value);
    }
}

macro_rules! get {
    (a, $job:ident, $i:ident) => {
        Two::load($job.a.wrapping_add($i).cast_const())
    };
    ($array:ident, $job:ident, $i:ident) => {
        Two::load($job.$array.wrapping_add($i))
    };
}

// What a step leaves of the value `$x`.
macro_rules! step {
    (Sum $array:ident; $job:ident, $i:ident, $lane:ident, $sum:ident, $x:ident) => {{
        $sum.take($lane, get!($array, $job, $i));
        $x
    }};
    (Load $array:ident; $job:ident, $i:ident, $($_:ident),+) => {
        get!($array, $job, $i)
    };
    (Scale $array:ident; $job:ident, $i:ident, $($_:ident),+) => {
        scaled(get!($array, $job, $i))
    };
    (Axpy $array:ident $other:ident; $job:ident, $i:ident, $($_:ident),+) => {
        get!($array, $job, $i).sum(scaled(get!($other, $job, $i)))
    };
    (Plus $array:ident; $job:ident, $i:ident, $_:ident, $also:ident, $x:ident) => {
        $x.sum(get!($array, $job, $i))
    };
    (Bump $array:ident; $job:ident, $i:ident, $_:ident, $also:ident, $x:ident) => {{
        get!($array, $job, $i).plus(Two::of(1)).store($job.$array.wrapping_add($i));
        $x
    }};
}

macro_rules! put {
    (Store $x:ident, $to:expr) => {
        $x.store($to)
    };
    (Stream $x:ident, $to:expr) => {
        $x.stream($to)
    };
}

macro_rules! lines {
    ({} { $($(#[$about:meta])* $name:ident $line:ident
            [$($step:ident $($array:ident)*),* $(-> $target:ident $value:ident)?];)* } $mixes:tt) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// The line at offset `at` is in every array of the job that is touched, which no one else uses.
        #[inline(always)]
        pub unsafe fn $line(job: &Job, at: usize, sum: &mut Sum) {
            for lane in 0..LANES {
                let i = at + 16 * lane;
                let x = Two::of(WRITTEN.to_bits());
                let _ = (x, &sum);
                // SAFETY: the caller vouches for the line.
                unsafe {
                    $(let x = step!($step $($array)*; job, i, lane, sum, x);)*
                    $(put!($target x, job.a.wrapping_add(i));)?
                    let _ = x;
                }
            }
        }
    )*};
}
memory_operations!(lines);
lines! { {} {
    /// Adds up `a`.
    ReadA read_a [Sum a];
} {} }

#[inline(always)]
fn scaled(value: Two) -> Two {
    value.product(Two::of(SCALAR.to_bits()))
}
