//! ICMP echo: the kernel at the other end answers, so no server of ours is needed there.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use crate::contract::kernel::Stop;
use crate::contract::reading::CpuTime;
use crate::network::lane::{Meter, Phase};
use crate::network::waiting::{passing, LOOK};
use crate::sys::icmp::{EchoSocket, HEADER_BYTES};
use crate::timing::clock::Clock;
use crate::timing::histogram::Histogram;

/// An echo that is not back after this is counted as lost.
const LOST_NS: u64 = 1_000_000_000;

/// How to ping.
#[derive(Debug, Clone, Copy)]
pub struct Pinging {
    /// Payload each way, bytes.
    pub message: usize,
    /// How many are under way at once.
    pub in_flight: usize,
    /// Echo requests sent a second; 0 for the next as soon as one is back.
    pub rate: f64,
    /// Length of the timed region, s.
    pub runtime_s: f64,
    /// Time before it, s.
    pub omit_s: f64,
}

/// What came of it.
#[derive(Default)]
pub struct Echoes {
    /// Round trips, ns.
    pub round_trip: Histogram,
    /// Echo requests sent.
    pub sent: u64,
    /// Those that never came.
    pub lost: u64,
    /// Round trips in each interval.
    pub rows: Vec<u64>,
    /// The timed region, s.
    pub elapsed_s: f64,
    /// CPU time of this thread in it.
    pub cpu: CpuTime,
    /// What ended it early.
    pub fault: Option<io::Error>,
    /// It was stopped early.
    pub interrupted: bool,
    /// The socket took a privilege.
    pub raw: bool,
}

/// Pings `address` until the time is over or `stop` is set.
pub fn run(address: IpAddr, pinging: &Pinging, interval_s: f64, stop: &Stop) -> io::Result<Echoes> {
    let clock = Clock::best();
    let mut echoes = Echoes::default();
    echoes.rows.reserve((pinging.runtime_s / interval_s).min(1e6) as usize + 2);
    let outgoing = vec![0x5A; HEADER_BYTES + pinging.message];
    let socket = EchoSocket::open(address, LOOK, &outgoing[HEADER_BYTES..])?;
    echoes.raw = socket.is_raw();
    let incoming = vec![0; EchoSocket::room(pinging.message)];
    let places = Places::new(pinging.in_flight);
    let gap_ns = if pinging.rate > 0.0 { (1e9 / pinging.rate) as u64 } else { 0 };
    crate::timing::start::hold_once();
    let mut meter = Meter::start();
    let region = Region::new(pinging, interval_s, clock.now());
    let next_due = region.began;
    let mut pinger = Pinger { clock, socket, outgoing, incoming, places, region, gap_ns, next_due };
    echoes.fault = pinger.run(&mut echoes, &mut meter, stop).err();
    echoes.elapsed_s = clock.now().saturating_sub(pinger.region.began) as f64 / 1e9;
    echoes.cpu = meter.spent();
    Ok(echoes)
}

/// Sends echo requests at their times and takes the answers.
struct Pinger {
    clock: Clock,
    socket: EchoSocket,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    places: Places,
    region: Region,
    /// Time between two requests, ns; 0 for the next as soon as one is back.
    gap_ns: u64,
    next_due: u64,
}

