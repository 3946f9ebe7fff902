//! The loops in plain 8-byte accesses, for blocks shorter than a cache line and for `isa = scalar`.

// Arrays are aligned to 64 bytes, and offsets are multiples of 8.
#![allow(clippy::cast_ptr_alignment)]

use super::primitive::{Job, Loop, Primitive, SCALAR, WRITTEN};

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
    ($job:ident . $array:ident, $i:ident) => {
        $job.$array.cast::<u64>().add($i).read_volatile()
    };
}

macro_rules! float {
    ($job:ident . $array:ident, $i:ident) => {
        f64::from_bits(get!($job.$array, $i))
    };
}

macro_rules! put {
    ($job:ident, $i:ident, $value:expr) => {
        $job.a.cast::<u64>().add($i).write_volatile($value)
    };
    (nt $job:ident, $i:ident, $value:expr) => {
        store_non_temporal($job.a.cast::<u64>().add($i), $value)
    };
}

macro_rules! mix_loop {
    ($name:ident, $primitive:expr) => {
        element_loop!($name, |job, line, i| {
            if $primitive.updates_line(line, job.bytes / 64) {
                put!(job, i, get!(job.a, i).wrapping_add(1));
            } else {
                job.sum = job.sum.wrapping_add(get!(job.a, i));
            }
        });
    };
}

element_loop!(read, |job, line, i| { job.sum = job.sum.wrapping_add(get!(job.b, i)) });
element_loop!(write, |job, line, i| { put!(job, i, WRITTEN.to_bits()) });
element_loop!(nt_write, |job, line, i| { put!(nt job, i, WRITTEN.to_bits()) });
element_loop!(copy, |job, line, i| { put!(job, i, get!(job.b, i)) });
element_loop!(nt_copy, |job, line, i| { put!(nt job, i, get!(job.b, i)) });
element_loop!(scale, |job, line, i| { put!(job, i, (SCALAR * float!(job.b, i)).to_bits()) });
element_loop!(nt_scale, |job, line, i| { put!(nt job, i, (SCALAR * float!(job.b, i)).to_bits()) });
element_loop!(add, |job, line, i| { put!(job, i, (float!(job.b, i) + float!(job.c, i)).to_bits()) });
element_loop!(nt_add, |job, line, i| { put!(nt job, i, (float!(job.b, i) + float!(job.c, i)).to_bits()) });
element_loop!(triad, |job, line, i| { put!(job, i, (float!(job.b, i) + SCALAR * float!(job.c, i)).to_bits()) });
element_loop!(nt_triad, |job, line, i| {
    put!(nt job, i, (float!(job.b, i) + SCALAR * float!(job.c, i)).to_bits());
});
element_loop!(update, |job, line, i| { put!(job, i, get!(job.a, i).wrapping_add(1)) });
mix_loop!(mix21, Primitive::Mix21);
mix_loop!(mix31, Primitive::Mix31);
mix_loop!(mix32, Primitive::Mix32);
mix_loop!(mix41, Primitive::Mix41);
element_loop!(nt_mix11, |job, line, i| {
    job.sum = job.sum.wrapping_add(get!(job.b, i));
    put!(nt job, i, WRITTEN.to_bits());
});
element_loop!(nt_mix21, |job, line, i| {
    job.sum = job.sum.wrapping_add(get!(job.b, i)).wrapping_add(get!(job.c, i));
    put!(nt job, i, WRITTEN.to_bits());
});
element_loop!(nt_mix31, |job, line, i| {
    let both = get!(job.b, i).wrapping_add(get!(job.c, i));
    job.sum = job.sum.wrapping_add(both).wrapping_add(get!(job.d, i));
    put!(nt job, i, WRITTEN.to_bits());
});

/// The loop for `primitive`.
#[must_use]
pub fn loop_of(primitive: Primitive) -> Loop {
    match primitive {
        Primitive::Read => read,
        Primitive::Write => write,
        Primitive::NtWrite => nt_write,
        Primitive::Copy => copy,
        Primitive::Scale => scale,
        Primitive::Add => add,
        Primitive::Triad => triad,
        Primitive::NtCopy => nt_copy,
        Primitive::NtScale => nt_scale,
        Primitive::NtAdd => nt_add,
        Primitive::NtTriad => nt_triad,
        Primitive::Update => update,
        Primitive::Mix21 => mix21,
        Primitive::Mix31 => mix31,
        Primitive::Mix32 => mix32,
        Primitive::Mix41 => mix41,
        Primitive::NtMix11 => nt_mix11,
        Primitive::NtMix21 => nt_mix21,
        Primitive::NtMix31 => nt_mix31,
    }
}
