//! Where the survey reads `/proc` and `/sys`: this machine, a copied directory, or a record of one in a text file.
//!
//! A record is one readable file. A line that starts with `/` opens an entry, and the lines below it
//! that are indented by one tab are its content:
//!
//! ```text
//! # a remark
//! /proc/loadavg: 0.12 0.08 0.05 1/234 4567
//! /sys/block/sda -> ../devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda
//! /sys/block/sda/device/vpd_pg83 hex: 00 83 00 2c
//! /sys/block/sda/holders/
//! /sys/devices/system/cpu/cpu{0-3}/topology/core_cpus_list: {n},{n+4}
//! /proc/swaps:
//! <tab>Filename Type Size Used Priority
//! ```
//!
//! `{a-b}` in a path repeats the entry for each number from a to b, which `{n}`, `{n+k}` and `{n-k}`
//! stand for in its content.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// No file that the survey reads is longer; what is, is cut here.
const LONGEST_BYTES: u64 = 4 << 20;
/// As the kernel's own limit on links in one path.
const MOST_LINKS: usize = 40;
/// A range in a record repeats an entry at most so often.
const MOST_REPEATS: u64 = 4096;
/// Entries that all ranges of a record make together, at most, and their bytes.
const MOST_REPEATED: usize = 1 << 16;
const MOST_REPEATED_BYTES: usize = 16 << 20;
/// No kernel is built for more processors (its limit on x86 is 8192).
pub const MOST_NUMBERS: usize = 65_536;

/// A place that holds `/proc` and `/sys`. Paths are absolute within it, and links never lead out of it.
pub enum Tree {
    /// This machine (`live`), or a directory that was copied from one.
    Directory {
        /// What stands for `/`.
        root: PathBuf,
        /// Whether it is this machine, so that it may be asked and timed as well.
        live: bool,
    },
    /// A record in memory.
    Record(BTreeMap<String, Entry>),
}

/// One entry of a record.
pub enum Entry {
    /// A file's content.
    File(Vec<u8>),
    /// A link's target.
    Link(String),
    /// The names in a directory.
    Directory(BTreeSet<String>),
}

impl Tree {
    /// Opens `root`: `/` is this machine, a file is a record, anything else a copied directory.
    #[must_use]
    pub fn open(root: &Path) -> Self {
        if root.is_file() {
            let text = fs::read(root).unwrap_or_default();
            return Self::Record(parse(&String::from_utf8_lossy(&text)));
        }
        Self::Directory { root: root.to_path_buf(), live: root == Path::new("/") }
    }

    /// A record given as text.
    #[must_use]
    pub fn of_record(text: &str) -> Self {
        Self::Record(parse(text))
    }

    /// Whether it is this machine.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Directory { live: true, .. })
    }

    /// A file's bytes, links followed.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let path = self.resolve(path)?;
        match self {
            Self::Directory { root, .. } => {
                let path = below(root, &path);
                if !path.is_file() {
                    return None;
                }
                let mut bytes = Vec::new();
                File::open(path).ok()?.take(LONGEST_BYTES).read_to_end(&mut bytes).ok()?;
                Some(bytes)
            }
            Self::Record(entries) => match entries.get(&path)? {
                Entry::File(bytes) => Some(bytes.clone()),
                _ => None,
            },
        }
    }

    /// A file's text without the white space and zero bytes around it; none if it is missing or empty.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_string())
    }

    /// A file's text as a number; none if it is not one.
    #[must_use]
    pub fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The names in a directory, sorted, with numbers in them by value; empty if there is none.
    #[must_use]
    pub fn list(&self, path: &str) -> Vec<String> {
        let Some(path) = self.resolve(path) else { return Vec::new() };
        let mut names: Vec<String> = match self {
            Self::Directory { root, .. } => fs::read_dir(below(root, &path))
                .map(|entries| entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
                .unwrap_or_default(),
            Self::Record(entries) => match entries.get(&path) {
                Some(Entry::Directory(names)) => names.iter().cloned().collect(),
                _ => Vec::new(),
            },
        };
        names.sort_by_key(|name| natural(name));
        names
    }

    /// Whether anything is there.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_some()
    }

    /// The path with every link in it followed; none if it leads nowhere.
    #[must_use]
    pub fn resolve(&self, path: &str) -> Option<String> {
        let mut pending: VecDeque<String> = components(path).map(str::to_string).collect();
        let mut done: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(component) = pending.pop_front() {
            if component == ".." {
                done.pop();
                continue;
            }
            done.push(component);
            let Some(target) = self.link(&joined(&done)) else { continue };
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            done.pop();
            if target.starts_with('/') {
                done.clear();
            }
            for component in components(&target).collect::<Vec<_>>().into_iter().rev() {
                pending.push_front(component.to_string());
            }
        }
        let path = joined(&done);
        let there = match self {
            Self::Directory { root, .. } => fs::symlink_metadata(below(root, &path)).is_ok(),
            Self::Record(entries) => path == "/" || entries.contains_key(&path),
        };
        there.then_some(path)
    }

    /// The last name of where a link leads, such as the driver's.
    #[must_use]
    pub fn leads_to(&self, path: &str) -> Option<String> {
        self.resolve(path).map(|path| base(&path).to_string())
    }

    fn link(&self, path: &str) -> Option<String> {
        match self {
            Self::Directory { root, .. } => {
                fs::read_link(below(root, path)).ok().map(|target| target.to_string_lossy().into_owned())
            }
            Self::Record(entries) => match entries.get(path)? {
                Entry::Link(target) => Some(target.clone()),
                _ => None,
            },
        }
    }
}

