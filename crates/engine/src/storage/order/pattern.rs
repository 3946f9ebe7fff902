//! Which block comes next where the order is no plain one: skewed, backward, striding, in zones, or of mixed lengths.

use super::blocks::Permutation;
use super::distribution::{Draws, Sampler, Spread};
use crate::sys::memory::mix;

/// Lengths with their cumulative share of the operations, from text such as `4k/50:64k/50`; empty for one length only.
///
/// # Errors
/// What is wrong with it.
pub fn lengths(text: &str) -> Result<Vec<(f64, u64)>, String> {
    let wrong = || format!("bssplit {text}: write BYTES/PERCENT:BYTES/PERCENT…, such as 4k/50:64k/50, 100 in all");
    let mut found: Vec<(Option<f64>, u64)> = Vec::new();
    for part in text.split(':').filter(|_| !text.is_empty()) {
        let (length, share) = part.split_once('/').unwrap_or((part, ""));
        let lower = length.to_ascii_lowercase();
        let digits = lower.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let shift = match &lower[digits.len()..] {
            "" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            _ => return Err(wrong()),
        };
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        let bytes = bytes.filter(|bytes| (1..=1 << 40).contains(bytes)).ok_or_else(wrong)?;
        let share = if share.is_empty() { None } else { Some(share.parse::<f64>().map_err(|_| wrong())? / 100.0) };
        found.push((share, bytes));
    }
    let given: f64 = found.iter().filter_map(|(share, _)| *share).sum();
    let open = found.iter().filter(|(share, _)| share.is_none()).count();
    if found.iter().any(|(share, _)| share.is_some_and(|share| !(0.0..=1.0).contains(&share)))
        || given > 1.0 + 1e-6
        || (open == 0 && !found.is_empty() && given < 1.0 - 1e-6)
    {
        return Err(wrong());
    }
    #[allow(clippy::cast_precision_loss, reason = "a handful of lengths")]
    let rest = if open > 0 { (1.0 - given).max(0.0) / open as f64 } else { 0.0 };
    let mut sum = 0.0;
    Ok(found
        .into_iter()
        .map(|(share, bytes)| {
            sum += share.unwrap_or(rest);
            (sum, bytes)
        })
        .collect())
}

/// The order of visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Walk {
    /// Upward, by `step` bytes from one beginning to the next.
    Up {
        /// From one beginning to the next, B; 0 for block after block.
        step: u64,
    },
    /// From the end down.
    Down {
        /// From one beginning to the next, B; 0 for block after block.
        step: u64,
    },
    /// Each visit so far behind the end of the one before (before it, if negative), as fio's `rw=read:8k`: the
    /// first at the beginning; beyond the region's end at its beginning again, before its beginning so far
    /// before its end.
    Gap {
        /// B.
        by: i64,
    },
    /// By the spread.
    #[default]
    Random,
}

/// A part of the region that is visited for a while before the next one; fio's `zonemode=strided`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Bytes that are moved before the next zone.
    pub size: u64,
    /// Length of a zone, B.
    pub range: u64,
    /// From the end of one zone to the beginning of the next, B.
    pub skip: u64,
}

/// What is asked of the visits; the default is one length, at random.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "options that are independent of each other")]
pub struct Visits {
    /// Lengths of reads and of writes as from [`lengths`]; empty for one of a block.
    pub lengths: [Vec<(f64, u64)>; 2],
    /// Lengths are any number of bytes from the least to the most.
    pub unaligned: bool,
    /// The first lengths are of visits in sequence and the second of random ones, whatever their direction.
    pub by_order: bool,
    /// Random visits begin at whole multiples of this, B, of reads and of writes; 0 for the shortest length.
    pub align: [u64; 2],
    /// See there.
    pub walk: Walk,
    /// How often each unit is visited in random order.
    pub spread: Spread,
    /// So many of 100 visits leave the random order and go on where the last one ended, of reads and of writes.
    pub sequential_percent: [u64; 2],
    /// Only every so many-th visit is at random; 0 for all.
    pub run: u32,
    /// Those between repeat the last one, and do not go on behind it.
    pub identical: bool,
    /// In sequence, reads and writes each have a position of their own.
    pub apart: bool,
    /// A random order may visit a block again before all were visited.
    pub repeats: bool,
    /// See there.
    pub zone: Option<Zone>,
}

