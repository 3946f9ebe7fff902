//! What one thread measures while it runs: histograms, progress over time, faults; all in fixed memory.

use crate::timing::histogram::Histogram;

/// Rows of progress that are kept; when they are full, neighbours are added up and intervals double.
const ROWS: usize = 4096;
/// Kinds of fault that are distinguished.
const KINDS: usize = 16;

/// One direction's figures.
#[derive(Debug, Clone, Default)]
pub struct Direction {
    /// Time between a slot's becoming free and the return of the call that submitted the operation; empty where an
    /// operation is complete when that call returns.
    pub submit: Histogram,
    /// Time between that and the operation's completion being taken.
    pub complete: Histogram,
    /// Both together.
    pub total: Histogram,
    /// Operations complete in each interval.
    pub progress: Vec<u64>,
    /// Bytes moved, where operations are not all of one length; see [`Metrics::count_bytes`].
    pub bytes: u64,
    /// Bytes moved in each interval, likewise; empty where they follow from the operations.
    pub bytes_progress: Vec<u64>,
    /// Sums of latency in each interval, ns: in submission, until completion, in all; empty unless requested.
    pub latency_progress: [Vec<u64>; 3],
    latency_before: [u64; 3],
    now: u64,
    bytes_now: u64,
}

/// One kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultCount {
    /// The operation wrote.
    pub write: bool,
    /// The system's number; 0 for a transfer cut short.
    pub errno: i32,
    /// How many times.
    pub count: u64,
}

/// What one thread measures while it runs.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Reads, then writes.
    pub directions: [Direction; 2],
    /// Faults by kind.
    pub faults: Vec<FaultCount>,
    /// Length of an interval, ns: the one requested, doubled each time the rows were full.
    pub interval_ns: u64,
    /// When the timed region began and ended, by the run's clock.
    pub began_ns: u64,
    /// The end of the timed region, likewise.
    pub ended_ns: u64,
    carried_in_ns: u64,
    carried_out_ns: u64,
    row_ends_ns: u64,
    row: usize,
    /// The interval that was requested, before rows ran out.
    requested_interval_ns: u64,
}

impl Metrics {
    /// An empty one; allocates all that it will ever need.
    #[must_use]
    pub fn new(interval_ns: u64) -> Self {
        let direction = || Direction { progress: vec![0; ROWS], ..Direction::default() };
        Self {
            directions: [direction(), direction()],
            faults: Vec::with_capacity(KINDS),
            interval_ns: interval_ns.max(1),
            began_ns: 0,
            ended_ns: 0,
            carried_in_ns: 0,
            carried_out_ns: 0,
            row_ends_ns: u64::MAX,
            row: 0,
            requested_interval_ns: interval_ns.max(1),
        }
    }

    /// Counts bytes too, because operations differ in length. Allocates.
    pub fn count_bytes(&mut self) {
        for direction in &mut self.directions {
            direction.bytes_progress = vec![0; ROWS];
        }
    }

    /// Sums latencies by interval too, for logs. Allocates.
    pub fn sum_latencies(&mut self) {
        for direction in &mut self.directions {
            direction.latency_progress = std::array::from_fn(|_| vec![0; ROWS]);
        }
    }

    /// Counts bytes that moved.
    #[inline]
    pub fn moved(&mut self, write: bool, bytes: u64) {
        let direction = &mut self.directions[usize::from(write)];
        direction.bytes += bytes;
        direction.bytes_now += bytes;
    }

    /// Begins the timed region: forgets what came before.
    pub fn begin(&mut self, now_ns: u64) {
        for direction in &mut self.directions {
            direction.submit.clear();
            direction.complete.clear();
            direction.total.clear();
            direction.now = 0;
            direction.bytes = 0;
            direction.bytes_now = 0;
            direction.latency_before = [0; 3];
            for rows in [&mut direction.progress, &mut direction.bytes_progress] {
                rows.iter_mut().take(self.row + 1).for_each(|row| *row = 0);
            }
            for rows in &mut direction.latency_progress {
                rows.iter_mut().take(self.row + 1).for_each(|row| *row = 0);
            }
        }
        self.row = 0;
        self.interval_ns = self.requested_interval_ns;
        self.faults.clear();
        self.carried_in_ns = 0;
        self.began_ns = now_ns;
        self.row_ends_ns = now_ns + self.interval_ns;
    }

    /// Tells how long operations have been in flight that were so when the timed region began, added up, ns.
    pub fn carries_in(&mut self, ns: u64) {
        self.carried_in_ns = ns;
    }

    /// Tells how long operations have been in flight that are so as the timed region ends, added up, ns.
    pub fn carries_out(&mut self, ns: u64) {
        self.carried_out_ns = ns;
    }