/// The last component of a path.
#[must_use]
pub fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The path without its last component; none for `/`.
#[must_use]
pub fn parent(path: &str) -> Option<&str> {
    let (parent, name) = path.rsplit_once('/')?;
    (!name.is_empty() && !parent.is_empty()).then_some(parent)
}

/// Numbers such as `0-3,8,10-11`, as the kernel writes lists of processors; at most 65536 of them.
#[must_use]
pub fn numbers(text: &str) -> Vec<u64> {
    Ranges::of(text).numbers().collect()
}

/// Such a list by its ranges, so that a long one costs no more to compare than a short one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// The numbers of a list, at most 65536 of them: each range is as long as it can be.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut given: Vec<(u64, u64)> = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
            if let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) {
                given.extend((first <= last).then_some((first, last)));
            }
        }
        given.sort_unstable();
        let (mut merged, mut room): (Vec<(u64, u64)>, u64) = (Vec::new(), MOST_NUMBERS as u64);
        for (first, last) in given {
            // What stands already begins no later.
            let known = merged.last().map(|(_, known)| *known);
            let first = known.map_or(first, |known| first.max(known.saturating_add(1)));
            if room == 0 || first > last || known == Some(u64::MAX) {
                continue;
            }
            let last = last.min(first.saturating_add(room - 1));
            room -= last - first + 1;
            match merged.last_mut() {
                Some((_, known)) if *known + 1 == first => *known = last,
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// The numbers in order.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// How many numbers there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }
}

fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|component| !component.is_empty() && *component != ".")
}

fn joined(components: &[String]) -> String {
    format!("/{}", components.join("/"))
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Splits a name into text and numbers, so that `cpu10` comes after `cpu2`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        parts.push((text.to_string(), tail[..end].parse().unwrap_or(u64::MAX)));
        rest = &tail[end..];
    }
    parts
}

fn parse(text: &str) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    let mut lines = text.lines().peekable();
    let mut repeated = Repeated::default();
    while let Some(line) = lines.next() {
        if !line.starts_with('/') {
            continue;
        }
        if let Some((path, target)) = line.split_once(" -> ") {
            for (path, n) in repeated.of(path, target.len()) {
                add(&mut entries, &path, Entry::Link(filled(target.trim(), n)));
            }
        } else if let Some((path, digits)) = line.split_once(" hex:") {
            add(&mut entries, path, Entry::File(from_hex(digits)));
        } else if let Some(path) = line.strip_suffix('/').filter(|path| !path.contains(": ")) {
            for (path, _) in repeated.of(path, 0) {
                add(&mut entries, &path, Entry::Directory(BTreeSet::new()));
            }
        } else {
            let (path, content) = match line.split_once(": ") {
                Some((path, content)) => (path, format!("{content}\n")),
                None => (line.trim_end_matches(':'), String::new()),
            };
            let mut content = content;
            while let Some(more) = lines.next_if(|line| line.starts_with('\t')) {
                content.push_str(&more[1..]);
                content.push('\n');
            }
            for (path, n) in repeated.of(path, content.len()) {
                add(&mut entries, &path, Entry::File(filled(&content, n).into_bytes()));
            }
        }
    }
    entries
}

/// Adds an entry and the directories above it; what stands already is kept, but for an empty directory's names.
fn add(entries: &mut BTreeMap<String, Entry>, path: &str, entry: Entry) {
    let path = joined(&components(path).map(str::to_string).collect::<Vec<_>>());
    entries.entry(path.clone()).or_insert(entry);
    let mut child = path.as_str();
    while let Some(directory) = parent(child) {
        let above = entries.entry(directory.to_string()).or_insert_with(|| Entry::Directory(BTreeSet::new()));
        if let Entry::Directory(names) = above {
            if !names.insert(base(child).to_string()) {
                return; // and so do all above it
            }
        }
        child = directory;
    }
}

