//! A machine's `/proc` and `/sys` in one text file, by folders.
//!
//! A line that starts with `/` opens an entry, and the lines below it that are indented by one tab are its content:
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
//! `{a-b}` in a path repeats the entry for each number from a to b, which replaces `{n}`, `{n+k}` and `{n-k}` in its
//! content.

#[cfg(test)]
use std::cell::Cell;
use std::collections::BTreeMap;

/// The kernel's own limit on links in one path.
pub const MAX_LINKS: usize = 40;
/// The kernel's own limit on a path (`PATH_MAX`).
pub const LONGEST_PATH: usize = 4096;
/// No folder is deeper: a disk behind seven hubs has about 40 above it.
pub const MAX_LEVELS: usize = 128;
/// A range in a record repeats an entry at most so often.
const MAX_REPEATS: u64 = 4096;
/// Names that all ranges of a record make together, at most, and the bytes of their entries: a short text could ask
/// for more than any memory holds.
const MAX_REPEATED: usize = 1 << 18;
const MAX_REPEATED_BYTES: usize = 16 << 20;

/// What a record holds: a node a name, so that a path costs one look-up a component, however large the record is.
#[derive(Default)]
pub struct Record {
    nodes: Vec<Node>,
    #[cfg(test)]
    looked_up: Cell<u64>,
}

struct Node {
    entry: Entry,
    below: BTreeMap<Box<str>, usize>,
}

/// One entry of a record.
pub enum Entry {
    /// A file's content.
    File(Vec<u8>),
    /// A link's target.
    Link(String),
    /// A directory, whose names are the nodes below it.
    Directory,
}

/// The first node is `/`.
const ROOT: usize = 0;

impl Record {
    /// Reads a record; what is no entry is passed over.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut record = Self::default();
        record.nodes.push(Node { entry: Entry::Directory, below: BTreeMap::new() });
        let mut lines = text.lines().peekable();
        let mut room = Room::default();
        while let Some(line) = lines.next() {
            if !line.starts_with('/') {
                continue;
            }
            if let Some((path, target)) = line.split_once(" -> ") {
                for (path, n) in room.repeated(path, target.len()) {
                    record.add(&path, Entry::Link(filled(target.trim(), n)));
                }
            } else if let Some((path, digits)) = line.split_once(" hex:") {
                record.add(path, Entry::File(from_hex(digits)));
            } else if let Some(path) = line.strip_suffix('/').filter(|path| !path.contains(": ")) {
                for (path, _) in room.repeated(path, 0) {
                    record.add(&path, Entry::Directory);
                }
            } else {
                let (path, mut content) = match line.split_once(": ") {
                    Some((path, content)) => (path, format!("{content}\n")),
                    None => (line.trim_end_matches(':'), String::new()),
                };
                while let Some(more) = lines.next_if(|line| line.starts_with('\t')) {
                    content.push_str(&more[1..]);
                    content.push('\n');
                }
                for (path, n) in room.repeated(path, content.len()) {
                    record.add(&path, Entry::File(filled(&content, n).into_bytes()));
                }
            }
        }
        record
    }

    /// Adds an entry and the directories above it; an existing one is kept.
    fn add(&mut self, path: &str, entry: Entry) {
        let mut at = ROOT;
        let mut is_new = false;
        for name in components(path) {
            let known = self.nodes[at].below.get(name).copied();
            is_new = known.is_none();
            at = known.unwrap_or_else(|| {
                let next = self.nodes.len();
                self.nodes.push(Node { entry: Entry::Directory, below: BTreeMap::new() });
                self.nodes[at].below.insert(name.into(), next);
                next
            });
        }
        if is_new {
            self.nodes[at].entry = entry;
        }
    }

    /// The names from `/` to what a path leads to, links followed, and its node; none if it leads nowhere.
    fn walk(&self, path: &str) -> Option<Vec<(&str, usize)>> {
        if path.len() > LONGEST_PATH {
            return None;
        }
        let mut pending: Vec<&str> = components(path).collect();
        pending.reverse();
        let mut done: Vec<(&str, usize)> = Vec::new();
        let mut links = 0;
        while let Some(name) = pending.pop() {
            if name == ".." {
                done.pop();
                continue;
            }
            #[cfg(test)]
            self.looked_up.set(self.looked_up.get() + 1);
            let above = done.last().map_or(ROOT, |(_, node)| *node);
            let (name, node) = self.nodes[above].below.get_key_value(name)?;
            if let Entry::Link(target) = &self.nodes[*node].entry {
                links += 1;
                if links > MAX_LINKS || target.len() > LONGEST_PATH {
                    return None;
                }
                if target.starts_with('/') {
                    done.clear();
                }
                let from = pending.len();
                pending.extend(components(target));
                pending[from..].reverse();
                continue;
            }
            done.push((name, *node));
            if done.len() > MAX_LEVELS {
                return None;
            }
        }
        Some(done)
    }

    /// The path with every link in it followed; none if it leads nowhere.
    #[must_use]
    pub fn resolve(&self, path: &str) -> Option<String> {
        let names: Vec<&str> = self.walk(path)?.into_iter().map(|(name, _)| name).collect();
        Some(format!("/{}", names.join("/")))
    }

    fn node(&self, path: &str) -> Option<&Node> {
        Some(&self.nodes[self.walk(path)?.last().map_or(ROOT, |(_, node)| *node)])
    }

    /// A file's bytes, links followed.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        match &self.node(path)?.entry {
            Entry::File(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// The names in a directory; none if there is none.
    #[must_use]
    pub fn list(&self, path: &str) -> Vec<String> {
        match self.node(path) {
            Some(Node { entry: Entry::Directory, below }) => below.keys().map(|name| String::from(&**name)).collect(),
            _ => Vec::new(),
        }
    }

    /// How many names were looked up since it was read.
    #[cfg(test)]
    pub fn looked_up(&self) -> u64 {
        self.looked_up.get()
    }

    /// How many names it holds.
    #[cfg(test)]
    pub fn names(&self) -> usize {
        self.nodes.len()
    }
}

/// What the ranges of a record have made so far.
#[derive(Default)]
struct Room {
    names: usize,
    bytes: usize,
}

impl Room {
    /// The paths that a path with `{a-b}` expands to, each with its number, as long as there is room for their content.
    fn repeated(&mut self, path: &str, content_bytes: usize) -> Vec<(String, Option<u64>)> {
        let range = path.split_once('{').and_then(|(head, rest)| {
            let (range, tail) = rest.split_once('}')?;
            let (first, last) = range.split_once('-')?;
            Some((head, first.parse::<u64>().ok()?, last.parse::<u64>().ok()?, tail))
        });
        let Some((head, first, last, tail)) = range else { return vec![(path.to_string(), None)] };
        let each = path.len() + content_bytes;
        let names = components(path).count().max(1);
        let room = ((MAX_REPEATED - self.names) / names).min((MAX_REPEATED_BYTES - self.bytes) / each);
        let numbers = first..=last.min(first.saturating_add(MAX_REPEATS));
        let made: Vec<_> = numbers.take(room).map(|n| (format!("{head}{n}{tail}"), Some(n))).collect();
        self.names += made.len() * names;
        self.bytes += made.len() * each;
        made
    }
}

/// The names in a path, without those that lead nowhere else.
pub fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|component| !component.is_empty() && *component != ".")
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
