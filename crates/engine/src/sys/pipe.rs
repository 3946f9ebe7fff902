//! Bytes that a socket sends without a copy and without a look into any file: pages kept in a pipe, sent by `tee` and
//! `splice`, which only count one more user of each page.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::net::memory_file;

/// Two pipes: one keeps the content for ever, the other hands it to the socket.
pub struct Supply {
    kept: (OwnedFd, OwnedFd),
    handed: (OwnedFd, OwnedFd),
    length: usize,
    /// Bytes of the last copy of the content that the socket has not taken yet.
    left: usize,
}

fn result(answer: libc::ssize_t) -> io::Result<usize> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer as usize)
    }
}

/// A pipe with room for `bytes`.
fn pipe(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: pipe2 fills two descriptors.
    result(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } as libc::ssize_t)?;
    // SAFETY: both descriptors were just made and nobody else owns them.
    let (reader, writer) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    // SAFETY: fcntl with F_SETPIPE_SZ takes a number.
    let room = result(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, bytes as libc::c_int) } as _)?;
    if room < bytes {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    Ok((reader, writer))
}

impl Supply {
    /// Puts `content` into a pipe; refused where pipes may not be so large (`fs.pipe-max-size`, `pipe-user-pages-soft`).
    pub fn of(content: &[u8]) -> io::Result<Self> {
        let file = memory_file(content)?;
        // A pipe holds pages: content that does not end with one takes another.
        let room = (content.len() + 4096).next_power_of_two();
        let room = if content.len().is_power_of_two() { content.len().max(4096) } else { room };
        let (kept, handed) = (pipe(room)?, pipe(room)?);
        let mut from: libc::loff_t = 0;
        while (from as usize) < content.len() {
            let rest = content.len() - from as usize;
            // SAFETY: both descriptors are open; `from` is a loff_t that the call moves on.
            let moved = unsafe {
                let (file, writer) = (file.as_raw_fd(), kept.1.as_raw_fd());
                libc::splice(file, &raw mut from, writer, std::ptr::null_mut(), rest, libc::SPLICE_F_NONBLOCK)
            };
            if result(moved)? == 0 {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
        }
        Ok(Self { kept, handed, length: content.len(), left: 0 })
    }

    /// Sends what the socket takes of the content; gives how many bytes went.
    pub fn send(&mut self, stream: &TcpStream) -> io::Result<usize> {
        if self.left == 0 {
            let (from, to) = (self.kept.0.as_raw_fd(), self.handed.1.as_raw_fd());
            // SAFETY: both descriptors are pipes of this supply.
            self.left = result(unsafe { libc::tee(from, to, self.length, libc::SPLICE_F_NONBLOCK) })?;
        }
        let (from, to, null) = (self.handed.0.as_raw_fd(), stream.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: a pipe of this supply and an open socket; no offsets are passed.
        let sent = result(unsafe { libc::splice(from, null, to, null, self.left, 0) })?;
        self.left -= sent;
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn the_content_arrives_whole_again_and_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut into, _) = listener.accept().unwrap();
        for length in [100, 4096, 5000, 1 << 17] {
            let content: Vec<u8> = (0..length).map(|at: usize| (at * 7 + at / 251) as u8).collect();
            let mut supply = Supply::of(&content).unwrap();
            for _ in 0..3 {
                let mut sent = 0;
                while sent < length {
                    sent += supply.send(&out).unwrap();
                }
                let mut came = vec![0; length];
                into.read_exact(&mut came).unwrap();
                assert!(came == content, "{length}");
            }
        }
    }
}