/// What the ranges of a record have made so far: a short text could ask for more than any memory holds.
#[derive(Default)]
struct Repeated {
    entries: usize,
    bytes: usize,
}

impl Repeated {
    /// The paths that a path with `{a-b}` stands for, each with its number, as long as there is room for their content.
    fn of(&mut self, path: &str, content_bytes: usize) -> Vec<(String, Option<u64>)> {
        let range = path.split_once('{').and_then(|(head, rest)| {
            let (range, tail) = rest.split_once('}')?;
            let (first, last) = range.split_once('-')?;
            Some((head, first.parse::<u64>().ok()?, last.parse::<u64>().ok()?, tail))
        });
        let Some((head, first, last, tail)) = range else { return vec![(path.to_string(), None)] };
        let each = path.len() + content_bytes;
        let room = (MOST_REPEATED - self.entries).min((MOST_REPEATED_BYTES - self.bytes) / each);
        let numbers = first..=last.min(first.saturating_add(MOST_REPEATS));
        let made: Vec<_> = numbers.take(room).map(|n| (format!("{head}{n}{tail}"), Some(n))).collect();
        self.entries += made.len();
        self.bytes += made.len() * each;
        made
    }
}

/// `content` with `{n}`, `{n+k}` and `{n-k}` replaced.
fn filled(content: &str, n: Option<u64>) -> String {
    let Some(n) = n else { return content.to_string() };
    let mut out = String::new();
    let mut rest = content;
    while let Some((head, tail)) = rest.split_once("{n") {
        out.push_str(head);
        let (sum, after) = tail.split_once('}').unwrap_or((tail, ""));
        let by = |digits: &str| digits.parse::<u64>().unwrap_or(0);
        let value = match sum.split_at_checked(1) {
            Some(("+", digits)) => n.saturating_add(by(digits)),
            Some(("-", digits)) => n.saturating_sub(by(digits)),
            _ => n,
        };
        out.push_str(&value.to_string());
        rest = after;
    }
    out.push_str(rest);
    out
}

fn from_hex(digits: &str) -> Vec<u8> {
    digits.split_whitespace().filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_like_the_tree_it_was_made_from() {
        let tree = Tree::of_record(
            "# remark\n/a/one: 1\n/a/many:\n\tx\ty\n\t\tz\n/link -> a/one\n/abs -> /a\n/up/x -> ../../../a/many\n\
             /bin hex: 00 41 ff\n/empty/\n/group: 0::/\n/cpu{9-11}/id: {n},{n+3},{n-9}\n/loop -> loop\n/c: a: b\n",
        );
        assert_eq!(tree.number::<u8>("/a/one"), Some(1));
        assert_eq!(tree.text("/a/many").as_deref(), Some("x\ty\n\tz"));
        assert_eq!(tree.text("/link").as_deref(), Some("1"));
        assert_eq!(tree.text("/abs/one").as_deref(), Some("1"));
        assert_eq!(tree.resolve("/up/x").as_deref(), Some("/a/many"), "a link cannot climb out of the tree");
        assert_eq!(tree.bytes("/bin"), Some(vec![0, 0x41, 0xff]));
        assert_eq!(tree.list("/a"), ["many", "one"]);
        assert!(tree.exists("/empty") && tree.list("/empty").is_empty());
        assert_eq!(tree.text("/cpu10/id").as_deref(), Some("10,13,1"));
        assert_eq!(tree.text("/group").as_deref(), Some("0::/"));
        assert_eq!(tree.text("/loop"), None);
        assert_eq!(tree.text("/c").as_deref(), Some("a: b"));
        assert_eq!(tree.text("/none"), None);
    }

    #[test]
    fn names_with_numbers_are_in_order_of_value() {
        let tree = Tree::of_record("/d/cpu{0-11}/x: 1\n");
        assert_eq!(tree.list("/d")[9..], ["cpu9", "cpu10", "cpu11"]);
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(numbers("0-2,8, 10-11"), [0, 1, 2, 8, 10, 11]);
        assert!(numbers("nonsense,-,3-x").is_empty());
        assert_eq!(numbers("0-99999999999").len(), 65_536);
        assert_eq!(numbers("5,0-3,2-4,9-8,18446744073709551615,18446744073709551615"), [0, 1, 2, 3, 4, 5, u64::MAX]);
        assert_eq!(Ranges::of("2-3,0-1"), Ranges::of("0,1,2,3"));
        assert_eq!(Ranges::of("7-70000,0-2").count(), 65_536);
        assert_eq!(Ranges::of("").count(), 0);
    }
}