impl Pinger {
    /// Pings until the time is over or `stop` is set.
    fn run(&mut self, echoes: &mut Echoes, meter: &mut Meter, stop: &Stop) -> io::Result<()> {
        let phase = Phase::default();
        loop {
            let now = self.clock.now();
            if self.region.begins(now) {
                echoes.round_trip.clear();
                (echoes.sent, echoes.lost) = (0, 0);
                phase.next_round();
                meter.look(&phase);
            }
            if self.region.is_over(now, &mut echoes.rows) {
                return Ok(());
            }
            if stop.is_set() {
                echoes.interrupted = true;
                return Ok(());
            }
            self.send_due(now, &mut echoes.sent)?;
            if self.places.are_all_free() && self.gap_ns > 0 {
                std::thread::sleep(Duration::from_nanos(self.next_due.saturating_sub(now)).min(LOOK));
                continue;
            }
            match self.socket.answer(&mut self.incoming) {
                Ok(Some((answered, _))) => {
                    if let Some(round_trip_ns) = self.places.give_back(answered, &self.clock) {
                        echoes.round_trip.record(round_trip_ns);
                        self.region.row_count += 1;
                    }
                }
                Ok(None) => {}
                Err(error) if passing(&error) => echoes.lost += self.places.give_up(self.clock.now()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends and counts the requests that are due and have a place.
    #[inline] // of each round trip, as the methods below
    fn send_due(&mut self, now: u64, sent: &mut u64) -> io::Result<()> {
        while now >= self.next_due {
            let Some(number) = self.places.take(&self.clock) else { break };
            if let Err(error) = self.socket.send(&mut self.outgoing, number) {
                if !passing(&error) {
                    return Err(error);
                }
            }
            *sent += 1;
            let gap_ns = self.gap_ns;
            self.next_due = if gap_ns > 0 { self.next_due.max(now.saturating_sub(gap_ns)) + gap_ns } else { now };
        }
        Ok(())
    }
}

/// The timed region and its intervals, after a time that is left out.
struct Region {
    omit_ns: u64,
    runtime_ns: u64,
    row_ns: u64,
    is_timed: bool,
    /// When it began; before that, when the time began that is left out.
    began: u64,
    row_ends: u64,
    /// Round trips in the interval.
    row_count: u64,
}

impl Region {
    fn new(pinging: &Pinging, interval_s: f64, began: u64) -> Self {
        let row_ns = (interval_s * 1e9).max(1e6) as u64;
        Self {
            omit_ns: (pinging.omit_s * 1e9) as u64,
            runtime_ns: (pinging.runtime_s * 1e9) as u64,
            row_ns,
            is_timed: pinging.omit_s <= 0.0,
            began,
            row_ends: began + row_ns,
            row_count: 0,
        }
    }

    /// Whether it begins now, after the time that is left out.
    #[inline]
    fn begins(&mut self, now: u64) -> bool {
        if self.is_timed || now < self.began + self.omit_ns {
            return false;
        }
        (self.is_timed, self.began, self.row_ends, self.row_count) = (true, now, now + self.row_ns, 0);
        true
    }

    /// Whether it is over now; closes the intervals that have ended.
    #[inline]
    fn is_over(&mut self, now: u64, rows: &mut Vec<u64>) -> bool {
        while self.is_timed && now >= self.row_ends {
            rows.push(self.row_count);
            (self.row_count, self.row_ends) = (0, self.row_ends + self.row_ns);
        }
        self.is_timed && now >= self.began + self.runtime_ns
    }
}

/// The echo requests under way.
struct Places {
    /// When each was sent, its number, and whether its answer is awaited.
    sent: Vec<(u64, u16, bool)>,
    free: Vec<usize>,
    number: u16,
}

impl Places {
    fn new(count: usize) -> Self {
        Self { sent: vec![(0, 0, false); count], free: (0..count).rev().collect(), number: 0 }
    }

    fn are_all_free(&self) -> bool {
        self.free.len() == self.sent.len()
    }

    /// Takes a free place for a request that is sent now; gives its number.
    #[inline]
    fn take(&mut self, clock: &Clock) -> Option<u16> {
        let place = self.free.pop()?;
        // The place is the number's remainder, so that an answer finds it at once.
        self.number = next_number(self.number, place, self.sent.len());
        self.sent[place] = (clock.now(), self.number, true);
        Some(self.number)
    }

    /// Frees the place of an answer that came now; gives the time of its round trip, ns.
    #[inline]
    fn give_back(&mut self, answered: u16, clock: &Clock) -> Option<u64> {
        let place = usize::from(answered) % self.sent.len();
        let (sent_ns, expected, waits) = self.sent[place];
        if !waits || expected != answered {
            return None;
        }
        let round_trip_ns = clock.now() - sent_ns;
        self.sent[place].2 = false;
        self.free.push(place);
        Some(round_trip_ns)
    }

    /// Frees the places of requests whose answer is too late; gives how many they are.
    fn give_up(&mut self, now: u64) -> u64 {
        let mut lost = 0;
        for (place, (sent_ns, _, waits)) in self.sent.iter_mut().enumerate() {
            if *waits && now.saturating_sub(*sent_ns) > LOST_NS {
                *waits = false;
                lost += 1;
                self.free.push(place);
            }
        }
        lost
    }
}

/// The next number after `last` whose remainder by `count` is `place`.
fn next_number(last: u16, place: usize, count: usize) -> u16 {
    let (count, place) = (count as u32, place as u32);
    let from = u32::from(last) + 1;
    let candidate = from + (place + count - from % count) % count;
    if candidate > u32::from(u16::MAX) {
        place as u16
    } else {
        candidate as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_their_places_and_never_repeat_soon() {
        for count in [1, 3, 16, 1000] {
            let mut last = 0;
            for step in 0..200_000_usize {
                let place = (step * 7) % count;
                let number = next_number(last, place, count);
                assert_eq!(usize::from(number) % count, place);
                assert_ne!(number, last);
                last = number;
            }
        }
    }
}
