//! What the options of a job may not be together, and what polling needs.

use super::JobOptions;
use crate::contract::kernel::Error;
use crate::safe_files::output;
use crate::storage::integrity::verify::MIN_BLOCK;
use crate::storage::order::distribution::Distribution;
use crate::storage::order::pattern::Traversal;
use crate::storage::results::counters::Device;

impl JobOptions {
    /// What cannot be together.
    ///
    /// # Errors
    /// Which, and the remedy.
    pub fn check(&self, random: bool, shared: bool, block: u64) -> Result<(), Error> {
        if let Some(path) = &self.trace {
            output::check(path, self.overwrite)?;
        }
        if self.verify && self.variable_length() {
            return Err(Error::usage("verify needs blocks of one size: remove bssplit"));
        }
        let gap = if let Traversal::Gap { by } = self.pattern.traversal { by.unsigned_abs() } else { 0 };
        if self.verify && (self.stride % block != 0 || gap % block != 0) {
            return Err(Error::usage("verify needs whole blocks: use a stride that is a multiple of bs"));
        }
        if self.verify && block < MIN_BLOCK {
            return Err(Error::usage(format!(
                "verify needs blocks of {MIN_BLOCK} B or more, the size of their header"
            )));
        }
        if self.verify && shared {
            return Err(Error::usage("verify needs separate blocks for each job: use share=partition, or numjobs 1"));
        }
        if self.keeps_journal() && !self.verify {
            return Err(Error::usage("a journal needs verified blocks: add verify crc32c"));
        }
        if self.verify && (self.trims || self.replay.is_some() || !self.content.is_unique()) {
            return Err(Error::usage(
                "verify needs blocks that are written and stay: remove trims, read_iolog and zero_buffers",
            ));
        }
        if self.pattern.zone.is_some_and(|zone| zone.range < self.longest(block)) {
            return Err(Error::usage(
                "a zone must hold the largest operation: use a larger zonerange, or a smaller bs",
            ));
        }
        if !random && self.pattern.distribution != Distribution::Even {
            return Err(Error::usage("random_distribution needs a random order: use rw randread, randwrite or randrw"));
        }
        if random && (self.stride > 0 || self.backward || self.pattern.traversal != Traversal::Random) {
            return Err(Error::usage("pattern and stride need sequential order: use rw read, write or rw"));
        }
        Ok(())
    }

    /// Polling needs a queue that is made for it, or it spins for ever.
    ///
    /// # Errors
    /// What is missing, and the remedy.
    pub fn check_polling(&self, uring: bool, direct: bool, device: Option<&Device>) -> Result<(), Error> {
        if !self.hipri {
            return Ok(());
        }
        let missing = match (uring, direct, device.is_some_and(Device::polls)) {
            (false, _, _) => "ioengine io_uring",
            (_, false, _) => "direct, on a filesystem that allows it",
            (_, _, false) => {
                "a device with polling queues (queue/io_poll is 1; for NVMe load the driver with poll_queues=N)"
            }
            _ => return Ok(()),
        };
        Err(Error::usage(format!("hipri needs {missing}: fix that, or remove hipri")))
    }
}
