//! The loops of one UDP stream, and what its numbers tell: loss, reordering, duplicates and jitter.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::contract::reading::CpuTime;
use crate::network::lane::{Counts, Lane, Meter, Phase};
use crate::network::settings::{Handing, Settings};
use crate::network::streams::{content, Pace, ENDED};
use crate::network::waiting::{passing, LOOK};
use crate::sys::datagrams::{self, Batch};
use crate::sys::net;
use crate::sys::pause::sharpen_timers;
use crate::timing::clock::now_ns;

/// Datagrams or buffers a call.
const BATCH: usize = 32;
/// Buffers a call where each holds up to 64 KiB.
const LARGE_BATCH: usize = 4;
/// A datagram as the kernel counts it against a socket's buffer: its page or pages, and its description.
const KEPT_BYTES: u64 = 2304;
/// How far back a late datagram is distinguished from one that came twice.
const WINDOW: u64 = 1 << 16;

/// Follows the numbers of one stream's datagrams.
pub struct Numbers {
    seen: Box<[u64]>,
    /// Unlike the lane's, these are only this thread's.
    counts: Counts,
    jitter_ns: f64,
    transit_ns: Option<i64>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            seen: vec![0; (WINDOW / 64) as usize].into_boxed_slice(),
            counts: Counts::default(),
            jitter_ns: 0.0,
            transit_ns: None,
        }
    }
}

impl Numbers {
    /// Takes one datagram's number (from 1), and when it was sent and came, ns by one clock.
    #[inline]
    pub fn take(&mut self, number: u64, sent_ns: i64, came_ns: i64) {
        let counts = &mut self.counts;
        if number == counts.highest.saturating_add(1) && number > counts.highest {
            counts.highest = number;
            self.clear(number);
        } else if number > counts.highest {
            let from = counts.highest + 1;
            counts.lost += number - from;
            counts.highest = number;
            // A leap over the whole window, by whoever sends nonsense, must not take long.
            for passed in from.max(number.saturating_sub(WINDOW - 1))..=number {
                self.clear(passed);
            }
        } else {
            if self.counts.highest - number < WINDOW && self.is_seen(number) {
                self.counts.duplicates += 1;
                return;
            }
            self.counts.reordered += 1;
            self.counts.lost = self.counts.lost.saturating_sub(1);
        }
        self.mark(number);
        let transit = came_ns.wrapping_sub(sent_ns);
        if let Some(last) = self.transit_ns.replace(transit) {
            // RFC 3550, 6.4.1: J += (|D| - J) / 16
            self.jitter_ns += (transit.wrapping_sub(last).unsigned_abs() as f64 - self.jitter_ns) / 16.0;
        }
    }

    /// Takes the datagrams in the first `count` buffers, which came now; gives their bytes and how many they are.
    #[inline] // every datagram would pay for a call
    fn take_all(&mut self, batch: &Batch, count: usize, wide: bool) -> (u64, u64) {
        let came_ns = stamp_ns();
        let (mut bytes, mut datagrams) = (0, 0);
        for index in 0..count {
            let (buffer, segment) = batch.received(index);
            for datagram in buffer.chunks(segment) {
                if let Some((sent_ns, number)) = read_header(datagram, wide) {
                    self.take(number, sent_ns, came_ns);
                    bytes += datagram.len() as u64;
                    datagrams += 1;
                }
            }
        }
        (bytes, datagrams)
    }

    fn place(number: u64) -> (usize, u64) {
        let at = number % WINDOW;
        ((at / 64) as usize, 1 << (at % 64))
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] &= !bit;
    }

    fn mark(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] |= bit;
    }

    fn is_seen(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.seen[word] & bit != 0
    }

    /// What was found so far.
    #[cfg(any(test, fuzzing))]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Shows what was found so far.
    pub fn publish(&self, lane: &Lane) {
        lane.highest.store(self.counts.highest, Ordering::Relaxed);
        lane.lost.store(self.counts.lost, Ordering::Relaxed);
        lane.reordered.store(self.counts.reordered, Ordering::Relaxed);
        lane.duplicates.store(self.counts.duplicates, Ordering::Relaxed);
        lane.jitter_ns.store(self.jitter_ns as u64, Ordering::Relaxed);
    }
}

