//! The loops in plain 8-byte accesses, for blocks shorter than a cache line and for `isa = scalar`.

// Arrays are aligned to 64 bytes, and offsets are multiples of 8.
#![allow(clippy::cast_ptr_alignment)]

use super::primitive::{memory_operations, Job, Loop, Primitive, SCALAR, WRITTEN};

/// Eight bytes past the caches, where the machine has such a store.
#[inline]
unsafe fn store_non_temporal(at: *mut u64, value: u64) {
    // SAFETY: the caller owns the 8 bytes at `at`; MOVNTI is part of SSE2, which x86-64 has.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_stream_si64(at.cast::<i64>(), value as i64);
    }
    // SAFETY: the caller owns the 8 bytes at `at`.
    #[cfg(not(target_arch = "x86_64"))]
    unsafe {
        at.write_volatile(value);
    }
}

macro_rules! element_loop {
    ($name:ident, |$job:ident, $line:ident, $i:ident| $body:block) => {
        /// A loop over elements for one primitive.
        ///
        /// # Safety
        /// As [`Loop`] says.
        unsafe fn $name($job: &mut Job) {
            for at in 0..$job.count {
                // SAFETY: `offsets` holds `count` numbers.
                let offset = unsafe { *$job.offsets.add(at as usize) } as usize;
                for element in 0..($job.bytes / 8) as usize {
                    let $i = offset / 8 + element;
                    let $line = (element / 8) as u64;
                    let _ = $line;
                    // SAFETY: element `$i` is in a block of the job, in every array that is touched.
                    unsafe { $body }
                }
            }
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a fence touches no memory; it is part of SSE, which x86-64 has.
            unsafe {
                std::arch::x86_64::_mm_sfence();
            }
        }
    };
}

macro_rules! get {
    ($array:ident, $job:ident, $i:ident) => {
        $job.$array.cast::<u64>().add($i).read_volatile()
    };
}

macro_rules! float {
    ($array:ident, $job:ident, $i:ident) => {
        f64::from_bits(get!($array, $job, $i))
    };
}

// What a step leaves of the value `$x`.
macro_rules! step {
    (Sum $array:ident; $job:ident, $i:ident, $x:ident) => {{
        $job.sum = $job.sum.wrapping_add(get!($array, $job, $i));
        $x
    }};
    (Load $array:ident; $job:ident, $i:ident, $x:ident) => { get!($array, $job, $i) };
    (Scale $array:ident; $job:ident, $i:ident, $x:ident) => { (SCALAR * float!($array, $job, $i)).to_bits() };
    (Axpy $array:ident $other:ident; $job:ident, $i:ident, $x:ident) => {
        (float!($array, $job, $i) + SCALAR * float!($other, $job, $i)).to_bits()
    };
    (Plus $array:ident; $job:ident, $i:ident, $x:ident) => {
        (f64::from_bits($x) + float!($array, $job, $i)).to_bits()
    };
    (Bump $array:ident; $job:ident, $i:ident, $x:ident) => {{
        put!(Store; $job, $i, get!($array, $job, $i).wrapping_add(1));
        $x
    }};
}

macro_rules! put {
    (Store; $job:ident, $i:ident, $value:expr) => {
        $job.a.cast::<u64>().add($i).write_volatile($value)
    };
    (Stream; $job:ident, $i:ident, $value:expr) => {
        store_non_temporal($job.a.cast::<u64>().add($i), $value)
    };
}

macro_rules! loops {
    ({} { $($(#[$about:meta])* $name:ident $loop:ident
            [$($step:ident $($array:ident)*),* $(-> $target:ident $value:ident)?];)* }
        { $($(#[$mix:meta])* $mixed:ident $mixed_loop:ident $([$($lines:tt)*])+;)* }) => {
        $(element_loop!($loop, |job, line, i| {
            let x = WRITTEN.to_bits();
            let _ = x;
            $(let x = step!($step $($array)*; job, i, x);)*
            $(put!($target; job, i, x);)?
            let _ = x;
        });)*
        $(element_loop!($mixed_loop, |job, line, i| {
            let x = 0;
            let _ = if Primitive::$mixed.updates_line(line, job.bytes / 64) {
                step!(Bump a; job, i, x)
            } else {
                step!(Sum a; job, i, x)
            };
        });)*

        /// The loop for `primitive`.
        #[must_use]
        pub fn find_loop(primitive: Primitive) -> Loop {
            match primitive {
                $(Primitive::$name => $loop,)*
                $(Primitive::$mixed => $mixed_loop,)*
            }
        }
    };
}
memory_operations!(loops);