impl Visits {
    /// Whether the plain order will not do.
    #[must_use]
    pub fn any(&self, random: bool) -> bool {
        self.lengths.iter().any(|lengths| !lengths.is_empty())
            || self.align.iter().any(|&align| align > 0)
            || self.unaligned
            || self.zone.is_some()
            || match self.walk {
                Walk::Random if random => {
                    self.spread != Spread::Even
                        || self.repeats
                        || self.run > 0
                        || self.sequential_percent.iter().any(|&percent| percent > 0)
                }
                Walk::Random => false,
                Walk::Up { step } => step > 0 || self.apart,
                Walk::Down { .. } | Walk::Gap { .. } => true,
            }
    }
}

/// Gives a job its offsets and lengths.
#[derive(Debug, Clone)]
pub struct Choice {
    asked: Visits,
    offset: u64,
    size: u64,
    draws: Draws,
    /// Of reads and of writes.
    samplers: [Sampler; 2],
    /// Every block once, where that can be.
    once: Option<Permutation>,
    seed: u64,
    /// Where the next visit in sequence begins, of reads and of writes.
    at: [u64; 2],
    /// Where the last visit began, likewise.
    last: [u64; 2],
    pass: u64,
    /// Visits since the last one at random.
    since: u32,
    /// Where the zone begins.
    base: u64,
    /// Bytes moved in it.
    moved: u64,
}

impl Choice {
    /// For `size` bytes from `offset` on, of which a block is `block` bytes long.
    #[must_use]
    pub fn new(offset: u64, size: u64, block: u64, asked: &Visits, seed: u64) -> Self {
        let mut asked = asked.clone();
        for of_one_direction in &mut asked.lengths {
            if of_one_direction.is_empty() {
                of_one_direction.push((1.0, block));
            }
        }
        for (align, lengths) in asked.align.iter_mut().zip(&asked.lengths) {
            if *align == 0 {
                *align = lengths.iter().map(|&(_, bytes)| bytes).min().unwrap_or(block).max(1);
            }
        }
        let room = asked.zone.map_or(size, |zone| zone.range.min(size)).max(1);
        let samplers = asked.align.map(|align| Sampler::new(&asked.spread, (room / align).max(1), seed));
        let mut choice = Self {
            asked,
            offset,
            size,
            draws: Draws::new(seed ^ 0xB10C),
            samplers,
            once: None,
            seed,
            at: [0; 2],
            last: [0; 2],
            pass: 0,
            since: 0,
            base: 0,
            moved: 0,
        };
        choice.restart();
        choice
    }

    /// Begins anew.
    pub fn restart(&mut self) {
        (self.at, self.last, self.pass, self.base, self.moved) = ([0; 2], [0; 2], 0, 0, 0);
        // The first visit is a random one.
        self.since = self.asked.run.saturating_sub(1);
        self.shuffle();
    }

    /// A new random order of the blocks that are in reach now, where each is to be visited once.
    #[cold]
    fn shuffle(&mut self) {
        let asked = &self.asked;
        let alike = asked.lengths[0].len() == 1
            && asked.lengths[0] == asked.lengths[1]
            && asked.align == [asked.lengths[0][0].1; 2];
        let units = self.room() / asked.align[0];
        if asked.walk == Walk::Random && asked.spread == Spread::Even && !asked.repeats && alike && units > 0 {
            self.pass += 1;
            self.once = Some(Permutation::new(units, mix(self.seed ^ self.pass)));
        }
    }

    /// Bytes in reach from the zone's beginning on.
    fn room(&self) -> u64 {
        self.asked.zone.map_or(self.size, |zone| zone.range.min(self.size - self.base))
    }

