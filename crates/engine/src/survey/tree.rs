//! Where the survey reads `/proc` and `/sys`: this machine, a copied directory, or a record of one in a text file.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::record::{components, Record, LONGEST_PATH, MAX_LEVELS, MAX_LINKS};

/// No file that the survey reads is longer; what is, is cut here.
const LONGEST_BYTES: u64 = 4 << 20;
/// No kernel is built for more processors (its limit on x86 is 8192).
pub const MAX_NUMBERS: u64 = 65_536;

/// A place that holds `/proc` and `/sys`. Paths are absolute within it, and links never lead out of it.
pub enum Tree {
    /// This machine (`live`), or a directory that was copied from one.
    Directory {
        /// The directory used as `/`.
        root: PathBuf,
        /// Whether it is this machine, so that it may be queried and timed as well.
        live: bool,
    },
    /// A record in memory.
    Record(Record),
}

impl Tree {
    /// Opens `root`: `/` is this machine, a file is a record, anything else a copied directory.
    #[must_use]
    pub fn open(root: &Path) -> Self {
        if root.is_file() {
            let text = fs::read(root).unwrap_or_default();
            return Self::Record(Record::of(&String::from_utf8_lossy(&text)));
        }
        Self::Directory { root: root.to_path_buf(), live: root == Path::new("/") }
    }

    /// A record given as text.
    #[must_use]
    pub fn of_record(text: &str) -> Self {
        Self::Record(Record::of(text))
    }