    /// Time in flight within the timed region, added up over all operations, whether they began or ended in it or
    /// not, ns. Over the region's length it is the mean number in flight, exactly.
    #[must_use]
    pub fn in_flight_ns(&self) -> u64 {
        let complete: u64 = self.directions.iter().map(|direction| direction.total.sum()).sum();
        (complete + self.carried_out_ns).saturating_sub(self.carried_in_ns)
    }

    /// Counts how long the submission of a group of operations took.
    #[inline]
    pub fn submitted(&mut self, write: bool, took_ns: u64, operations: u32) {
        self.directions[usize::from(write)].submit.record_many(took_ns, operations);
    }

    /// Counts operations that were submitted together and completed together.
    #[inline]
    pub fn completed(&mut self, write: bool, complete_ns: u64, total_ns: u64, operations: u32) {
        let direction = &mut self.directions[usize::from(write)];
        direction.complete.record_many(complete_ns, operations);
        direction.total.record_many(total_ns, operations);
        direction.now += u64::from(operations);
    }

    /// Closes rows that ended before `now_ns`; the operations since the last call belong to the row of
    /// `now_ns`, when they were seen to be complete.
    #[inline]
    pub fn tick(&mut self, now_ns: u64) {
        if now_ns >= self.row_ends_ns {
            self.advance(now_ns);
        }
    }

    #[cold]
    fn advance(&mut self, now_ns: u64) {
        for direction in &mut self.directions {
            direction.close(self.row);
        }
        while now_ns >= self.row_ends_ns {
            self.row += 1;
            if self.row == ROWS {
                for direction in &mut self.directions {
                    halve(&mut direction.progress);
                    halve(&mut direction.bytes_progress);
                    direction.latency_progress.iter_mut().for_each(|rows| halve(rows));
                }
                self.row = ROWS / 2;
                self.interval_ns *= 2;
            }
            self.row_ends_ns = self.began_ns + (self.row as u64 + 1) * self.interval_ns;
        }
    }

    /// Counts a fault.
    #[cold]
    pub fn fault(&mut self, write: bool, errno: i32) {
        if let Some(known) = self.faults.iter_mut().find(|fault| fault.write == write && fault.errno == errno) {
            known.count += 1;
        } else if self.faults.len() < KINDS {
            self.faults.push(FaultCount { write, errno, count: 1 });
        }
    }

    /// Ends the timed region. The row that it ends in is dropped if it is cut short, unless it is the only one.
    pub fn end(&mut self, now_ns: u64) {
        self.ended_ns = now_ns.max(self.began_ns);
        self.tick(now_ns);
        for direction in &mut self.directions {
            direction.close(self.row);
            direction.progress.truncate(self.row.max(1));
            direction.bytes_progress.truncate(self.row.max(1));
            direction.latency_progress.iter_mut().for_each(|rows| rows.truncate(self.row.max(1)));
        }
    }

    /// Adds another job's record to this one; both have ended.
    pub fn merge(&mut self, mut other: Self) {
        while self.interval_ns != other.interval_ns {
            let finer = if self.interval_ns < other.interval_ns { &mut *self } else { &mut other };
            finer.interval_ns *= 2;
            for direction in &mut finer.directions {
                for rows in [&mut direction.progress, &mut direction.bytes_progress] {
                    let half = (rows.len() / 2).max(1);
                    halve(rows);
                    rows.truncate(half);
                }
            }
        }
        for (mine, theirs) in self.directions.iter_mut().zip(&other.directions) {
            mine.submit.merge(&theirs.submit);
            mine.complete.merge(&theirs.complete);
            mine.total.merge(&theirs.total);
            // Rows that not all jobs lived through would look like a drop.
            mine.progress.truncate(theirs.progress.len());
            mine.progress.iter_mut().zip(&theirs.progress).for_each(|(mine, theirs)| *mine += theirs);
            mine.bytes += theirs.bytes;
            mine.bytes_progress.truncate(theirs.bytes_progress.len());
            mine.bytes_progress.iter_mut().zip(&theirs.bytes_progress).for_each(|(mine, theirs)| *mine += theirs);
        }
        for fault in other.faults {
            match self.faults.iter_mut().find(|mine| (mine.write, mine.errno) == (fault.write, fault.errno)) {
                Some(mine) => mine.count += fault.count,
                None => self.faults.push(fault),
            }
        }
        self.carried_in_ns += other.carried_in_ns;
        self.carried_out_ns += other.carried_out_ns;
        self.began_ns = self.began_ns.min(other.began_ns);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
    }
}

impl Direction {
    /// Operations and bytes so far; `block` where all are of that length.
    #[must_use]
    pub fn done(&self, block: u64) -> (u64, u64) {
        let operations = self.total.count();
        (operations, if self.bytes_progress.is_empty() { operations * block } else { self.bytes })
    }