/// When a datagram goes or comes: a clock that no one sets, so that no step of the calendar's looks like jitter.
fn stamp_ns() -> i64 {
    now_ns() as i64
}

/// Writes seconds, microseconds and number into a datagram's first bytes.
#[inline]
fn write_header(datagram: &mut [u8], sent_ns: i64, number: u64, wide: bool) {
    let (seconds, micros) = ((sent_ns / 1_000_000_000) as u32, (sent_ns % 1_000_000_000 / 1000) as u32);
    datagram[..4].copy_from_slice(&seconds.to_be_bytes());
    datagram[4..8].copy_from_slice(&micros.to_be_bytes());
    if wide {
        datagram[8..16].copy_from_slice(&number.to_be_bytes());
    } else {
        datagram[8..12].copy_from_slice(&(number as u32).to_be_bytes());
    }
}

/// Reads what [`write_header`] wrote: when it was sent, and its number.
#[inline]
pub fn read_header(datagram: &[u8], wide: bool) -> Option<(i64, u64)> {
    let word = |at: usize| datagram.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    let sent = i64::from(word(0)?) * 1_000_000_000 + i64::from(word(4)?) * 1000;
    let first = u64::from(word(8)?);
    let number = if wide { first << 32 | u64::from(word(12)?) } else { first };
    Some((sent, number))
}

