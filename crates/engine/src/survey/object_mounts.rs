//! Buckets that are mounted through FUSE: which program serves the mount, and how it caches.

use super::mounts::Mount;
use super::tree::{base, Tree};

/// A program that mounts buckets.
struct Program {
    name: &'static str,
    /// The type of its mounts; empty where that is `fuse` alone.
    filesystem: &'static str,
    /// What it mounts by its own words, where that tells it; else the bucket.
    source: &'static str,
    /// Options of its command line with a value that say how it caches and reads ahead. Nothing else is taken, because a
    /// command line may have keys.
    options: &'static [&'static str],
    /// Those without a value.
    flags: &'static [&'static str],
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "rclone",
        filesystem: "fuse.rclone",
        source: "",
        options: &[
            "vfs-cache-mode",
            "vfs-cache-max-size",
            "vfs-cache-max-age",
            "vfs-read-ahead",
            "vfs-read-chunk-size",
            "vfs-read-chunk-streams",
            "buffer-size",
            "dir-cache-time",
        ],
        flags: &["direct-io", "async-read"],
    },
    Program {
        name: "s3fs",
        filesystem: "fuse.s3fs",
        source: "",
        options: &["use_cache", "max_stat_cache_size", "stat_cache_expire", "parallel_count", "multipart_size"],
        flags: &["kernel_cache", "direct_io"],
    },
    Program {
        name: "mount-s3",
        filesystem: "",
        source: "mountpoint-s3",
        options: &["cache", "cache-xz", "max-cache-size", "metadata-ttl", "read-part-size", "maximum-throughput-gbps"],
        flags: &[],
    },
    Program {
        name: "goofys",
        filesystem: "fuse.goofys",
        source: "",
        options: &["cache", "stat-cache-ttl", "type-cache-ttl"],
        flags: &["cheap"],
    },
    Program {
        name: "geesefs",
        filesystem: "fuse.geesefs",
        source: "",
        options: &["memory-limit", "cache", "read-ahead-large", "stat-cache-ttl"],
        flags: &[],
    },
    Program {
        name: "gcsfuse",
        filesystem: "fuse.gcsfuse",
        source: "",
        options: &["file-cache-max-size-mb", "metadata-cache-ttl-secs", "stat-cache-ttl", "cache-dir"],
        flags: &[],
    },
];
/// Characters of an option that are shown.
const MAX_SHOWN: usize = 80;

/// A bucket's mount.
pub struct ObjectMount {
    /// The program that serves it.
    pub program: &'static str,
    /// What it is, in a few words.
    pub detail: String,
}

/// The program behind a mount and its options; none where no known program mounted a bucket there.
#[must_use]
pub fn find(tree: &Tree, mount: &Mount) -> Option<ObjectMount> {
    if !mount.filesystem.starts_with("fuse") {
        return None;
    }
    let known = PROGRAMS.iter().find(|program| {
        program.filesystem == mount.filesystem || (!program.source.is_empty() && program.source == mount.source)
    });
    if known.is_none() && mount.filesystem != "fuse" {
        return None;
    }
    let running = process_of(tree, mount, known);
    let program = known.or(running.as_ref().map(|(program, _)| *program))?;
    let cache = match running {
        None => "its process is not visible here".to_string(),
        Some((_, options)) if options.is_empty() => "default cache options".to_string(),
        Some((_, options)) => options.join(", "),
    };
    let names_itself = [program.name, program.source].contains(&mount.source.as_str());
    let bucket = if names_itself { String::new() } else { format!("{} through ", mount.source) };
    Some(ObjectMount { program: program.name, detail: format!("{bucket}{} ({cache})", program.name) })
}

/// The process that serves a mount, and its options.
fn process_of(tree: &Tree, mount: &Mount, known: Option<&'static Program>) -> Option<(&'static Program, Vec<String>)> {
    let processes = tree.list("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    for process in processes {
        let Some(bytes) = tree.bytes(&format!("/proc/{process}/cmdline")) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let words: Vec<&str> = text.split('\0').filter(|word| !word.is_empty()).collect();
        let Some((first, others)) = words.split_first() else { continue };
        let name = base(first).trim_start_matches("mount.");
        let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else { continue };
        let is_it = known.is_none_or(|known| known.name == program.name);
        if is_it && others.iter().any(|word| is_at(&mount.point, word)) {
            return Some((program, options_of(program, others)));
        }
    }
    None
}