    /// Whether it is this machine.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Directory { live: true, .. })
    }

    /// A file's bytes, links followed.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let root = match self {
            Self::Directory { root, .. } => root,
            Self::Record(record) => return record.bytes(path),
        };
        let path = below(root, &self.resolve(path)?);
        if !path.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(LONGEST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
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
        let mut names: Vec<String> = match self {
            Self::Directory { root, .. } => self
                .resolve(path)
                .and_then(|path| fs::read_dir(below(root, &path)).ok())
                .map(|entries| entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
                .unwrap_or_default(),
            Self::Record(record) => record.list(path),
        };
        names.sort_by_cached_key(|name| natural(name));
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
        let root = match self {
            Self::Directory { root, .. } => root,
            Self::Record(record) => return record.resolve(path),
        };
        let mut pending: VecDeque<String> = components(path).map(str::to_string).collect();
        let mut done = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                done.pop();
                continue;
            }
            done.push(name);
            let text = done.to_string_lossy();
            if text.len() > LONGEST_PATH || done.components().skip(1).count() > MAX_LEVELS {
                return None;
            }
            let target = match fs::read_link(below(root, &text)) {
                Ok(target) => target.to_string_lossy().into_owned(),
                Err(error) if error.kind() == ErrorKind::NotFound => return None,
                Err(_) => continue,
            };
            links += 1;
            if links > MAX_LINKS {
                return None;
            }
            done.pop();
            if target.starts_with('/') {
                done = PathBuf::from("/");
            }
            for name in components(&target).collect::<Vec<_>>().into_iter().rev() {
                pending.push_front(name.to_string());
            }
        }
        let path = done.to_string_lossy().into_owned();
        fs::symlink_metadata(below(root, &path)).is_ok().then_some(path)
    }

    /// The last name of where a link leads, such as the driver's.
    #[must_use]
    pub fn leads_to(&self, path: &str) -> Option<String> {
        self.resolve(path).map(|path| base(&path).to_string())
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

/// Numbers such as `0-3,8,10-11`, as the kernel writes lists of processors, by their ranges, so that a long list costs
/// no more to compare than a short one.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// The numbers of a list; none if they are more than any kernel has processors.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let mut given: Vec<(u64, u64)> = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
            if let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) {
                given.extend((first <= last).then_some((first, last)));
            }
        }
        given.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        let mut room = MAX_NUMBERS;
        for (first, last) in given {
            // The ranges already merged begin no later.
            let known = merged.last().map(|(_, known)| *known);
            if known.is_some_and(|known| last <= known) {
                continue;
            }
            let first = known.map_or(first, |known| first.max(known + 1));
            room = room.checked_sub((last - first).checked_add(1)?)?;
            match merged.last_mut() {
                Some((_, known)) if *known + 1 == first => *known = last,
                _ => merged.push((first, last)),
            }
        }
        Some(Self(merged))
    }

    /// Whether a number is among them.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        after > 0 && number <= self.0[after - 1].1
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::described;
    use crate::survey::scan::{Survey, Unknown};

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
        let numbers = |text: &str| Ranges::of(text).map(|list| list.numbers().collect::<Vec<_>>());
        assert_eq!(numbers("0-2,8, 10-11"), Some(vec![0, 1, 2, 8, 10, 11]));
        assert_eq!(numbers("nonsense,-,3-x"), Some(vec![]));
        let overlapping = "5,0-3,2-4,9-8,18446744073709551615,18446744073709551615";
        assert_eq!(numbers(overlapping), Some(vec![0, 1, 2, 3, 4, 5, u64::MAX]));
        assert_eq!(Ranges::of("2-3,0-1"), Ranges::of("0,1,2,3"));
        let list = Ranges::of("9,2-4").unwrap_or_else(|| Ranges(Vec::new()));
        assert_eq!((0..11).filter(|number| list.contains(*number)).collect::<Vec<_>>(), [2, 3, 4, 9]);
        assert_eq!(list.count(), 4);
    }

    #[test]
    fn no_kernel_has_as_many_processors_as_a_refused_list() {
        assert_eq!(Ranges::of("0-65535,4-70").map(|list| list.count()), Some(MAX_NUMBERS));
        for list in ["0-65536", "7-70000,0-2", "0-99999999999", "0-18446744073709551615", "0-40000,50000-90000"] {
            assert_eq!(Ranges::of(list), None, "{list}");
        }
    }

    #[test]
    fn a_path_costs_one_look_up_a_name_and_a_survey_as_many_a_processor() {
        let steps = |tree: &Tree| match tree {
            Tree::Record(record) => record.looked_up(),
            Tree::Directory { .. } => 0,
        };
        let tree = Tree::of_record("/a/b/c: 1\n/many{0-4095}/x: 1\n/link -> a/b\n");
        for (path, expected) in [("/a/b/c", 3), ("/link/c", 4), ("/a/../a/b", 3), ("/none/of/these", 1)] {
            let before = steps(&tree);
            let _ = tree.text(path);
            assert_eq!(steps(&tree) - before, expected, "{path}");
        }
        let of_survey = |processors: u64| {
            let last = processors - 1;
            let cpu = format!("/sys/devices/system/cpu/cpu{{0-{last}}}");
            let tree = Tree::of_record(&format!(
                "/sys/devices/system/cpu/online: 0-{last}\n{cpu}/topology/core_cpus_list: {{n}}\n\
                 {cpu}/topology/physical_package_id: {{n}}\n{cpu}/cache/index0/level: 1\n\
                 {cpu}/cache/index0/size: 32K\n{cpu}/cache/index0/shared_cpu_list: {{n}}\n\
                 /sys/devices/system/node/node{{0-{last}}}/cpulist: {{n}}\n"
            ));
            let survey = Survey { tree, unknown: Unknown::default() };
            let machine = described(&survey, Some("/data"));
            assert_eq!(machine["cpu"]["cores"], processors);
            assert_eq!(machine["cpu"]["numa_nodes"].as_array().map(Vec::len), Some(processors as usize));
            steps(&survey.tree)
        };
        let (few, more, most) = (of_survey(1000), of_survey(2000), of_survey(4000));
        assert_eq!(2 * (more - few), most - more, "{few}, {more}, {most}");
        assert!(most / 4000 < 150, "{} names a processor", most / 4000);
    }
}
