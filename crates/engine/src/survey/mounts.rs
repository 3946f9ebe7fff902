//! The table of mounts, and which of them holds a path.

use std::collections::HashSet;

use super::tree::Tree;

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's number for it.
    pub id: u64,
    /// `major:minor` of its block device; major 0 where there is none, or the filesystem keeps several.
    pub device: String,
    /// Which directory of the filesystem is mounted; not `/` for a bind mount or a subvolume.
    pub root: String,
    /// Where.
    pub point: String,
    /// The filesystem's type.
    pub filesystem: String,
    /// What was mounted, such as `/dev/sda1` or `server:/export`.
    pub source: String,
    /// Options of the mount, then those of the filesystem that do not repeat them.
    pub options: Vec<String>,
}

impl Mount {
    /// The value of an option such as `upperdir=…`.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether its filesystem is on one block device that the kernel names by number.
    #[must_use]
    pub fn has_device(&self) -> bool {
        !self.device.starts_with("0:")
    }
}

/// All mounts in the order in which they were made; lines that are no mounts are passed over.
#[must_use]
pub fn read(tree: &Tree) -> Vec<Mount> {
    tree.text("/proc/self/mountinfo").unwrap_or_default().lines().filter_map(parse).collect()
}

/// The mount that holds `path`, an absolute path without links: the longest mount point above it, the latest of equals.
#[must_use]
pub fn of_path<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    mounts.iter().filter(|mount| holds(&mount.point, path)).max_by_key(|mount| mount.point.trim_end_matches('/').len())
}

fn holds(point: &str, path: &str) -> bool {
    let point = point.trim_end_matches('/');
    path.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn parse(line: &str) -> Option<Mount> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut fields = mount.split(' ');
    let (id, _parent, device) = (fields.next()?.parse().ok()?, fields.next()?, fields.next()?);
    let (root, point, options) = (fields.next()?, fields.next()?, fields.next()?);
    let mut of_filesystem = filesystem.split(' ');
    let (kind, source) = (of_filesystem.next()?, of_filesystem.next()?);
    let (mut all, mut given) = (Vec::new(), HashSet::new());
    for option in options.split(',').chain(of_filesystem.next().unwrap_or("").split(',')) {
        if !option.is_empty() && given.insert(option) {
            all.push(unescaped(option));
        }
    }
    Some(Mount {
        id,
        device: device.to_string(),
        root: unescaped(root),
        point: unescaped(point),
        filesystem: kind.to_string(),
        source: unescaped(source),
        options: all,
    })
}

/// Replaces `\040` and the like, by which the kernel writes white space and backslashes in paths.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = (bytes[at] == b'\\')
            .then(|| bytes.get(at + 1..at + 4))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(octal.unwrap_or(bytes[at]));
        at += if octal.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(lines: &str) -> Vec<Mount> {
        read(&Tree::of_record(&format!("/proc/self/mountinfo:\n{lines}")))
    }

    #[test]
    fn the_longest_and_latest_mount_holds_a_path() {
        let mounts = tree(
            "\t1 0 8:1 / / rw - ext4 /dev/sda1 rw,discard\n\t2 1 8:2 / /data rw - xfs /dev/sda2 rw\n\
             \t3 1 0:5 / /data rw - tmpfs t rw\n\t4 1 8:3 / /my\\040disk rw shared:1 master:2 - ext4 /dev/sda3 rw\nnonsense\n\tx - y\n",
        );
        let found = |path| of_path(&mounts, path).map(|mount| mount.id);
        assert_eq!(found("/data/x"), Some(3));
        assert_eq!(found("/data"), Some(3));
        assert_eq!(found("/database"), Some(1), "a mount point is a whole component");
        assert_eq!(found("/my disk/file"), Some(4));
        assert_eq!(mounts[0].options, ["rw", "discard"]);
        assert_eq!(mounts.len(), 4);
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(unescaped("a\\040b\\13"), "a b\\13");
        assert_eq!(unescaped("\\999\\"), "\\999\\");
    }
}
