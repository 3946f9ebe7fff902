//! Which of a job's files comes next: round robin, at random, or one after the other, within a window of open files.

use crate::timing::rng::Rng;

use super::blocks::Order;
use super::distribution::{Distribution, Sampler};
use super::pattern::PatternOrder;

/// How the next file is chosen; fio's `file_service_type`.
#[derive(Debug, Clone, PartialEq)]
pub enum FileService {
    /// Each in turn.
    RoundRobin,
    /// One after the other, each to its end.
    Sequential,
    /// Random files by a distribution.
    Random(Distribution),
}

impl FileService {
    /// Reads `roundrobin`, `sequential`, `random`, `zipf:1.2`, `pareto:0.2` or `normal:20`, and behind a last
    /// colon how many operations a file gets before the next is chosen.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<(Self, u32), String> {
        let wrong = || {
            format!(
                "file_service_type {text}: use roundrobin, sequential, random, zipf:N, pareto:N or normal:N, \
                followed by :COUNT"
            )
        };
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or("");
        let has_distribution = matches!(name, "zipf" | "pareto" | "normal" | "gauss");
        let value = if has_distribution { parts.next() } else { None };
        let count = parts.next().map_or(Ok(1), str::parse::<u32>).ok().filter(|&count| count > 0).ok_or_else(wrong)?;
        if parts.next().is_some() {
            return Err(wrong());
        }
        let service = match name {
            "roundrobin" | "" => Self::RoundRobin,
            "sequential" => Self::Sequential,
            "random" => Self::Random(Distribution::Even),
            _ if has_distribution => {
                Self::Random(Distribution::parse(&value.map_or(name.into(), |v| format!("{name}:{v}")))?)
            }
            _ => return Err(wrong()),
        };
        Ok((service, count))
    }
}

/// One file's own course.
#[derive(Debug)]
struct FileOrder {
    order: Order,
    pattern: Option<PatternOrder>,
    /// Bytes left of this file's pass, where `pattern` itself never ends.
    left: u64,
}

/// The files of one job.
#[derive(Debug)]
pub struct FileSelector {
    orders: Vec<FileOrder>,
    bytes: u64,
    service: FileService,
    /// This many operations before the next file is chosen.
    count: u32,
    since: u32,
    /// The numbers of the files that are in use now.
    window: Vec<usize>,
    open: usize,
    next: usize,
    at: usize,
    endless: bool,
    files: Sampler,
    rng: Rng,
}

impl FileSelector {
    /// `orders` are each file's order and, where that is no plain one, its pattern; `bytes` is a file's region.
    /// Of the files, `open` are in use at a time; 0 for all.
    #[must_use]
    pub fn new(
        orders: Vec<(Order, Option<PatternOrder>)>,
        bytes: u64,
        (service, count): (FileService, u32),
        open: usize,
        endless: bool,
        seed: u64,
    ) -> Self {
        let all = orders.len().max(1);
        let distribution =
            if let FileService::Random(distribution) = &service { distribution.clone() } else { Distribution::Even };
        let orders: Vec<_> =
            orders.into_iter().map(|(order, pattern)| FileOrder { order, pattern, left: bytes }).collect();
        let open = if open == 0 { all } else { open.min(all) };
        let mut selector = Self {
            orders,
            bytes,
            service,
            count,
            since: 0,
            window: Vec::with_capacity(open),
            open,
            next: 0,
            at: 0,
            endless,
            files: Sampler::new(&distribution, open as u64, seed ^ 0xF11E),
            rng: Rng::new(seed ^ 0xF11F),
        };
        selector.restart();
        selector
    }

    /// Begins anew.
    pub fn restart(&mut self) {
        for file in &mut self.orders {
            file.order.restart();
            file.left = self.bytes;
            if let Some(pattern) = &mut file.pattern {
                pattern.restart();
            }
        }
        self.window.clear();
        self.window.extend(0..self.open.min(self.orders.len()));
        (self.next, self.at, self.since) = (self.window.len(), 0, 0);
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !self.endless && self.window.is_empty()
    }

    /// The next operation: offset in the region of all files, whether it writes (`direction`, or as its order has it),
    /// length. None at the end.
    pub fn next_operation(&mut self, block: u64, direction: Option<bool>) -> Option<(u64, bool, u64)> {
        loop {
            if self.window.is_empty() {
                if !self.endless {
                    return None;
                }
                self.restart();
            }
            let place = self.turn();
            let number = self.window[place];
            let file = &mut self.orders[number];
            let drawn = match &mut file.pattern {
                Some(_) if file.left == 0 => None,
                Some(pattern) => {
                    let write = direction.unwrap_or_else(|| file.order.next_direction());
                    let (offset, length) = pattern.next_access(write);
                    file.left = file.left.saturating_sub(length);
                    Some((offset, write, length))
                }
                None => file.order.next_operation().map(|(offset, write)| (offset, direction.unwrap_or(write), block)),
            };
            if let Some(drawn) = drawn {
                self.since += 1;
                return Some(drawn);
            }
            self.done(place);
        }
    }

    /// The place in the window of the file whose turn it is.
    #[inline]
    fn turn(&mut self) -> usize {
        if self.since >= self.count && self.service != FileService::Sequential {
            self.since = 0;
            self.at = match self.service {
                FileService::RoundRobin => self.at + 1,
                _ => self.files.draw(&mut self.rng) as usize,
            };
        }
        if self.at >= self.window.len() {
            // Of a spread over more files than are left, the rest fall evenly on those that are.
            self.at = match self.service {
                FileService::Random(_) => self.rng.below(self.window.len() as u64) as usize,
                _ => 0,
            };
        }
        self.at
    }

    /// Replaces a file that is complete by the next.
    #[cold]
    fn done(&mut self, place: usize) {
        self.since = 0;
        if self.next < self.orders.len() {
            self.window[place] = self.next;
            self.next += 1;
        } else {
            self.window.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::Span;
    use super::*;

    fn accesses(service: &str, files: u64, blocks: u64, open: usize, take: usize) -> Vec<u64> {
        let orders = (0..files)
            .map(|n| (Order::new(Span { offset: n * blocks * 512, blocks, block: 512 }, false, 100, false, n), None))
            .collect();
        let mut selector =
            FileSelector::new(orders, blocks * 512, FileService::parse(service).unwrap(), open, false, 3);
        std::iter::from_fn(|| selector.next_operation(512, None)).take(take).map(|(at, _, _)| at / 512).collect()
    }

    #[test]
    fn every_service_visits_every_block_of_every_file_once() {
        for service in ["roundrobin", "sequential", "random", "roundrobin:3", "random:4", "zipf:1.2", "normal:20:2"] {
            for open in [0, 1, 2, 5] {
                let mut seen = accesses(service, 5, 7, open, 1000);
                seen.sort_unstable();
                assert_eq!(seen, (0..35).collect::<Vec<_>>(), "{service} with {open} open");
            }
        }
    }

    #[test]
    fn files_come_as_the_service_says() {
        assert_eq!(accesses("roundrobin", 3, 4, 0, 5), [0, 4, 8, 1, 5]);
        assert_eq!(accesses("roundrobin:2", 3, 4, 0, 5), [0, 1, 4, 5, 8]);
        assert_eq!(accesses("sequential", 3, 4, 0, 6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(accesses("roundrobin", 3, 2, 2, 6), [0, 2, 1, 3, 4, 5]);
        assert!(FileService::parse("random:0").is_err() && FileService::parse("tea").is_err());
    }
}
