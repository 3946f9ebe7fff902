//! Memory for a team: whether it fits, why it was refused, and which pages it got.

use std::io;

use crate::contract::kernel::Error;
use crate::contract::reading::Reading;
use crate::survey::platform::available_bytes;
use crate::sys::pages::Pages;

/// Refuses to take more than nine tenths of what is free, since swapping is not measuring memory.
///
/// # Errors
/// Usage, with both figures, and this process's limit.
pub fn fits(bytes: u64, remedy: &str) -> Result<(), Error> {
    match available_bytes() {
        Some(free) if bytes > free / 10 * 9 => {
            let says = format!("{} MiB are needed in total, but {} MiB are free: {remedy}", bytes >> 20, free >> 20);
            Err(Error::Usage(says).with_memory_limit())
        }
        _ => Ok(()),
    }
}

/// What mends a working set that does not fit.
pub const SMALLER: &str = "use a smaller working set or fewer threads";

/// Why memory was refused, and the remedy.
#[must_use]
pub fn refused(pages: Pages, bytes: u64, error: &io::Error) -> Error {
    let remedy = match pages {
        Pages::Huge1G => {
            " (1 GiB pages must be reserved: write a number to \
            /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages, or use pages = 2m)"
        }
        _ => "",
    };
    Error::machine(format!("map {} KiB of memory{remedy}", bytes >> 10), error)
}

/// Writes into the reading which pages the memory got.
pub fn paged(reading: &mut Reading, pages: Pages, bytes_each: u64, huge: impl Iterator<Item = Option<u64>>) {
    let Some(huge) = huge.collect::<Option<Vec<_>>>() else { return };
    let (huge_bytes, bytes) = (huge.iter().sum::<u64>(), bytes_each * huge.len() as u64);
    reading.detail("huge_page_bytes", huge_bytes);
    if pages != Pages::Base && huge_bytes < bytes / 10 * 9 {
        reading.note(
            "huge_pages_refused",
            format!("only {} of {} MiB are on huge pages; the rest is on base pages", huge_bytes >> 20, bytes >> 20),
        );
    }
}