    /// The next visit: its offset in the file, and its length.
    #[inline]
    pub fn next_visit(&mut self, write: bool) -> (u64, u64) {
        let way = usize::from(write);
        if let Some(zone) = self.asked.zone {
            self.enter(zone);
        }
        let room = self.room();
        let mut random = self.asked.walk == Walk::Random && self.is_random(way);
        let length = self.length(if self.asked.by_order { usize::from(random) } else { way }).min(room);
        let position = if self.asked.apart || self.asked.walk == Walk::Random { way } else { 0 };
        // Behind the end lies nothing to go on with.
        random |= self.asked.walk == Walk::Random && self.at[position] + length > room;
        let at = if random {
            let at = self.draw(way, length, room);
            self.at[position] = at + length;
            at
        } else if self.asked.run > 0 && self.asked.identical {
            self.last[way].min(room - length)
        } else {
            self.step(position, length, room)
        };
        self.last[way] = at;
        self.moved += length;
        (self.offset + self.base + at, length)
    }

    /// Goes on to the next zone once enough was moved in this one.
    #[inline]
    fn enter(&mut self, zone: Zone) {
        if self.moved >= zone.size {
            self.base += zone.range + zone.skip;
            if self.base >= self.size {
                self.base = 0;
            }
            (self.moved, self.at) = (0, [0; 2]);
            self.shuffle();
        }
    }

    #[inline]
    fn is_random(&mut self, way: usize) -> bool {
        if self.asked.run > 0 {
            self.since += 1;
            if self.since < self.asked.run {
                return false;
            }
            self.since = 0;
        }
        let percent = self.asked.sequential_percent[way];
        percent == 0 || self.draws.below(100) >= percent
    }

    #[inline]
    fn draw(&mut self, way: usize, length: u64, room: u64) -> u64 {
        let align = self.asked.align[way];
        if self.once.is_some() {
            let next = self.once.as_mut().and_then(Permutation::next_block);
            let block = next.or_else(|| {
                self.shuffle();
                self.once.as_mut().and_then(Permutation::next_block)
            });
            return block.unwrap_or(0) * align;
        }
        let places = (room - length) / align + 1;
        // A long block near the end has fewer places than there are units: it is drawn into them.
        self.samplers[way].draw(&mut self.draws).min(places - 1) * align
    }

    #[inline]
    fn step(&mut self, position: usize, length: u64, room: u64) -> u64 {
        let (step, down) = match self.asked.walk {
            Walk::Gap { by } => return self.leap(position, length, room, by),
            Walk::Up { step } => (step, false),
            Walk::Down { step } => (step, true),
            Walk::Random => (0, false),
        };
        if self.at[position] + length > room {
            self.wrap(position, length, step, room);
        }
        let at = self.at[position];
        self.at[position] += if step == 0 { length } else { step };
        if down {
            room - at - length
        } else {
            at
        }
    }

    fn leap(&mut self, position: usize, length: u64, room: u64, by: i64) -> u64 {
        let mut at = self.at[position];
        if at >= room {
            at = 0;
        }
        if at > 0 {
            at = match at.checked_add_signed(by) {
                Some(at) if at < room => at,
                _ if by > 0 => 0,
                _ => room.saturating_sub(by.unsigned_abs()),
            };
        }
        let at = at.min(room - length);
        self.at[position] = at + length;
        at
    }

