//! Brings a cache line into the calling processor's cache, clean or modified.

use super::pages::Mapping;

impl Mapping {
    /// Takes the line at `offset` from wherever it is: modified (written), or clean (written, so that
    /// others lose it, cleaned out to memory, and read again). Its first 8 bytes keep their value. An
    /// offset beyond the end is none of ours, and nothing happens.
    pub fn take_line(&mut self, offset: usize, modified: bool) {
        let offset = offset / 64 * 64;
        if offset + 64 > self.length() {
            return;
        }
        // The mapping is aligned to a page and the offset to a line.
        #[allow(clippy::cast_ptr_alignment)]
        let word = self.start().wrapping_add(offset).cast::<u64>();
        // SAFETY: the line is in the mapping, which is borrowed exclusively; flushing a line changes nothing that a
        // program can see.
        unsafe {
            word.write_volatile(word.read_volatile());
            if modified {
                return;
            }
            #[cfg(target_arch = "x86_64")]
            {
                std::arch::x86_64::_mm_clflush(word.cast());
                std::arch::x86_64::_mm_mfence();
            }
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!("dc civac, {0}", "dsb ish", in(reg) word, options(nostack));
            let _ = word.read_volatile();
        }
    }
}