/// Sends until the phase is done; gives the CPU time that it took.
pub fn send(socket: &UdpSocket, settings: &Settings, lane: &Lane, phase: &Phase) -> CpuTime {
    let (block, segments) = (settings.block, settings.segments());
    let wide = settings.counters_64;
    let count = match settings.handing {
        Handing::Batched => BATCH,
        Handing::Plain | Handing::Segmented => 1,
    };
    let mut batch = Batch::new(count, block * segments);
    for index in 0..count {
        let bytes = content(block * segments);
        batch.buffer(index).copy_from_slice(&bytes);
    }
    if settings.handing == Handing::Segmented {
        let _ = datagrams::allow_segmenting(socket, block);
    }
    let _ = socket.set_write_timeout(Some(LOOK));
    if !phase.wait_for_start() {
        return CpuTime::default();
    }
    let mut meter = Meter::start();
    let mut pace = Pace::new(settings.rate_bits_s);
    let mut number = 0_u64;
    // At a rate, no more at once than 1 ms of it, so that batches do not overrun buffers along the path.
    let each_ms = settings.rate_bits_s / 8000 / (block * segments).max(1) as u64;
    let at_once = if pace.is_set() { (each_ms.max(settings.burst as u64) as usize).clamp(1, count) } else { count };
    while !phase.is_done() {
        meter.look(phase);
        pace.wait(phase);
        let now = stamp_ns();
        for index in 0..at_once {
            for datagram in batch.buffer(index).chunks_mut(block) {
                number += 1;
                write_header(datagram, now, number, wide);
            }
        }
        match batch.send(socket, at_once) {
            Ok(sent) => {
                number -= ((at_once - sent) * segments) as u64;
                lane.moved((sent * segments * block) as u64, (sent * segments) as u64);
                lane.highest.store(number, Ordering::Relaxed);
                pace.sent((sent * segments * block) as u64);
            }
            Err(error) => {
                number -= (at_once * segments) as u64;
                if !passing(&error) {
                    // The other end is not there (yet, or any more): what it misses counts as lost there.
                    lane.errno.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
    meter.spent()
}

/// How a reader that found nothing more lets datagrams gather: where it waits in the kernel for each, its sender wakes it
/// for each, and pays for that with a third of its time.
struct Gather {
    /// Bytes in the socket's buffer above which the pause is too long: a quarter of it.
    most: u64,
    pause: Duration,
    gathered: u64,
}

impl Gather {
    /// The pause is no longer, no matter what comes: a timer's own delay.
    const LONGEST: Duration = Duration::from_micros(100);
    /// A shorter one costs more than the wake-up that it saves.
    const SHORTEST: Duration = Duration::from_micros(5);

    /// None at a rate, where the moment at which each came counts for the jitter, and for an amount, which the last one
    /// ends.
    fn new(socket: &UdpSocket, settings: &Settings) -> Option<Self> {
        let may = settings.handing != Handing::Segmented && settings.rate_bits_s == 0 && !settings.by_amount();
        may.then(|| {
            sharpen_timers();
            let bytes = KEPT_BYTES.max(settings.block as u64 * 2);
            Self { most: net::buffers(socket).1 / bytes / 4, pause: Self::SHORTEST, gathered: 0 }
        })
    }

    /// Counts what was taken at once.
    fn took(&mut self, count: usize) {
        self.gathered += count as u64;
    }

    /// Nothing more is there: sleeps, for longer where little came since the last time, and gives whether something came.
    fn rest(&mut self) -> bool {
        let came = std::mem::take(&mut self.gathered);
        self.pause = if came > self.most {
            (self.pause / 2).max(Self::SHORTEST)
        } else {
            (self.pause + Self::SHORTEST).min(Self::LONGEST)
        };
        if came > 0 {
            std::thread::sleep(self.pause);
        }
        came > 0
    }
}

/// The buffers that datagrams are received into.
fn incoming_batch(socket: &UdpSocket, settings: &Settings) -> Batch {
    let coalesced = settings.handing == Handing::Segmented && datagrams::allow_coalescing(socket).is_ok();
    match settings.handing {
        Handing::Plain => Batch::new(1, settings.block.max(2048)),
        Handing::Batched => Batch::new(BATCH, settings.block.max(2048)),
        Handing::Segmented => Batch::new(if coalesced { LARGE_BATCH } else { BATCH }, 65_536),
    }
}

/// Takes what comes until the phase is done and nothing more is there; gives the CPU time that it took.
pub fn receive(socket: &UdpSocket, settings: &Settings, lane: &Lane, phase: &Phase) -> CpuTime {
    let wide = settings.counters_64;
    let mut batch = incoming_batch(socket, settings);
    let _ = socket.set_read_timeout(Some(LOOK));
    let mut numbers = Numbers::default();
    if !phase.wait_for_start() {
        return CpuTime::default();
    }
    let mut gather = Gather::new(socket, settings);
    let mut waits = true;
    let mut meter = Meter::start();
    let mut drained_until = 0;
    loop {
        if phase.is_done() {
            // What has arrived is taken along; a peer that never stops must not keep us.
            if drained_until == 0 {
                drained_until = now_ns() + 20_000_000;
            }
            if now_ns() > drained_until || !net::wait(socket, false, Duration::from_millis(5)).unwrap_or(false) {
                break;
            }
        }
        meter.look(phase);
        let taken = if waits { batch.receive(socket) } else { batch.receive_what_is_there(socket) };
        match taken {
            Ok(count) => {
                if let Some(gather) = &mut gather {
                    gather.took(count);
                    waits = false;
                }
                let (bytes, datagrams) = numbers.take_all(&batch, count, wide);
                lane.moved(bytes, datagrams);
                numbers.publish(lane);
            }
            Err(error) => {
                if phase.is_done() {
                    break;
                }
                if let Some(gather) = gather.as_mut().filter(|_| !waits) {
                    waits = !gather.rest();
                    continue;
                }
                if !passing(&error) {
                    // Refused is what was sent, before the other end listened.
                    if error.kind() != ErrorKind::ConnectionRefused {
                        lane.errno.store(error.raw_os_error().unwrap_or(ENDED), Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
    meter.spent()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(numbers: &[u64]) -> Counts {
        let mut follower = Numbers::default();
        for &number in numbers {
            follower.take(number, 0, 0);
        }
        follower.counts
    }

    #[test]
    fn loss_reordering_and_duplicates_are_told_apart() {
        let counts = taken(&[1, 2, 5, 4, 4, 6, 9, 9, 3]);
        assert_eq!((counts.highest, counts.lost, counts.reordered, counts.duplicates), (9, 2, 2, 2));
    }

    #[test]
    fn a_window_later_the_same_place_is_new() {
        let all: Vec<u64> = (1..=3 * WINDOW).collect();
        let counts = taken(&all);
        assert_eq!((counts.highest, counts.lost, counts.reordered, counts.duplicates), (3 * WINDOW, 0, 0, 0));
    }

    #[test]
    fn nonsense_neither_overflows_nor_takes_long() {
        let counts = taken(&[u64::MAX - 1, 0, 1, u64::MAX - 1, 7, 0]);
        assert_eq!(counts.duplicates, 1);
        assert_eq!(counts.highest, u64::MAX - 1);
    }

    #[test]
    fn jitter_is_rfc_3550s() {
        let mut follower = Numbers::default();
        for number in 1..=200_u64 {
            follower.take(number, 0, if number % 2 == 0 { 1600 } else { 0 });
        }
        assert!((follower.jitter_ns - 1600.0).abs() < 1.0, "{}", follower.jitter_ns);
    }

    fn gather(change: impl Fn(&mut Settings)) -> Option<Gather> {
        let mut settings = Settings { udp: true, block: 1460, handing: Handing::Plain, ..Settings::default() };
        change(&mut settings);
        Gather::new(&UdpSocket::bind(("127.0.0.1", 0)).unwrap(), &settings)
    }

    #[test]
    fn datagrams_gather_only_where_nobody_asks_when_each_came() {
        assert!(gather(|_| ()).is_some());
        assert!(gather(|settings| settings.handing = Handing::Batched).is_some());
        assert!(gather(|settings| settings.handing = Handing::Segmented).is_none());
        assert!(gather(|settings| settings.rate_bits_s = 1_000_000).is_none());
        assert!(gather(|settings| settings.blocks = 100).is_none());
    }

    #[test]
    fn a_reader_pauses_for_less_where_much_came_and_not_at_all_where_nothing_did() {
        let mut gather = gather(|_| ()).unwrap();
        let few = usize::try_from(gather.most).unwrap();
        for _ in 0..100 {
            gather.took(few);
            assert!(gather.rest());
        }
        assert_eq!(gather.pause, Gather::LONGEST);
        gather.took(few + 1);
        assert!(gather.rest());
        assert_eq!(gather.pause, Gather::LONGEST / 2);
        assert!(!gather.rest(), "what comes next is waited for");
    }

    #[test]
    fn datagrams_carry_a_clock_that_nobody_sets() {
        let [here, there] = [(); 2].map(|()| UdpSocket::bind(("127.0.0.1", 0)).unwrap());
        here.connect(there.local_addr().unwrap()).unwrap();
        there.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let settings = Settings { udp: true, block: 100, rate_bits_s: 1_000_000, ..Settings::default() };
        let (lane, phase) = (Lane::default(), Phase::default());
        let (mut datagram, began) = ([0; 100], now_ns() as i64);
        std::thread::scope(|scope| {
            scope.spawn(|| send(&here, &settings, &lane, &phase));
            phase.set(crate::network::lane::RUNNING);
            let came = there.recv(&mut datagram);
            phase.set(crate::network::lane::DONE);
            assert_eq!(came.unwrap(), 100);
        });
        let (sent_ns, number) = read_header(&datagram, settings.counters_64).unwrap();
        assert_eq!(number, 1);
        // The header has whole microseconds.
        assert!(sent_ns + 1000 > began && sent_ns <= now_ns() as i64, "{sent_ns} is not between {began} and now");
    }

    #[test]
    fn headers_survive_both_widths() {
        let mut datagram = [0; 16];
        write_header(&mut datagram, 1_700_000_000_123_456_000, 5_000_000_000, true);
        assert_eq!(read_header(&datagram, true), Some((1_700_000_000_123_456_000, 5_000_000_000)));
        write_header(&mut datagram, 1_700_000_000_123_456_000, 77, false);
        assert_eq!(read_header(&datagram[..12], false), Some((1_700_000_000_123_456_000, 77)));
        assert_eq!(read_header(&datagram[..9], false), None);
    }
}
