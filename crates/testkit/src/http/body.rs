//! The bytes of objects and replies, in memory or in a file, without copies.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Bytes that a server sends. A clone, and a [part](Self::part), refer to the same bytes.
#[derive(Clone, Debug)]
pub struct Body {
    source: Source,
    range: Range<usize>,
}

#[derive(Clone, Debug)]
enum Source {
    Memory(Arc<Vec<u8>>),
    /// The kernel sends the bytes of a file from its page cache (sendfile(2)).
    File(Arc<File>),
}

impl Body {
    /// Creates a body of the whole content of `file`, which must not change.
    ///
    /// # Errors
    /// If the size of the file cannot be read.
    pub fn of_file(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let len = usize::try_from(len).map_err(io::Error::other)?;
        Ok(Self {
            source: Source::File(Arc::new(file)),
            range: 0..len,
        })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns the bytes in `range`, which must be inside the body.
    #[must_use]
    pub(super) fn part(&self, range: Range<usize>) -> Self {
        debug_assert!(range.end <= self.len(), "{range:?} of {} bytes", self.len());
        let start = self.range.start;
        Self {
            source: self.source.clone(),
            range: start + range.start..start + range.end,
        }
    }

    /// Sends the bytes to `to`, which must be non-blocking. Waits until the connection has accepted all of them.
    pub(super) fn send(&self, to: &TcpStream) -> io::Result<()> {
        let mut at = self.range.start;
        while at < self.range.end {
            match self.send_from(to, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => at += sent,
                Err(Errno::AGAIN) => {
                    poll(&mut [PollFd::new(to, PollFlags::OUT)], None)?;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes the bytes to `to`.
    pub(super) fn write_to(&self, to: &mut impl Write) -> io::Result<()> {
        match &self.source {
            Source::Memory(bytes) => to.write_all(&bytes[self.range.clone()]),
            Source::File(file) => {
                let mut bytes = vec![0; self.len()];
                file.read_exact_at(&mut bytes, self.range.start as u64)?;
                to.write_all(&bytes)
            }
        }
    }

    fn send_from(&self, to: &TcpStream, at: usize) -> rustix::io::Result<usize> {
        match &self.source {
            Source::Memory(bytes) => send(to, &bytes[at..self.range.end], SendFlags::NOSIGNAL),
            Source::File(file) => {
                let mut offset = at as u64;
                rustix::fs::sendfile(to, file, Some(&mut offset), self.range.end - at)
            }
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            range: 0..bytes.len(),
            source: Source::Memory(Arc::new(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener};

    /// Returns what a client receives of `body`.
    fn received(body: &Body) -> Vec<u8> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                body.send(&server).unwrap();
                server.shutdown(std::net::Shutdown::Both).unwrap();
            });
            let mut bytes = Vec::new();
            client.read_to_end(&mut bytes).unwrap();
            bytes
        })
    }

    #[test]
    fn body_of_memory_and_of_a_file_are_sent_alike() {
        // More than the buffers of a connection, so that the connection is full at times.
        let bytes: Vec<u8> = (0..16_u32 << 20)
            .map(|at| (at >> 7).to_le_bytes()[0])
            .collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        for body in [Body::from(bytes.clone()), Body::of_file(file).unwrap()] {
            assert_eq!(body.len(), bytes.len());
            assert!(received(&body) == bytes);
            let mut written = Vec::new();
            body.part(100..300).write_to(&mut written).unwrap();
            assert_eq!(written, bytes[100..300]);
            assert_eq!(received(&body.part(100..300).part(50..60)), bytes[150..160]);
        }
    }
}
