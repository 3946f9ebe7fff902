//! Linux's older asynchronous I/O by its system calls (what libaio wraps).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::memory::Region;

const COMMAND_READ: u16 = 0;
const COMMAND_WRITE: u16 = 1;

/// `struct iocb`, in the little-endian order of its first words.
#[repr(C)]
#[derive(Clone, Default)]
struct Control {
    data: u64,
    key: u32,
    flags: i32,
    command: u16,
    priority: i16,
    file: u32,
    address: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    options: u32,
    notify: u32,
}

#[repr(C)]
#[derive(Clone, Default)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    second: i64,
}

/// One context for some files and one region of memory.
pub struct Context<'a> {
    id: u64,
    region: &'a Region,
    files: &'a [File],
    controls: Vec<Control>,
    /// Pointers to the controls of the batch, in order.
    batch: Vec<*mut Control>,
    events: Vec<Event>,
    arrived: usize,
    in_flight: usize,
    calls: u64,
}

impl<'a> Context<'a> {
    /// A context for up to `depth` transfers at once between `files` and `region`.
    ///
    /// # Errors
    /// `EAGAIN` when `/proc/sys/fs/aio-max-nr` is used up, `ENOSYS` where there is none.
    pub fn new(depth: usize, files: &'a [File], region: &'a Region) -> io::Result<Self> {
        let mut id = 0_u64;
        // SAFETY: `id` is where the call puts the context's number.
        if unsafe { libc::syscall(libc::SYS_io_setup, depth as u32, &raw mut id) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            id,
            region,
            files,
            controls: vec![Control::default(); depth],
            batch: Vec::with_capacity(depth),
            events: vec![Event::default(); depth],
            arrived: 0,
            in_flight: 0,
            calls: 0,
        })
    }

    /// System calls made so far to submit and to wait.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Puts a transfer into the batch; `slot` is not in flight.
    #[inline]
    pub fn prepare(&mut self, slot: usize, file: usize, write: bool, offset: u64, at: usize, length: usize) {
        let control = Control {
            data: slot as u64,
            command: if write { COMMAND_WRITE } else { COMMAND_READ },
            file: self.files[file].as_raw_fd() as u32,
            address: self.region.address(at, length) as u64,
            length: length as u64,
            offset: offset as i64,
            ..Control::default()
        };
        assert!(slot < self.controls.len(), "more transfers than the context is deep");
        // SAFETY: the assertion keeps the place inside `controls`, whose slot is not in flight.
        unsafe {
            let place = self.controls.as_mut_ptr().add(slot);
            place.write(control);
            self.batch.push(place);
        }
    }

    /// Hands the batch to the kernel, or as much of it as it takes now.
    #[inline]
    pub fn submit(&mut self) -> io::Result<()> {
        while !self.batch.is_empty() {
            self.calls += 1;
            // SAFETY: the batch points at controls that stay in place, and they at memory of the region.
            let taken =
                unsafe { libc::syscall(libc::SYS_io_submit, self.id, self.batch.len(), self.batch.as_mut_ptr()) };
            if taken > 0 {
                self.in_flight += taken as usize;
                self.batch.drain(..taken as usize);
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) if self.in_flight > 0 => return Ok(()), // reap first
                Some(errno) if self.arrived < self.events.len() => {
                    // The first of the batch is what was refused: that transfer failed, the others go on.
                    let refused = self.batch.remove(0);
                    // SAFETY: batch pointers point at `controls`, which neither moves nor shrinks.
                    let data = unsafe { (*refused).data };
                    self.events[self.arrived] = Event { data, control: 0, result: -i64::from(errno), second: 0 };
                    self.arrived += 1;
                    self.in_flight += 1;
                }
                _ => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until `at_least` transfers, or all in flight, are complete.
    #[inline]
    pub fn wait(&mut self, at_least: usize) -> io::Result<()> {
        if !self.batch.is_empty() {
            self.submit()?;
        }
        while self.arrived == 0 && self.in_flight > 0 {
            self.calls += 1;
            // SAFETY: `events` has room for as many as are requested at most; no time limit is passed.
            let got = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.id,
                    at_least.min(self.in_flight) as i64,
                    self.events.len() as i64,
                    self.events.as_mut_ptr(),
                    std::ptr::null_mut::<libc::timespec>(),
                )
            };
            if got >= 0 {
                self.arrived = got as usize;
                if at_least == 0 {
                    break;
                }
                continue;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes every complete transfer: its slot, and the bytes moved or minus the errno.
    #[inline]
    pub fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        for event in &self.events[..self.arrived] {
            done(event.data as usize, event.result);
        }
        self.in_flight -= self.arrived;
        self.arrived = 0;
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is ours; the call waits for every transfer in flight, so the region may go after.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}
