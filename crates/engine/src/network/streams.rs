//! The loops of one TCP stream: send at a rate or as fast as it goes, or take all that comes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::contract::reading::CpuTime;
use crate::network::lane::{Lane, Meter, Phase};
use crate::network::settings::{Settings, TAKEN_BYTES};
use crate::network::waiting::{passing, LOOK};
use crate::sys::net;
use crate::sys::pipe::Supply;
use crate::timing::clock::{now_ns, Clock};

/// What a reader is woken for that copies nothing, and so empties a window at once.
const SKIPPED_BYTES: usize = 128 << 10;
/// An end of file, in a lane's `errno`.
pub const ENDED: i32 = -1;

/// Holds a sender to its rate, from the time when it began.
pub struct Pace {
    clock: Clock,
    ns_a_byte: f64,
    began_ns: u64,
    sent: u64,
}

impl Pace {
    /// A pace of `bits_s`; 0 means none.
    #[must_use]
    pub fn new(bits_s: u64) -> Self {
        let clock = Clock::best();
        let ns_a_byte = if bits_s == 0 { 0.0 } else { 8e9 / bits_s as f64 };
        Self { clock, ns_a_byte, began_ns: clock.now(), sent: 0 }
    }

    /// Whether it holds anything back.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.ns_a_byte > 0.0
    }

    /// Counts bytes that went.
    #[inline]
    pub fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Waits until the next block is due, or for a look.
    #[inline]
    pub fn wait(&mut self, phase: &Phase) {
        if self.ns_a_byte == 0.0 {
            return;
        }
        loop {
            let due = self.began_ns + (self.sent as f64 * self.ns_a_byte) as u64;
            let now = self.clock.now();
            if now >= due || phase.is_done() {
                // What could not be sent in time is not made up for in one burst later on.
                if now > due + 100_000_000 {
                    self.began_ns += now - due;
                }
                return;
            }
            let left = due - now;
            // A sleep is late by some 60 µs; below that, look again and again.
            if left > 120_000 {
                std::thread::sleep(Duration::from_nanos(left - 60_000).min(LOOK));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Makes a stream's waits end at each look.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(LOOK))
}

/// Where a sender's bytes come from.
enum Source {
    /// Pages kept in a pipe.
    Pipe(Supply),
    /// Pages of a file in memory, where no pipe of the size is allowed.
    File(std::fs::File),
    /// Memory, copied.
    Memory,
}

impl Source {
    fn of(block: &[u8], zero_copy: bool) -> io::Result<Self> {
        if !zero_copy {
            return Ok(Self::Memory);
        }
        Supply::of(block).map(Self::Pipe).or_else(|_| net::memory_file(block).map(Self::File))
    }
}

/// Sends until the phase is done; gives the CPU time that it took.
pub fn send(stream: &TcpStream, settings: &Settings, lane: &Lane, phase: &Phase) -> CpuTime {
    let block = content(settings.block);
    let source = Source::of(&block, settings.zero_copy);
    if !phase.wait_for_start() {
        return CpuTime::default();
    }
    let mut source = match source {
        Ok(source) => source,
        Err(error) => {
            lane.errno.store(error.raw_os_error().unwrap_or(ENDED), Ordering::Relaxed);
            return CpuTime::default();
        }
    };
    let mut meter = Meter::start();
    let mut pace = Pace::new(settings.rate_bits_s);
    let burst = if pace.is_set() { settings.burst.max(1) } else { 1 };
    let mut writer = stream;
    let (mut rest, mut left_of_burst) = (0, burst);
    while !phase.is_done() {
        meter.look(phase);
        if left_of_burst == burst {
            pace.wait(phase);
        }
        let sent = match &mut source {
            Source::Pipe(supply) => supply.send(stream),
            Source::File(file) => net::send_file(stream, file, block.len()),
            Source::Memory => writer.write(&block),
        };
        match sent {
            Ok(count) => {
                rest += count;
                let blocks = rest / block.len();
                rest %= block.len();
                lane.moved(count as u64, blocks as u64);
                pace.sent(count as u64);
                left_of_burst = if left_of_burst <= 1 { burst } else { left_of_burst - 1 };
            }
            Err(error) if passing(&error) => {}
            Err(_) if phase.is_done() => break,
            Err(error) => {
                lane.errno.store(error.raw_os_error().unwrap_or(ENDED), Ordering::Relaxed);
                break;
            }
        }
    }
    // iperf3 waits for whole blocks without an end: tell it that no more will come.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    meter.spent()
}

/// Takes what comes until the phase is done and nothing more is there; gives the CPU time that it took.
pub fn receive(stream: &TcpStream, settings: &Settings, lane: &Lane, phase: &Phase) -> CpuTime {
    let mut buffer = vec![0_u8; settings.block.max(TAKEN_BYTES)];
    // A test of an amount may be over before this thread has a processor: what came is counted then, too.
    let _ = phase.wait_for_start();
    // At a rate, or where an amount ends the test, what comes has to be seen when it comes.
    if settings.rate_bits_s == 0 && !settings.by_amount() {
        let _ = net::wake_at(stream, if settings.skip_rx_copy { SKIPPED_BYTES } else { TAKEN_BYTES });
    }
    let mut meter = Meter::start();
    let mut reader = stream;
    let block = settings.block.max(1) as u64;
    let mut total = 0_u64;
    let mut drained_until = 0;
    loop {
        if phase.is_done() {
            // What has arrived is taken along, within a limit, so that a sender's last bytes count.
            if drained_until == 0 {
                let _ = net::wake_at(stream, 1);
                // An amount comes whole, however long this thread waits for a processor; time must not add to a rate.
                drained_until = now_ns() + if settings.by_amount() { 1_000_000_000 } else { 20_000_000 };
            }
            if now_ns() > drained_until || !net::wait(stream, false, Duration::ZERO).unwrap_or(false) {
                break;
            }
        }
        meter.look(phase);
        let came = if settings.skip_rx_copy { net::skip(stream, 1 << 20) } else { reader.read(&mut buffer) };
        match came {
            // At the end of the test the other end closes, and that is no fault.
            Ok(0) if phase.is_done() => break,
            Ok(0) => {
                lane.errno.store(ENDED, Ordering::Relaxed);
                break;
            }
            Ok(count) => {
                let before = total / block;
                total += count as u64;
                lane.moved(count as u64, total / block - before);
            }
            Err(error) if passing(&error) => {}
            // Also while the rest is taken along: what was on its way is lost with the connection.
            Err(error) => {
                lane.errno.store(error.raw_os_error().unwrap_or(ENDED), Ordering::Relaxed);
                break;
            }
        }
    }
    meter.spent()
}

/// Bytes that do not compress, in case a link does.
#[must_use]
pub fn content(length: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut bytes = vec![0; length];
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = state.to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::network::lane::{DONE, RUNNING};

    /// A receiver that waits for data when the test ends, and what its lane says of the peer's end.
    fn errno_after(end: impl FnOnce(TcpStream)) -> i32 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        // Longer than the test: the receiver is in its read when the peer ends.
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let (lane, phase) = (Lane::default(), Phase::default());
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(&stream, &Settings::default(), &lane, &phase));
            phase.set(RUNNING);
            std::thread::sleep(Duration::from_millis(200));
            phase.set(DONE);
            end(peer);
            receiver.join().unwrap();
        });
        lane.errno.load(Ordering::Relaxed)
    }

    #[test]
    fn a_reset_while_the_rest_is_taken_along_is_named_and_a_close_is_not() {
        assert_eq!(errno_after(drop), 0);
        let reset = |peer: TcpStream| socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        assert_eq!(errno_after(reset), libc::ECONNRESET);
    }
}