/// Whether a word of a command line names a mount point, from any folder.
fn is_at(point: &str, word: &str) -> bool {
    let word = word.trim_start_matches("./").trim_end_matches('/');
    !word.is_empty() && (point == word || (!word.starts_with('/') && point.ends_with(&format!("/{word}"))))
}

fn options_of(program: &Program, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            if program.options.contains(&name) {
                let value = value.or_else(|| words.peek().copied().copied().filter(|next| !next.starts_with('-')));
                found.extend(value.map(|value| shown(name, value)));
            } else if program.flags.contains(&name) {
                found.push(name.to_string());
            }
        } else if let Some(list) = word.strip_prefix("-o") {
            let list = if list.is_empty() { words.next().copied().unwrap_or_default() } else { list };
            for option in list.split(',') {
                match option.split_once('=') {
                    Some((name, value)) if program.options.contains(&name) => found.push(shown(name, value)),
                    None if program.flags.contains(&option) => found.push(option.to_string()),
                    _ => {}
                }
            }
        }
    }
    found
}

fn shown(name: &str, value: &str) -> String {
    let value: String = value.chars().filter(|character| !character.is_control()).take(MAX_SHOWN).collect();
    format!("{name}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(filesystem: &str, source: &str, commands: &[&[&str]]) -> Option<(&'static str, String)> {
        let line = |(at, words): (usize, &&[&str])| {
            let digits: Vec<String> = words.join("\0").bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("/proc/{}/cmdline hex: {} 00", 100 + at, digits.join(" "))
        };
        let record = commands.iter().enumerate().map(line).collect::<Vec<_>>().join("\n");
        let mount = Mount {
            id: 1,
            device: "0:50".into(),
            root: "/".into(),
            point: "/mnt/data".into(),
            filesystem: filesystem.into(),
            source: source.into(),
            options: Vec::new(),
        };
        find(&Tree::of_record(&record), &mount).map(|mount| (mount.program, mount.detail))
    }

    #[test]
    fn each_program_is_known_with_its_cache() {
        let other: &[&str] = &["/usr/bin/rclone", "mount", "x:y", "/mnt/other", "--vfs-cache-mode", "off"];
        for (filesystem, source, command, program, detail) in [
            (
                "fuse.rclone",
                "lab:bench",
                &[
                    "/usr/bin/rclone",
                    "mount",
                    "lab:bench",
                    "/mnt/data",
                    "--vfs-cache-mode",
                    "full",
                    "--s3-secret-access-key=hunter2",
                ][..],
                "rclone",
                "lab:bench through rclone (vfs-cache-mode=full)",
            ),
            (
                "fuse.s3fs",
                "s3fs",
                &["s3fs", "bench", "/mnt/data/", "-o", "passwd_file=/k,use_cache=/tmp,kernel_cache", "-ourl=http://x"],
                "s3fs",
                "s3fs (use_cache=/tmp, kernel_cache)",
            ),
            (
                "fuse",
                "mountpoint-s3",
                &["mount-s3", "bench", "data", "--cache=/var/cache", "--read-only"],
                "mount-s3",
                "mount-s3 (cache=/var/cache)",
            ),
            ("fuse", "bench", &["goofys", "--cheap", "bench", "/mnt/data"], "goofys", "bench through goofys (cheap)"),
            (
                "fuse.geesefs",
                "bench",
                &["geesefs", "bench", "/mnt/data"],
                "geesefs",
                "bench through geesefs (default cache options)",
            ),
        ] {
            assert_eq!(found(filesystem, source, &[other, command]), Some((program, detail.to_string())));
        }
    }

    #[test]
    fn a_process_out_of_sight_is_named_so_and_another_mount_is_none() {
        let hidden = found("fuse.rclone", "lab:bench", &[]).unwrap();
        assert_eq!(hidden.1, "lab:bench through rclone (its process is not visible here)");
        assert_eq!(found("fuse", "x", &[&["sshfs", "x", "/mnt/data"], &["rclone", "mount", "a:b", "/mnt"], &[]]), None);
        assert_eq!(found("fuse.sshfs", "x", &[&["rclone", "mount", "a:b", "/mnt/data"]]), None);
        assert_eq!(found("ext4", "mountpoint-s3", &[]), None);
    }
}