    /// Whether a pass with gaps came to an end at the region's.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.asked.walk, Walk::Gap { by } if by > 0) && self.at.iter().any(|&at| at >= self.room())
    }

    #[cold]
    fn wrap(&mut self, position: usize, length: u64, step: u64, room: u64) {
        self.pass += 1;
        let phases = if step == 0 { 1 } else { (step / length).max(1) };
        self.at[position] = (self.pass % phases * length).min(room - length);
    }

    #[inline]
    fn length(&mut self, table: usize) -> u64 {
        let lengths = &self.asked.lengths[table];
        if let [(_, only)] = lengths[..] {
            return only;
        }
        if self.asked.unaligned {
            let least = lengths.iter().map(|&(_, bytes)| bytes).min().unwrap_or(1);
            let most = lengths.iter().map(|&(_, bytes)| bytes).max().unwrap_or(1);
            return least + self.draws.below(most - least + 1);
        }
        let draw = self.draws.share();
        let found = lengths.iter().find(|&&(below, _)| draw <= below).or(lengths.last());
        found.map_or(1, |&(_, bytes)| bytes)
    }
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "counts of a test are small")]
mod tests {
    use super::*;
    use crate::storage::order::distribution::tests::chi_square_is_likely;

    #[test]
    fn lengths_come_as_often_as_asked_and_stay_inside() {
        let split = lengths("4k/25:16k/25:64k").unwrap();
        for walk in [Walk::Random, Walk::Up { step: 0 }, Walk::Down { step: 0 }] {
            let asked = Visits { lengths: [split.clone(), split.clone()], walk, ..Visits::default() };
            let mut choice = Choice::new(8192, 1 << 20, 65536, &asked, 7);
            let mut counts = [0_u64; 3];
            for _ in 0..200_000 {
                let (offset, length) = choice.next_visit(true);
                assert!(
                    offset >= 8192 && offset + length <= 8192 + (1 << 20) && offset % 4096 == 0,
                    "{offset} {length}"
                );
                counts[[4096, 16384, 65536].iter().position(|&l| l == length).unwrap()] += 1;
            }
            chi_square_is_likely(&counts, &[0.25, 0.25, 0.5]);
        }
    }

