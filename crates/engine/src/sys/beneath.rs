//! Names relative to a directory handle: opened, made, listed, renamed and removed, and never followed where they are links.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::{retry_on_intr, Errno};

/// How often a look-up is begun again that others' renames cut short.
const TRIES: u32 = 16;

/// A file's identity, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(about: &Stat) -> Self {
        Self { device: about.st_dev, inode: about.st_ino }
    }

    /// That of an open file.
    pub fn of_file(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::of(&fs::fstat(file)?))
    }

    /// Its number in its filesystem.
    #[must_use]
    pub fn inode(self) -> u64 {
        self.inode
    }
}

/// What a name is, links not followed.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Which file.
    pub identity: Identity,
    /// Whether it is a link.
    pub is_link: bool,
    /// Whether it is a regular file of one name that belongs to the user of this process.
    pub is_plain: bool,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// Opens a directory that the user named: links in its path are followed.
pub fn directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    match retry_on_intr(|| fs::open(path, OFlags::RDONLY | flags, Mode::empty())) {
        // it may be written and not be listed
        Err(Errno::ACCESS) => Ok(retry_on_intr(|| fs::open(path, OFlags::PATH | flags, Mode::empty()))?),
        answer => Ok(answer?),
    }
}

/// Opens `name` below `at`; no component of it may be a link or lead upwards.
pub fn open(at: impl AsFd, name: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let at = at.as_fd();
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // openat2 refuses a mode for a file that is not made
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    if plain(name)? == 1 {
        // one component: O_NOFOLLOW is all that it takes
        return retry_on_intr(|| fs::openat(at, name, flags, mode)).map_err(|errno| refusal(at, name, errno));
    }
    for _ in 0..TRIES {
        match fs::openat2(at, name, flags, mode, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // not in this kernel, or kept from us by a filter of system calls
            Err(Errno::NOSYS | Errno::PERM) => break,
            answer => return answer.map_err(io::Error::from),
        }
    }
    by_steps(at, name, flags, mode)
}

/// The same, a component at a time.
fn by_steps(at: impl AsFd, name: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let (parent, last) = (name.parent().unwrap_or(Path::new("")), name.file_name().unwrap_or_default());
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut reached: Option<OwnedFd> = None;
    for step in parent.components() {
        let here = reached.as_ref().map_or(at.as_fd(), AsFd::as_fd);
        let next = retry_on_intr(|| fs::openat(here, step.as_os_str(), way, Mode::empty()))
            .map_err(|errno| refusal(here, Path::new(step.as_os_str()), errno))?;
        reached = Some(next);
    }
    let here = reached.as_ref().map_or(at.as_fd(), AsFd::as_fd);
    retry_on_intr(|| fs::openat(here, last, flags, mode)).map_err(|errno| refusal(here, Path::new(last), errno))
}

/// A link is called one, whichever number the system gave for it.
fn refusal(at: impl AsFd, name: &Path, errno: Errno) -> io::Error {
    let is_link = errno == Errno::NOTDIR && about(at, name).is_ok_and(|about| about.is_link);
    if is_link { Errno::LOOP } else { errno }.into()
}

/// How many components a name has; all of them have to be names below.
fn plain(name: &Path) -> io::Result<usize> {
    let count = name.components().count();
    if count == 0 || name.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} must be a plain name: it leads out of its folder", name.display()),
        ));
    }
    Ok(count)
}