    fn close(&mut self, row: usize) {
        self.progress[row] += std::mem::take(&mut self.now);
        if let Some(bytes) = self.bytes_progress.get_mut(row) {
            *bytes += std::mem::take(&mut self.bytes_now);
        }
        if !self.latency_progress[0].is_empty() {
            let sums = [&self.submit, &self.complete, &self.total].map(Histogram::sum);
            for ((rows, sum), before) in self.latency_progress.iter_mut().zip(sums).zip(&mut self.latency_before) {
                if let Some(place) = rows.get_mut(row) {
                    *place += sum.wrapping_sub(std::mem::replace(before, sum));
                }
            }
        }
    }
}

/// Adds up neighbours into the lower half, and empties the upper one.
fn halve(rows: &mut [u64]) {
    let half = rows.len() / 2;
    for row in 0..half {
        rows[row] = rows[2 * row] + rows[2 * row + 1];
    }
    rows[half..].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_adds_up_however_long_it_runs() {
        let mut metrics = Metrics::new(10);
        metrics.begin(1000);
        for step in 1..=100_000_u64 {
            metrics.completed(step % 4 == 0, 5, 7, 2);
            metrics.tick(1000 + step * 5);
        }
        metrics.end(1000 + 500_000);
        assert_eq!(metrics.interval_ns, 160);
        let reads: u64 = metrics.directions[0].progress.iter().sum();
        let writes: u64 = metrics.directions[1].progress.iter().sum();
        assert_eq!((metrics.directions[0].total.count(), metrics.directions[1].total.count()), (150_000, 50_000));
        // Only what was complete in the last, cut interval may be missing.
        assert!(200_000 - (reads + writes) < 70, "{reads} + {writes}");
        let rows = &metrics.directions[0].progress;
        assert!(rows[1..rows.len() - 1].iter().all(|&row| (46..=50).contains(&row)), "{rows:?}");
    }

    #[test]
    fn a_day_of_intervals_takes_no_more_room_than_a_minute() {
        let second = 1_000_000_000;
        let room = |metrics: &Metrics| {
            let rows = |one: &Direction| {
                let sums: usize = one.latency_progress.iter().map(Vec::capacity).sum();
                sums + one.progress.capacity() + one.bytes_progress.capacity()
            };
            metrics.directions.iter().map(rows).sum::<usize>() + metrics.faults.capacity()
        };
        let mut metrics = Metrics::new(second / 10);
        metrics.count_bytes();
        metrics.sum_latencies();
        let before = room(&metrics);
        metrics.begin(0);
        for interval in 1..=24 * 3600 * 10_u64 {
            metrics.completed(interval % 2 == 0, 1000, 1500, 1);
            metrics.moved(interval % 2 == 0, 4096);
            metrics.fault(interval % 2 == 0, (interval % 8) as i32);
            metrics.tick(interval * second / 10);
        }
        metrics.end(24 * 3600 * second);
        assert_eq!(room(&metrics), before);
        // 864 000 intervals of 0.1 s, folded eight times into rows of 25.6 s.
        assert_eq!((metrics.interval_ns, metrics.directions[0].progress.len()), (256 * second / 10, 3375));
        for one in &metrics.directions {
            assert_eq!((one.progress.iter().sum::<u64>(), one.bytes), (432_000, 432_000 * 4096));
            assert_eq!((one.bytes_progress.iter().sum::<u64>(), one.total.count()), (432_000 * 4096, 432_000));
            assert_eq!(one.latency_progress[2].iter().sum::<u64>(), 432_000 * 1500);
        }
        assert_eq!(metrics.faults.iter().map(|fault| fault.count).sum::<u64>(), 864_000);
    }

    #[test]
    fn merging_folds_the_finer_intervals() {
        let (mut short, mut long) = (Metrics::new(10), Metrics::new(10));
        for metrics in [&mut short, &mut long] {
            metrics.begin(0);
        }
        for step in 1..=40_u64 {
            short.completed(false, 1, 1, 1);
            short.tick(step * 10);
        }
        short.end(400);
        for step in 1..=50_000_u64 {
            long.completed(false, 1, 1, 1);
            long.tick(step * 10);
        }
        long.end(500_000);
        let interval = long.interval_ns;
        short.merge(long);
        assert_eq!(short.interval_ns, interval);
        assert_eq!(short.directions[0].total.count(), 50_040);
        assert_eq!(short.ended_ns, 500_000);
    }

    #[test]
    fn faults_are_counted_by_kind() {
        let mut metrics = Metrics::new(10);
        metrics.begin(0);
        metrics.fault(false, 5);
        metrics.fault(false, 5);
        metrics.fault(true, 28);
        let counts: Vec<_> = metrics.faults.iter().map(|fault| (fault.write, fault.errno, fault.count)).collect();
        assert_eq!(counts, [(false, 5, 2), (true, 28, 1)]);
    }
}