    #[test]
    fn backward_and_stride_visit_what_they_should() {
        let plan = |walk, visits| {
            let mut choice = Choice::new(0, 8 * 512, 512, &Visits { walk, ..Visits::default() }, 1);
            (0..visits).map(|_| choice.next_visit(false).0 / 512).collect::<Vec<_>>()
        };
        assert_eq!(plan(Walk::Down { step: 0 }, 9), [7, 6, 5, 4, 3, 2, 1, 0, 7]);
        assert_eq!(plan(Walk::Up { step: 3 * 512 }, 8), [0, 3, 6, 1, 4, 7, 2, 5]);
        assert_eq!(plan(Walk::Down { step: 4 * 512 }, 4), [7, 3, 6, 2]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_would_do() {
        for text in ["zipf:x", "zipf:-1", "pareto:1", "zoned:50/50", "zoned:50/0:50/100", "zoned:1", "cauchy:1"] {
            assert!(Spread::parse(text).unwrap_err().starts_with("random_distribution"), "{text}");
        }
        for text in ["4k/50", "4q/100", "4k/120", "0/100", "/", "4k/60:8k/60"] {
            assert!(lengths(text).unwrap_err().starts_with("bssplit"), "{text}");
        }
        assert!(lengths("").unwrap().is_empty());
    }

    fn blocks(asked: &Visits, ways: impl Iterator<Item = bool>) -> Vec<u64> {
        let mut choice = Choice::new(0, 8 * 512, 512, asked, 1);
        ways.map(|write| choice.next_visit(write).0 / 512).collect()
    }

    #[test]
    fn reads_and_writes_apart_each_go_on_where_they_were() {
        let asked = Visits { walk: Walk::Up { step: 0 }, apart: true, ..Visits::default() };
        let ways = [false, false, true, false, true, true];
        assert_eq!(blocks(&asked, ways.into_iter()), [0, 1, 0, 2, 1, 2]);
    }

    #[test]
    fn gaps_lie_where_fio_leaves_them() {
        // Blocks of the first visits of `fio --rw=read:8k` and `read:-8k`, of 4 KiB in 64 KiB, by its iolog.
        let visits = |by| {
            let asked = Visits { walk: Walk::Gap { by }, ..Visits::default() };
            let mut choice = Choice::new(0, 16 * 4096, 4096, &asked, 1);
            (0..8).map(|_| (choice.is_over(), choice.next_visit(false).0 / 4096)).collect::<Vec<_>>()
        };
        let blocks = |by| visits(by).into_iter().map(|(_, at)| at).collect::<Vec<_>>();
        assert_eq!(blocks(8192), [0, 3, 6, 9, 12, 15, 0, 3]);
        assert_eq!(blocks(-8192), [0, 14, 13, 12, 11, 10, 9, 8]);
        assert_eq!(visits(8192).iter().position(|(over, _)| *over), Some(6));
    }

    #[test]
    fn every_block_once_unless_repeats_are_asked_for() {
        let sorted = |asked: &Visits| {
            let mut seen = blocks(asked, [false; 8].into_iter());
            seen.sort_unstable();
            seen
        };
        assert_eq!(sorted(&Visits::default()), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_ne!(sorted(&Visits { repeats: true, ..Visits::default() }), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_zone_is_left_when_enough_was_moved() {
        let zone = Some(Zone { size: 1024, range: 1024, skip: 512 });
        let asked = Visits { walk: Walk::Up { step: 0 }, zone, ..Visits::default() };
        assert_eq!(blocks(&asked, [false; 8].into_iter()), [0, 1, 3, 4, 6, 7, 0, 1]);
        // Twice as much as a zone holds: it is passed twice.
        let twice = Visits { zone: Some(Zone { size: 2048, range: 1024, skip: 0 }), ..asked };
        assert_eq!(blocks(&twice, [false; 6].into_iter()), [0, 1, 0, 1, 2, 3]);
        let random = Visits { walk: Walk::Random, ..twice };
        let seen = blocks(&random, [false; 8].into_iter());
        assert!(seen[..4].iter().all(|&at| at < 2) && seen[4..].iter().all(|&at| (2..4).contains(&at)), "{seen:?}");
    }

    #[test]
    fn a_share_of_a_random_order_goes_on_in_sequence() {
        let asked = Visits { sequential_percent: [70, 0], ..Visits::default() };
        let mut choice = Choice::new(0, 1 << 40, 512, &asked, 9);
        let seen: Vec<u64> = (0..10_000).map(|_| choice.next_visit(false).0).collect();
        let on = seen.windows(2).filter(|pair| pair[1] == pair[0] + 512).count();
        assert!(on.abs_diff(7000) < 250, "{on}");
        let every_fourth = Visits { run: 4, ..Visits::default() };
        let mut choice = Choice::new(0, 1 << 40, 512, &every_fourth, 9);
        let seen: Vec<u64> = (0..4000).map(|_| choice.next_visit(false).0).collect();
        assert_eq!(seen.windows(2).filter(|pair| pair[1] == pair[0] + 512).count(), 3000);
        let same = Visits { identical: true, ..every_fourth };
        let mut choice = Choice::new(0, 1 << 40, 512, &same, 9);
        let seen: Vec<u64> = (0..4000).map(|_| choice.next_visit(false).0).collect();
        assert_eq!(seen.windows(2).filter(|pair| pair[1] == pair[0]).count(), 3000);
    }

    #[test]
    fn random_visits_begin_at_multiples_and_lengths_may_be_any() {
        let asked = Visits {
            align: [4096, 4096],
            lengths: [lengths("512/50:3k/50").unwrap(), Vec::new()],
            ..Visits::default()
        };
        let mut choice = Choice::new(0, 1 << 20, 3072, &asked, 9);
        assert!((0..1000).all(|_| choice.next_visit(false).0 % 4096 == 0));
        let odd = Visits {
            unaligned: true,
            repeats: true,
            lengths: [lengths("1k/50:3k/50").unwrap(), Vec::new()],
            ..Visits::default()
        };
        let mut choice = Choice::new(0, 1 << 20, 3072, &odd, 9);
        let seen: Vec<u64> = (0..1000).map(|_| choice.next_visit(false).1).collect();
        assert!(
            seen.iter().all(|length| (1024..=3072).contains(length)) && seen.iter().any(|length| length % 512 != 0)
        );
    }
}