/// The directory of a name below `at`, and the name in it.
fn open_parent(at: impl AsFd, name: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    plain(name)?;
    let last = name.file_name().unwrap_or_default();
    let parent = name.parent().filter(|parent| !parent.as_os_str().is_empty());
    let handle = match parent {
        Some(parent) => open(at, parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?,
        None => at.as_fd().try_clone_to_owned()?,
    };
    Ok((handle, last))
}

/// What a name is.
pub fn about(at: impl AsFd, name: &Path) -> io::Result<About> {
    let (parent, last) = open_parent(at, name)?;
    let about = fs::statat(parent, last, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(about.st_mode);
    let is_users = about.st_uid == rustix::process::geteuid().as_raw();
    Ok(About {
        identity: Identity::of(&about),
        is_link: kind == FileType::Symlink,
        is_plain: kind == FileType::RegularFile && about.st_nlink == 1 && is_users,
        is_directory: kind == FileType::Directory,
    })
}

/// Makes a directory; says whether it was not there.
pub fn make_directory(at: impl AsFd, name: &Path, mode: u32) -> io::Result<bool> {
    let (parent, last) = open_parent(at, name)?;
    match fs::mkdirat(parent, last, Mode::from_raw_mode(mode)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a file if the name is still this one's.
pub fn remove(at: impl AsFd, name: &Path, identity: Identity) -> io::Result<()> {
    let (parent, last) = open_parent(at, name)?;
    let found = fs::statat(&parent, last, AtFlags::SYMLINK_NOFOLLOW)?;
    if Identity::of(&found) != identity {
        return Err(Errno::EXIST.into());
    }
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    Ok(fs::unlinkat(parent, last, if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() })?)
}

/// Removes a file of a directory that is this tool's alone.
pub fn remove_entry(at: impl AsFd, name: &Path) -> io::Result<()> {
    unlink(at, name, AtFlags::empty())
}

/// Removes an empty directory by its name alone: one that this process has just made.
pub fn remove_directory(at: impl AsFd, name: &Path) -> io::Result<()> {
    unlink(at, name, AtFlags::REMOVEDIR)
}

fn unlink(at: impl AsFd, name: &Path, flags: AtFlags) -> io::Result<()> {
    // Of one component by the handle that is there, which also works where no descriptor is free.
    if plain(name)? == 1 {
        return Ok(fs::unlinkat(at, name, flags)?);
    }
    let (parent, last) = open_parent(at, name)?;
    Ok(fs::unlinkat(parent, last, flags)?)
}

/// The names in a directory, `.` and `..` aside.
pub fn names(directory: impl AsFd) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(OsStr::from_bytes(name).into());
        }
    }
    Ok(names)
}

/// Removes all content of a directory, `last` at the end of it; what cannot be removed stays, and `last` with it.
///
/// # Errors
/// The first refusal of the system.
pub fn clear(directory: BorrowedFd<'_>, last: &OsStr) -> io::Result<()> {
    clear_but(directory, last)?;
    match fs::unlinkat(directory, last, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(refused) => Err(refused.into()),
    }
}

/// Removes all content of a directory but for one name; what cannot be removed stays.
///
/// # Errors
/// The first refusal of the system.
pub fn clear_but(directory: BorrowedFd<'_>, kept: &OsStr) -> io::Result<()> {
    let mut done = Ok(());
    for name in names(directory)?.into_iter().filter(|name| name.as_os_str() != kept) {
        let Err(refused) = fs::unlinkat(directory, &name, AtFlags::empty()) else { continue };
        let removed = match open(directory, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
            Err(_) => Err(refused.into()),
            Ok(inner) => clear_but(inner.as_fd(), OsStr::new(""))
                .and_then(|()| Ok(fs::unlinkat(directory, &name, AtFlags::REMOVEDIR)?)),
        };
        done = done.and(removed);
    }
    done
}

/// Whether an open file or directory belongs to the user of this process.
pub fn is_users(file: impl AsFd) -> bool {
    fs::fstat(file).is_ok_and(|about| about.st_uid == rustix::process::geteuid().as_raw())
}

