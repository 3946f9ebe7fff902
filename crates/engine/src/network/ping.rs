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
    let row_ns = (interval_s * 1e9).max(1e6) as u64;
    echoes.rows.reserve((pinging.runtime_s / interval_s).min(1e6) as usize + 2);
    let mut outgoing = vec![0x5A; HEADER_BYTES + pinging.message];
    let socket = EchoSocket::open(address, LOOK, &outgoing[HEADER_BYTES..])?;
    echoes.raw = socket.is_raw();
    let mut incoming = vec![0; EchoSocket::room(pinging.message)];
    // Each place holds when its echo request was sent, and its number.
    let mut places = vec![(0_u64, 0_u16, false); pinging.in_flight];
    let mut free: Vec<usize> = (0..pinging.in_flight).rev().collect();
    let mut number = 0_u16;
    let gap_ns = if pinging.rate > 0.0 { (1e9 / pinging.rate) as u64 } else { 0 };
    let phase = Phase::default();
    crate::timing::start::hold_once();
    let mut meter = Meter::start();
    let mut began = clock.now();
    let (mut timed, omit_ns) = (pinging.omit_s <= 0.0, (pinging.omit_s * 1e9) as u64);
    let runtime_ns = (pinging.runtime_s * 1e9) as u64;
    let (mut next_due, mut row_ends, mut row_count) = (began, began + row_ns, 0);
    loop {
        let now = clock.now();
        if !timed && now >= began + omit_ns {
            (timed, began, row_ends, row_count) = (true, now, now + row_ns, 0);
            echoes.round_trip.clear();
            (echoes.sent, echoes.lost) = (0, 0);
            phase.next_round();
            meter.look(&phase);
        }
        while timed && now >= row_ends {
            echoes.rows.push(row_count);
            (row_count, row_ends) = (0, row_ends + row_ns);
        }
        if timed && now >= began + runtime_ns {
            break;
        }
        if stop.is_set() {
            echoes.interrupted = true;
            break;
        }
        while !free.is_empty() && now >= next_due {
            let place = free.pop().unwrap_or(0);
            // The place is the number's remainder, so that an answer finds it at once.
            number = next_number(number, place, pinging.in_flight);
            places[place] = (clock.now(), number, true);
            if let Err(error) = socket.send(&mut outgoing, number) {
                if !passing(&error) {
                    echoes.fault = Some(error);
                    break;
                }
            }
            echoes.sent += 1;
            next_due = if gap_ns > 0 { next_due.max(now.saturating_sub(gap_ns)) + gap_ns } else { now };
        }
        if echoes.fault.is_some() {
            break;
        }
        if free.len() == places.len() && gap_ns > 0 {
            std::thread::sleep(Duration::from_nanos(next_due.saturating_sub(now)).min(LOOK));
            continue;
        }
        match socket.answer(&mut incoming) {
            Ok(Some((answered, _))) => {
                let place = usize::from(answered) % pinging.in_flight;
                let (sent_ns, expected, waits) = places[place];
                if waits && expected == answered {
                    echoes.round_trip.record(clock.now() - sent_ns);
                    row_count += 1;
                    places[place].2 = false;
                    free.push(place);
                }
            }
            Ok(None) => {}
            Err(error) if passing(&error) => give_up(&mut places, &mut free, clock.now(), &mut echoes.lost),
            Err(error) => {
                echoes.fault = Some(error);
                break;
            }
        }
    }
    echoes.elapsed_s = clock.now().saturating_sub(began) as f64 / 1e9;
    echoes.cpu = meter.spent();
    Ok(echoes)
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

fn give_up(places: &mut [(u64, u16, bool)], free: &mut Vec<usize>, now: u64, lost: &mut u64) {
    for (place, entry) in places.iter_mut().enumerate() {
        if entry.2 && now.saturating_sub(entry.0) > LOST_NS {
            entry.2 = false;
            *lost += 1;
            free.push(place);
        }
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
