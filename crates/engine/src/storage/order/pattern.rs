//! Access patterns beyond the plain order: skewed, backward, strided, in zones, or of mixed lengths.

use crate::timing::rng::{mix, Rng};

use super::blocks::Permutation;
use super::distribution::{Distribution, Sampler};

/// Lengths with their cumulative share of the operations, from text such as `4k/50:64k/50`; empty for one length only.
///
/// # Errors
/// What is wrong with it.
pub fn lengths(text: &str) -> Result<Vec<(f64, u64)>, String> {
    let wrong = || format!("bssplit {text}: write BYTES/PERCENT:BYTES/PERCENT…, such as 4k/50:64k/50, 100 in total");
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

/// The order of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Traversal {
    /// Upward, by `step` bytes from one beginning to the next.
    Up {
        /// Distance between two beginnings, B; 0 for block after block.
        step: u64,
    },
    /// Blocks from the end down.
    Down {
        /// Distance between two beginnings, B; 0 for block after block.
        step: u64,
    },
    /// Each visit so far behind the end of the one before (before it, if negative), as fio's `rw=read:8k`: the
    /// first at the beginning; beyond the region's end at its beginning again, before its beginning so far
    /// before its end.
    Gap {
        /// B.
        by: i64,
    },
    /// Random blocks by the distribution.
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
    /// Gap between the end of one zone and the beginning of the next, B.
    pub skip: u64,
}

/// An access pattern; the default is one length, at random.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "options that are independent of each other")]
pub struct AccessPattern {
    /// Lengths of reads and of writes as from [`lengths`]; empty for one of a block.
    pub lengths: [Vec<(f64, u64)>; 2],
    /// Lengths are any number of bytes from the least to the most.
    pub unaligned: bool,
    /// The first lengths are of visits in sequence and the second of random ones, regardless of their direction.
    pub by_order: bool,
    /// Random visits begin at whole multiples of this, B, of reads and of writes; 0 for the shortest length.
    pub align: [u64; 2],
    /// The order of accesses.
    pub traversal: Traversal,
    /// How often each unit is visited in random order.
    pub distribution: Distribution,
    /// This many of 100 visits leave the random order and go on where the last one ended, of reads and of writes.
    pub sequential_percent: [u64; 2],
    /// One visit in this many is at random; 0 for all.
    pub run: u32,
    /// Those between repeat the last one, and do not go on behind it.
    pub identical: bool,
    /// Whether reads and writes in sequence each have a separate position.
    pub apart: bool,
    /// A random order may visit a block again before all were visited.
    pub revisits: bool,
    /// Zones that are visited one after another.
    pub zone: Option<Zone>,
}

impl AccessPattern {
    /// Whether the plain order will not do.
    #[must_use]
    pub fn any(&self, random: bool) -> bool {
        self.lengths.iter().any(|lengths| !lengths.is_empty())
            || self.align.iter().any(|&align| align > 0)
            || self.unaligned
            || self.zone.is_some()
            || match self.traversal {
                Traversal::Random if random => {
                    self.distribution != Distribution::Even
                        || self.revisits
                        || self.run > 0
                        || self.sequential_percent.iter().any(|&percent| percent > 0)
                }
                Traversal::Random => false,
                Traversal::Up { step } => step > 0 || self.apart,
                Traversal::Down { .. } | Traversal::Gap { .. } => true,
            }
    }
}