/// Gives a file of one directory a name that nothing has yet.
pub fn publish(at: impl AsFd, from: &Path, to: &Path) -> io::Result<()> {
    let ((parent, from), (into, to)) = (open_parent(&at, from)?, open_parent(&at, to)?);
    match fs::renameat_with(&parent, from, &into, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {}
        answer => return Ok(answer?),
    }
    // A filesystem without that flag: a link replaces nothing either.
    match fs::linkat(&parent, from, &into, to, AtFlags::empty()) {
        Ok(()) => Ok(fs::unlinkat(&parent, from, AtFlags::empty())?),
        Err(Errno::PERM | Errno::OPNOTSUPP) if fs::statat(&into, to, AtFlags::SYMLINK_NOFOLLOW).is_err() => {
            Ok(fs::renameat(&parent, from, &into, to)?)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Gives a file of one directory the name of another, which is gone then; a link of that name goes itself.
pub fn replace(at: impl AsFd, from: &Path, to: &Path) -> io::Result<()> {
    let ((parent, from), (into, to)) = (open_parent(&at, from)?, open_parent(&at, to)?);
    Ok(fs::renameat(parent, from, into, to)?)
}

/// Locks a file for this process alone; false where another one has it.
pub fn lock(file: &File) -> io::Result<bool> {
    match retry_on_intr(|| fs::flock(file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Sets an extended attribute; false where the filesystem has none.
pub fn set_attribute(file: &File, name: &str, value: &[u8]) -> bool {
    fs::fsetxattr(file, name, value, fs::XattrFlags::empty()).is_ok()
}

/// An extended attribute, of at most 256 bytes.
#[must_use]
pub fn attribute(file: &File, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0_u8; 256];
    let length = fs::fgetxattr(file, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::scratch::Scratch;
    use std::os::unix::fs::symlink;

    type Way = fn(&OwnedFd, &Path, OFlags, Mode) -> io::Result<OwnedFd>;

    #[test]
    fn a_link_at_any_place_of_a_name_is_not_followed_whichever_way_it_is_opened() {
        let scratch = Scratch::new("beneath");
        std::fs::create_dir_all(scratch.path("in/deep")).unwrap();
        std::fs::write(scratch.path("in/deep/file"), "x").unwrap();
        symlink("deep", scratch.path("in/link")).unwrap();
        symlink("file", scratch.path("in/deep/link")).unwrap();
        symlink("nothing", scratch.path("in/deep/dangling")).unwrap();
        let at = directory(&scratch.path("in")).unwrap();
        let (read, new) = (OFlags::RDONLY, OFlags::RDWR | OFlags::CREATE);
        let ways: [Way; 2] = [
            |at, name, flags, mode| open(at, name, flags, mode),
            |at, name, flags, mode| by_steps(at, name, flags | OFlags::NOFOLLOW, mode),
        ];
        for way in ways {
            assert!(way(&at, Path::new("deep/file"), read, Mode::empty()).is_ok());
            for (name, flags) in [
                ("link", read),
                ("link/file", read),
                ("deep/link", read),
                ("deep/link", OFlags::RDWR),
                ("deep/dangling", new),
                ("link/new", new),
            ] {
                let error = way(&at, Path::new(name), flags, Mode::RUSR).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::ELOOP), "{name}");
            }
        }
        assert!(!scratch.path("in/deep/nothing").exists() && !scratch.path("in/deep/new").exists());
    }

    #[test]
    fn a_name_that_leads_out_is_refused_before_anything_is_opened() {
        let scratch = Scratch::new("beneath-out");
        let at = directory(&scratch.path("")).unwrap();
        for name in ["..", "../x", "a/../../x", "/etc/passwd", "", "."] {
            let error = open(&at, Path::new(name), OFlags::RDONLY, Mode::empty()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }

    #[test]
    fn what_took_a_files_name_is_not_removed_for_it() {
        let scratch = Scratch::new("beneath-remove");
        std::fs::write(scratch.path("ours"), "x").unwrap();
        let at = directory(&scratch.path("")).unwrap();
        let identity = about(&at, Path::new("ours")).unwrap().identity;
        std::fs::rename(scratch.path("ours"), scratch.path("moved")).unwrap();
        std::fs::write(scratch.path("ours"), "mine").unwrap();
        assert!(remove(&at, Path::new("ours"), identity).is_err());
        assert_eq!(std::fs::read(scratch.path("ours")).unwrap(), b"mine");
        assert!(publish(&at, Path::new("moved"), Path::new("ours")).is_err());
        assert_eq!(std::fs::read(scratch.path("ours")).unwrap(), b"mine");
        remove(&at, Path::new("moved"), identity).unwrap();
    }
}
