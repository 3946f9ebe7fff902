//! What shows that the keys below a prefix are a run's: a mark, an object that names the prefix and the process.
//!
//! Keys are written and removed only below a prefix with such a mark, so no object of a user's is ever touched.

use crate::contract::kernel::Error;
use crate::object::control::Control;

/// How the folder of a run begins.
pub const FOLDER: &str = "hwdyno-";
/// Hexadecimal digits behind it.
const DIGITS: usize = 16;
/// The key of the mark in it.
const NAME: &str = ".hwdyno";
const FIRST_LINE: &str = "an object run of hwdyno";
/// A run of another machine, or before this machine's start, is over after this time, s.
const OLD_S: u64 = 24 * 3600;

/// Whether a prefix ends with the folder of a run.
#[must_use]
pub fn is_folder(prefix: &str) -> bool {
    let Some(folder) = prefix.strip_suffix('/') else { return false };
    let name = folder.rsplit('/').next().unwrap_or_default();
    name.strip_prefix(FOLDER).is_some_and(|id| id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Marks the folder of a run as this process's.
///
/// # Errors
/// Usage: the prefix is no run's. Machine: something is there already, or the store refuses.
pub fn make(control: &mut Control, prefix: &str) -> Result<(), Error> {
    check_name(prefix)?;
    if !control.list(prefix, "", "")?.keys.is_empty() {
        return Err(Error::Machine(format!("there are objects below {prefix} already; nothing was written"), None));
    }
    let (machine, pid) = (boot(), std::process::id());
    let started = process_start(pid).unwrap_or_default();
    let text =
        format!("{FIRST_LINE}\nprefix {prefix}\nboot {machine}\npid {pid}\nprocess {started}\nsecond {}\n", now_s());
    control.put(&format!("{prefix}{NAME}"), text.as_bytes())
}

/// Refuses a prefix that has no mark of a run for exactly this prefix.
///
/// # Errors
/// Usage: the prefix is no run's. Machine: it has no mark, or a mark of another prefix.
pub fn check(control: &mut Control, prefix: &str) -> Result<(), Error> {
    check_name(prefix)?;
    read(control, prefix)?.map(drop).ok_or_else(|| {
        Error::Machine(format!("{prefix} has no mark of a hwdyno run; nothing below it was written or removed"), None)
    })
}

/// Removes the mark, after all other objects.
pub fn remove(control: &mut Control, prefix: &str) -> Result<(), Error> {
    control.remove(&format!("{prefix}{NAME}"))
}

/// Whether a key is that of the mark below a prefix.
#[must_use]
pub fn is_mark(prefix: &str, key: &str) -> bool {
    key.strip_prefix(prefix) == Some(NAME)
}

fn check_name(prefix: &str) -> Result<(), Error> {
    if is_folder(prefix) {
        return Ok(());
    }
    Err(Error::usage(format!("prefix = {prefix}: objects are written and removed only below {FOLDER}… of a run")))
}

/// Whose a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A process that is gone.
    Gone,
    /// This process: a run may have several folders.
    This,
    /// One that may still measure, or another machine's.
    Other,
}

/// Finds whose a folder is.
///
/// # Errors
/// Machine: the store refuses.
pub fn find_owner(control: &mut Control, prefix: &str) -> Result<Owner, Error> {
    let mark = read(control, prefix)?;
    Ok(mark.map_or(Owner::Other, |mark| mark.owner(&boot(), process_start(mark.pid).as_deref(), now_s())))
}

fn read(control: &mut Control, prefix: &str) -> Result<Option<Mark>, Error> {
    let text = control.get(&format!("{prefix}{NAME}"))?;
    Ok(text.and_then(|text| Mark::read(&text)).filter(|mark| mark.prefix == prefix))
}

/// What a mark says.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    prefix: String,
    boot: String,
    pid: u32,
    process: String,
    second: u64,
}

impl Mark {
    fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        Some(Self {
            prefix: value("prefix")?.into(),
            boot: value("boot")?.into(),
            pid: value("pid")?.parse().ok()?,
            process: value("process")?.into(),
            second: value("second")?.parse().ok()?,
        })
    }

    /// Whose its folder is, given this machine's boot and the start of the process that has its number now.
    fn owner(&self, boot: &str, process: Option<&str>, now_s: u64) -> Owner {
        if self.is_over(boot, process, now_s) {
            Owner::Gone
        } else if self.pid == std::process::id() && self.boot == boot && !boot.is_empty() {
            Owner::This
        } else {
            Owner::Other
        }
    }

    /// Whether its process is gone, given this machine's boot and the start of the process that has its number now.
    fn is_over(&self, boot: &str, process: Option<&str>, now_s: u64) -> bool {
        if !boot.is_empty() && self.boot == boot {
            return process != Some(self.process.as_str());
        }
        now_s > self.second.saturating_add(OLD_S)
    }
}

/// The system's name of this start of the machine; empty where it gives none.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

/// When a process started, in the system's ticks (`proc_pid_stat(5)`, field 22); none where there is no such process.
fn process_start(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19).map(String::from)
}

fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folder_of_a_run_is_one() {
        for prefix in ["hwdyno-0123456789abcdef/", "a/b/hwdyno-0123456789abcdef/"] {
            assert!(is_folder(prefix), "{prefix}");
        }
        for prefix in [
            "",
            "/",
            "data/",
            "hwdyno-/",
            "hwdyno-0123456789abcdeX/",
            "hwdyno-0123456789abcdef",
            "x-hwdyno-0123456789abcdef/",
        ] {
            assert!(!is_folder(prefix) && check_name(prefix).is_err(), "{prefix}");
        }
    }

    #[test]
    fn a_run_is_over_when_its_process_is_gone() {
        let text = format!("{FIRST_LINE}\nprefix p/\nboot b\npid 7\nprocess 99\nsecond 1000\n");
        let mark = Mark::read(text.as_bytes()).unwrap();
        assert!(!mark.is_over("b", Some("99"), 1 << 40), "it still runs");
        assert!(mark.is_over("b", Some("100"), 1000), "another process has its number");
        assert!(mark.is_over("b", None, 1000));
        assert!(!mark.is_over("c", None, 1000 + OLD_S), "another machine's is left for a day");
        assert!(mark.is_over("c", None, 1001 + OLD_S));
        assert!(!mark.is_over("", None, 1000));
        for wrong in ["", "x", &text.replace("pid 7", "pid x"), &text.replace("second 1000\n", "")] {
            assert_eq!(Mark::read(wrong.as_bytes()), None);
        }
        let this = std::process::id();
        assert!(process_start(this).is_some_and(|ticks| ticks.parse::<u64>().is_ok()));
    }

    #[test]
    fn a_folder_of_this_process_is_neither_gone_nor_anothers() {
        let mark = |pid: u32| Mark { prefix: "p/".into(), boot: "b".into(), pid, process: "99".into(), second: 1000 };
        let this = std::process::id();
        assert_eq!(mark(this).owner("b", Some("99"), 1000), Owner::This);
        assert_eq!(mark(this + 1).owner("b", Some("99"), 1000), Owner::Other);
        assert_eq!(mark(this).owner("b", Some("98"), 1000), Owner::Gone, "an earlier process had its number");
        assert_eq!(mark(this).owner("c", Some("99"), 1000), Owner::Other, "another machine's has the same number");
        assert_eq!(mark(this).owner("", Some("99"), 1000), Owner::Other);
    }
}