/// Gives a job its offsets and lengths.
#[derive(Debug, Clone)]
pub struct PatternOrder {
    pattern: AccessPattern,
    offset: u64,
    size: u64,
    rng: Rng,
    /// Samplers of reads and of writes.
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

impl PatternOrder {
    /// The order of `size` bytes from `offset` on, in blocks of `block` bytes.
    #[must_use]
    pub fn new(offset: u64, size: u64, block: u64, pattern: &AccessPattern, seed: u64) -> Self {
        let mut pattern = pattern.clone();
        for of_one_direction in &mut pattern.lengths {
            if of_one_direction.is_empty() {
                of_one_direction.push((1.0, block));
            }
        }
        for (align, lengths) in pattern.align.iter_mut().zip(&pattern.lengths) {
            if *align == 0 {
                *align = lengths.iter().map(|&(_, bytes)| bytes).min().unwrap_or(block).max(1);
            }
        }
        let room = pattern.zone.map_or(size, |zone| zone.range.min(size)).max(1);
        let samplers = pattern.align.map(|align| Sampler::new(&pattern.distribution, (room / align).max(1), seed));
        let mut order = Self {
            pattern,
            offset,
            size,
            rng: Rng::new(seed ^ 0xB10C),
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
        order.restart();
        order
    }

    /// Begins anew.
    pub fn restart(&mut self) {
        (self.at, self.last, self.pass, self.base, self.moved) = ([0; 2], [0; 2], 0, 0, 0);
        // The first visit is a random one.
        self.since = self.pattern.run.saturating_sub(1);
        self.shuffle();
    }

    /// A new random order of the blocks that are in reach now, where each is to be visited once.
    #[cold]
    fn shuffle(&mut self) {
        let pattern = &self.pattern;
        let alike = pattern.lengths[0].len() == 1
            && pattern.lengths[0] == pattern.lengths[1]
            && pattern.align == [pattern.lengths[0][0].1; 2];
        let units = self.room() / pattern.align[0];
        if pattern.traversal == Traversal::Random
            && pattern.distribution == Distribution::Even
            && !pattern.revisits
            && alike
            && units > 0
        {
            self.pass += 1;
            self.once = Some(Permutation::new(units, mix(self.seed ^ self.pass)));
        }
    }

    /// Bytes in reach from the zone's beginning on.
    fn room(&self) -> u64 {
        self.pattern.zone.map_or(self.size, |zone| zone.range.min(self.size - self.base))
    }

    /// The next visit: its offset in the file, and its length.
    pub fn next_access(&mut self, write: bool) -> (u64, u64) {
        let direction = usize::from(write);
        if let Some(zone) = self.pattern.zone {
            self.enter(zone);
        }
        let room = self.room();
        let mut random = self.pattern.traversal == Traversal::Random && self.is_random(direction);
        let length = self.length(if self.pattern.by_order { usize::from(random) } else { direction }).min(room);
        let position = if self.pattern.apart || self.pattern.traversal == Traversal::Random { direction } else { 0 };
        // Nothing follows the end of the region.
        random |= self.pattern.traversal == Traversal::Random && self.at[position] + length > room;
        let at = if random {
            let at = self.draw(direction, length, room);
            self.at[position] = at + length;
            at
        } else if self.pattern.run > 0 && self.pattern.identical {
            self.last[direction].min(room - length)
        } else {
            self.step(position, length, room)
        };
        self.last[direction] = at;
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
    fn is_random(&mut self, direction: usize) -> bool {
        if self.pattern.run > 0 {
            self.since += 1;
            if self.since < self.pattern.run {
                return false;
            }
            self.since = 0;
        }
        let percent = self.pattern.sequential_percent[direction];
        percent == 0 || self.rng.below(100) >= percent
    }

    #[inline]
    fn draw(&mut self, direction: usize, length: u64, room: u64) -> u64 {
        let align = self.pattern.align[direction];
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
        self.samplers[direction].draw(&mut self.rng).min(places - 1) * align
    }

    #[inline]
    fn step(&mut self, position: usize, length: u64, room: u64) -> u64 {
        let (step, down) = match self.pattern.traversal {
            Traversal::Gap { by } => return self.leap(position, length, room, by),
            Traversal::Up { step } => (step, false),
            Traversal::Down { step } => (step, true),
            Traversal::Random => (0, false),
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

    /// Whether a pass with gaps reached the region's end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.pattern.traversal, Traversal::Gap { by } if by > 0) && self.at.iter().any(|&at| at >= self.room())
    }

    #[cold]
    fn wrap(&mut self, position: usize, length: u64, step: u64, room: u64) {
        self.pass += 1;
        let phases = if step == 0 { 1 } else { (step / length).max(1) };
        self.at[position] = (self.pass % phases * length).min(room - length);
    }

    #[inline]
    fn length(&mut self, table: usize) -> u64 {
        let lengths = &self.pattern.lengths[table];
        if let [(_, only)] = lengths[..] {
            return only;
        }
        if self.pattern.unaligned {
            let least = lengths.iter().map(|&(_, bytes)| bytes).min().unwrap_or(1);
            let most = lengths.iter().map(|&(_, bytes)| bytes).max().unwrap_or(1);
            return least + self.rng.below(most - least + 1);
        }
        let draw = self.rng.share();
        let found = lengths.iter().find(|&&(below, _)| draw <= below).or(lengths.last());
        found.map_or(1, |&(_, bytes)| bytes)
    }
}

#[cfg(test)]
mod tests;
