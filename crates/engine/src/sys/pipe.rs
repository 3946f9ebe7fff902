//! Bytes that a socket sends without a copy and without a look into any file: pages kept in a pipe, sent by `tee` and
//! `splice`, which only count one more user of each page.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::pipe::{fcntl_setpipe_size, pipe_with, splice, tee, PipeFlags, SpliceFlags};

use super::net::memory_file;

/// Two pipes: one keeps the content for ever, the other hands it to the socket.
pub struct Supply {
    source: (OwnedFd, OwnedFd),
    outgoing: (OwnedFd, OwnedFd),
    length: usize,
    /// Bytes of the last copy of the content that the socket has not taken yet.
    left: usize,
}

/// A pipe with room for `bytes`.
fn pipe(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    if fcntl_setpipe_size(&writer, bytes)? < bytes {
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
        let (source, outgoing) = (pipe(room)?, pipe(room)?);
        let mut from = 0;
        while (from as usize) < content.len() {
            let rest = content.len() - from as usize;
            if splice(&file, Some(&mut from), &source.1, None, rest, SpliceFlags::NONBLOCK)? == 0 {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
        }
        Ok(Self { source, outgoing, length: content.len(), left: 0 })
    }

    /// Sends what the socket takes of the content; gives how many bytes went.
    pub fn send(&mut self, stream: &TcpStream) -> io::Result<usize> {
        if self.left == 0 {
            self.left = tee(&self.source.0, &self.outgoing.1, self.length, SpliceFlags::NONBLOCK)?;
        }
        let sent = splice(&self.outgoing.0, None, stream, None, self.left, SpliceFlags::empty())?;
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
