//! The C library's buffered streams (`FILE *`), as stdio's users have them.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::ptr::NonNull;

use super::memory::Region;

/// One stream over a file, with the C library's own buffer.
pub struct Stream {
    file: NonNull<libc::FILE>,
    /// Where the next byte would go without a seek.
    at: u64,
    /// The direction of the last transfer: between two directions the standard asks for a seek.
    wrote: Option<bool>,
}

// SAFETY: a Stream owns its FILE, which the C library locks by itself and ties to no thread.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream over a duplicate of the file's descriptor.
    ///
    /// # Errors
    /// Where the descriptor cannot be duplicated, or memory is short.
    pub fn over(file: &File, write: bool) -> io::Result<Self> {
        let descriptor = file.try_clone()?.into_raw_fd();
        let mode = if write { c"r+".as_ptr() } else { c"r".as_ptr() };
        // SAFETY: the descriptor is open and ours alone; the mode is a C string that fits how it was opened.
        if let Some(file) = NonNull::new(unsafe { libc::fdopen(descriptor, mode) }) {
            return Ok(Self { file, at: u64::MAX, wrote: None });
        }
        let error = io::Error::last_os_error();
        // SAFETY: fdopen failed, so the descriptor is still ours to close.
        unsafe { libc::close(descriptor) };
        Err(error)
    }

    /// Seeks where the transfer does not follow the one before; what fails comes back as minus the errno.
    #[inline]
    fn seek(&mut self, offset: u64, write: bool) -> Result<(), i64> {
        if self.at == offset && self.wrote == Some(write) {
            return Ok(());
        }
        // SAFETY: the stream is open.
        if unsafe { libc::fseeko(self.file.as_ptr(), offset as libc::off_t, libc::SEEK_SET) } != 0 {
            return Err(self.failed());
        }
        self.wrote = Some(write);
        Ok(())
    }

    #[cold]
    fn failed(&mut self) -> i64 {
        let error = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        // SAFETY: the stream is open.
        unsafe { libc::clearerr(self.file.as_ptr()) };
        self.at = u64::MAX;
        -i64::from(error.max(1))
    }

    /// Reads `length` bytes at `offset` to `at` in the region: the bytes moved, or minus the errno.
    #[inline]
    #[must_use]
    pub fn read(&mut self, region: &Region, at: usize, length: usize, offset: u64) -> i64 {
        let to = region.address(at, length);
        // SAFETY: `address` checked that the range is inside the region; the stream is open.
        self.uninterrupted(length, offset, false, |file| unsafe { libc::fread(to.cast(), 1, length, file) })
    }

    /// Writes likewise.
    #[inline]
    #[must_use]
    pub fn write(&mut self, region: &Region, at: usize, length: usize, offset: u64) -> i64 {
        let from = region.address(at, length);
        // SAFETY: as in `read`.
        self.uninterrupted(length, offset, true, |file| unsafe { libc::fwrite(from.cast(), 1, length, file) })
    }

    /// A transfer, which is made again from its offset on if a signal cut it.
    #[inline]
    fn uninterrupted(
        &mut self,
        length: usize,
        offset: u64,
        write: bool,
        transfer: impl Fn(*mut libc::FILE) -> usize,
    ) -> i64 {
        loop {
            let moved = match self.seek(offset, write) {
                Ok(()) => self.after(transfer(self.file.as_ptr()), length, offset),
                Err(errno) => errno,
            };
            if moved != -i64::from(libc::EINTR) {
                return moved;
            }
        }
    }

    #[inline]
    fn after(&mut self, moved: usize, length: usize, offset: u64) -> i64 {
        if moved == length {
            self.at = offset + moved as u64;
            return moved as i64;
        }
        let error = io::Error::last_os_error();
        // SAFETY: the stream is open.
        let failed = unsafe { libc::ferror(self.file.as_ptr()) } != 0;
        if failed && (moved == 0 || error.kind() == io::ErrorKind::Interrupted) {
            return self.failed();
        }
        // SAFETY: as above; a later transfer may succeed.
        unsafe { libc::clearerr(self.file.as_ptr()) };
        self.at = u64::MAX;
        moved as i64
    }

    /// Hands the system what is still in the buffer.
    ///
    /// # Errors
    /// What the system says to the write.
    pub fn flush(&mut self) -> io::Result<()> {
        loop {
            // SAFETY: the stream is open.
            if unsafe { libc::fflush(self.file.as_ptr()) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is ours, and no one uses it any more.
        unsafe { libc::fclose(self.file.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_in_any_order_is_read_and_the_end_is_short() {
        let path = std::env::temp_dir().join(format!("hwdyno-stdio-{}", std::process::id()));
        std::fs::write(&path, [0_u8; 40]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let region = Region::new(4096).unwrap();
        region.fill_random(5);
        let mut stream = Stream::over(&file, true).unwrap();
        for offset in [32, 0, 8, 24, 16] {
            assert_eq!(stream.write(&region, offset as usize, 8, offset), 8);
        }
        assert_eq!(stream.read(&region, 1000, 8, 16), 8);
        assert_eq!(region.copy(1000, 8), region.copy(16, 8));
        assert_eq!(stream.read(&region, 1000, 8, 36), 4);
        assert_eq!(stream.read(&region, 1000, 8, 40), 0);
        stream.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), region.copy(0, 40));
        std::fs::remove_file(&path).unwrap();
    }
}
