//! The connection to the kernel: the open device /dev/fuse.

use crate::node::NodeId;
use crate::operations::Answer;
use crate::protocol::abi::{InvalInodeOut, NOTIFY_INVAL_INODE, OutHeader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, writev};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use zerocopy::IntoBytes;

/// An open /dev/fuse, from which requests are read and to which replies are written.
#[derive(Debug)]
pub(super) struct Connection(pub(super) OwnedFd);

/// The result of an attempt to receive a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A request of this length, in bytes.
    Request(usize),
    /// No request: none is waiting and the connection is non-blocking, the request was interrupted, or a signal
    /// arrived.
    Nothing,
    /// The volume is unmounted.
    Unmounted,
}

impl Connection {
    /// Makes [`Connection::receive`] return at once if no request is waiting.
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        let flags = fcntl_getfl(&self.0)?;
        Ok(fcntl_setfl(&self.0, flags | OFlags::NONBLOCK)?)
    }

    /// Waits until a request can be received, the volume is unmounted, `timeout` has passed, or a signal arrives.
    pub(super) fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // An error has the same effect as a signal.
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref());
    }

    /// Returns whether the volume is unmounted.
    pub(super) fn is_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::empty())];
        !matches!(poll(&mut polled, Some(&Timespec::default())), Ok(0))
    }

    /// Reads a request into `memory`. Waits for one, unless the connection is non-blocking.
    pub(super) fn receive(&self, memory: &mut [u8]) -> io::Result<Received> {
        match read(&self.0, memory) {
            Ok(len) => Ok(Received::Request(len)),
            // ENOENT: the request was interrupted before it was received.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => Ok(Received::Nothing),
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Received::Unmounted),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends the reply to the request `unique`: a body, or an error.
    pub(super) fn reply(&self, unique: u64, answer: Answer<&[u8]>) {
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(errno) => (-errno.raw_os_error(), &[][..]),
        };
        match self.send(unique, error, body) {
            // ENOENT: the request was interrupted. ENODEV: the volume is unmounted.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => tracing::warn!("cannot reply to a request of the kernel: {errno}"),
        }
    }

    /// Notifies the kernel that it must drop its cached attributes of a file. Does not wait for other requests.
    pub(super) fn invalidate_attributes(&self, node: NodeId) {
        // With a negative offset, the kernel drops only attributes and keeps the pages.
        self.invalidate(node, -1);
    }

    /// Makes the kernel write back the dirty pages of a file from `offset_bytes` on. The kernel also drops these
    /// pages, and its cached attributes of the file. Waits until the server has answered the kernel's writes, and its
    /// reads of these pages.
    pub(super) fn write_back_pages(&self, node: NodeId, offset_bytes: u64) {
        if let Ok(offset_bytes) = i64::try_from(offset_bytes) {
            self.invalidate(node, offset_bytes);
        }
    }

    fn invalidate(&self, node: NodeId, offset_bytes: i64) {
        let notification = InvalInodeOut {
            node: node.0,
            offset_bytes,
            // Up to the end of the file.
            len_bytes: 0,
        };
        match self.send(0, NOTIFY_INVAL_INODE, notification.as_bytes()) {
            // ENOENT: the kernel has forgotten the node.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => tracing::warn!(
                "cannot invalidate what the kernel caches of node {}: {errno}",
                node.0
            ),
        }
    }

    fn send(&self, unique: u64, error: i32, body: &[u8]) -> Result<(), Errno> {
        let len = size_of::<OutHeader>() + body.len();
        let header = OutHeader {
            len: u32::try_from(len).map_err(|_| Errno::TOOBIG)?,
            error,
            unique,
        };
        // The kernel accepts a message as a whole or not at all.
        writev(
            &self.0,
            &[IoSlice::new(header.as_bytes()), IoSlice::new(body)],
        )
        .map(|_| ())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
