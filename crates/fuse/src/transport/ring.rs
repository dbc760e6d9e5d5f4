//! A ring (`io_uring`) through which the kernel passes requests, and the scheduling policy of threads: the only
//! module of this crate with unsafe code.
//!
//! Model: a ring has entries. An entry is memory for one request and its reply. The server gives an entry to
//! the kernel, and the kernel returns the entry with a request. The server writes the reply into the entry, and
//! gives the entry back to the kernel. One system call gives back all entries with replies and waits for
//! requests. Each entry belongs to a queue. The kernel has one queue for each processor.
//!
//! Invariants:
//! 1. The kernel stores the address of an entry's memory when the entry is registered. The memory does not
//!    move and is not freed while the entry is in `in_kernel`. The kernel accesses the memory only during
//!    that time: between the completion of a command and the next command for the entry, the memory belongs
//!    to the server.
//! 2. An entry is in `in_kernel` from before the submission of its command until the completion of this
//!    command. A ring that is dropped while entries are in `in_kernel` leaks them.
//! 3. The submission queue contains at most one command for each entry and one for the wake-up event, so it
//!    has room for all.
//!
//! Source: `Documentation/filesystems/fuse/fuse-io-uring.rst`.
#![allow(unsafe_code, reason = "passes pointers to the kernel")]

use super::device::Connection;
use crate::protocol::abi::{
    OutHeader, RING_COMMIT_AND_FETCH, RING_REGISTER, RingCommand, RingHeader,
};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use larder_block::AlignedBytes;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::thread::Pid;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// The memory for the header of an entry, in bytes. The data follows at a page boundary.
const HEADER_BYTES: usize = 4096;
/// The alignment of an entry's memory, which direct I/O requires of the data.
const ALIGN_BYTES: usize = 4096;
/// The key of the command that waits for the wake-up event.
const WAKE_KEY: u64 = u64::MAX;
/// The offset of the field `len` in a submission, in units of 4 bytes. The crate `io_uring` has no function
/// that sets this field of a command.
const LEN_FIELD: usize = 6;

/// A ring, used by one thread.
pub(super) struct Ring {
    uring: IoUring<squeue::Entry128, cqueue::Entry>,
    connection: Arc<Connection>,
    in_kernel: Vec<Option<Entry>>,
    /// The header and the data memory of each entry, as its registration passes them to the kernel.
    parts: Vec<[libc::iovec; 2]>,
    /// The entries that [`Ring::register`] has not taken. It takes them from the end.
    unregistered: Vec<Entry>,
    /// The number of entries that the kernel has neither refused nor dropped. It drops entries when the connection has
    /// ended.
    live: usize,
    /// The reason why the kernel refused to register an entry, until [`Ring::register`] returns or logs it.
    refusal: Option<Errno>,
    waker: Waker,
    waits_for_waker: bool,
}

/// Wakes the thread that waits in [`Ring::wait`]. Any thread may use it.
#[derive(Clone, Debug)]
pub(super) struct Waker(Arc<OwnedFd>);

/// An entry: memory for a request and its reply.
#[derive(Debug)]
pub(super) struct Entry {
    index: usize,
    queue: u16,
    is_registered: bool,
    memory: AlignedBytes,
}

impl Waker {
    pub(super) fn wake(&self) {
        // This can fail only if the event is already set.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Entry {
    fn new(index: usize, queue: u16, data_bytes: usize) -> Self {
        Self {
            index,
            queue,
            is_registered: false,
            memory: AlignedBytes::zeroed(HEADER_BYTES + data_bytes, ALIGN_BYTES),
        }
    }

    /// Returns the header, and the memory for names and data. A request uses the start of this memory.
    pub(super) fn parts(&mut self) -> (&mut RingHeader, &mut [u8]) {
        let (header, data) = self.memory.split_at_mut(HEADER_BYTES);
        let (header, _) =
            RingHeader::mut_from_prefix(header).expect("the memory is aligned and large enough");
        (header, data)
    }

    /// Sets the reply to the request `unique`. `answer` is the number of bytes of data, or an error.
    pub(super) fn set_reply(&mut self, unique: u64, answer: Result<usize, Errno>) {
        let (error, len) = match answer {
            Ok(len) => (0, len),
            Err(errno) => (-errno.raw_os_error(), 0),
        };
        let data_bytes = u32::try_from(len).expect("data has at most 1 MiB");
        let out = OutHeader {
            len: data_bytes,
            error,
            unique,
        };
        let (header, _) = self.parts();
        header.header[..size_of::<OutHeader>()].copy_from_slice(out.as_bytes());
        header.data_bytes = data_bytes;
    }
}

impl Ring {
    /// Creates a ring with an entry for each element of `queues`. The element is the number of the entry's
    /// queue. The kernel does not know the entries before [`Ring::register`].
    ///
    /// # Errors
    /// The kernel has no `io_uring`, or does not allow it, or a limit is reached.
    pub(super) fn new(
        connection: &Arc<Connection>,
        queues: &[u16],
        data_bytes: usize,
    ) -> io::Result<Self> {
        let entries = u32::try_from(queues.len() + 1).map_err(io::Error::other)?;
        let uring = IoUring::builder().dontfork().build(entries)?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut ring = Self {
            uring,
            connection: Arc::clone(connection),
            in_kernel: queues.iter().map(|_| None).collect(),
            parts: Vec::with_capacity(queues.len()),
            unregistered: Vec::with_capacity(queues.len()),
            live: queues.len(),
            refusal: None,
            waker: Waker(Arc::new(event)),
            waits_for_waker: false,
        };
        for (index, &queue) in queues.iter().enumerate() {
            let mut entry = Entry::new(index, queue, data_bytes);
            let (header, data) = entry.memory.split_at_mut(HEADER_BYTES);
            ring.parts
                .push([part(&mut header[..size_of::<RingHeader>()]), part(data)]);
            ring.unregistered.push(entry);
        }
        Ok(ring)
    }

    /// Registers the last `count` entries that are not registered. Appends entries that already have requests to
    /// `received`.
    ///
    /// # Errors
    /// The kernel refuses all of these entries although the connection has not ended, or accepts no commands.
    pub(super) fn register(&mut self, count: usize, received: &mut Vec<Entry>) -> io::Result<()> {
        let live = self.live;
        let first = self.unregistered.len().saturating_sub(count);
        for entry in self.unregistered.split_off(first) {
            self.give(entry);
        }
        while !self.uring.submission().is_empty() {
            match self.uring.submit() {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        self.take(received)?;
        match self.refusal.take() {
            None => Ok(()),
            Some(errno) if live - self.live < count => {
                tracing::warn!("the kernel refuses some entries of a queue: {errno}");
                Ok(())
            }
            Some(errno) => Err(errno.into()),
        }
    }

    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Returns whether the connection has ended and the kernel has dropped all entries.
    pub(super) fn is_ended(&self) -> bool {
        self.live == 0
    }

    /// Gives an entry to the kernel, with its reply if it has one. The next [`Ring::wait`] submits the entry.
    pub(super) fn give(&mut self, mut entry: Entry) {
        let (header, _) = entry.parts();
        let command = RingCommand {
            commit_id: header.commit_id,
            queue: entry.queue,
            ..RingCommand::default()
        };
        let mut bytes = [0; 80];
        bytes[..size_of::<RingCommand>()].copy_from_slice(command.as_bytes());
        let device = types::Fd(self.connection.as_fd().as_raw_fd());
        let (index, is_registered) = (entry.index, entry.is_registered);
        self.in_kernel[index] = Some(entry);
        let submission = if is_registered {
            opcode::UringCmd80::new(device, RING_COMMIT_AND_FETCH)
                .cmd(bytes)
                .build()
        } else {
            let parts = &raw const self.parts[index];
            let command = opcode::UringCmd80::new(device, RING_REGISTER)
                .cmd(bytes)
                .addr(Some(parts as u64))
                .build();
            with_len(command, 2)
        };
        self.submit(&submission.user_data(index as u64));
    }

    fn submit(&mut self, submission: &squeue::Entry128) {
        // SAFETY: the submission points to an element of `parts`, which is never moved, changed or freed, and
        // which points to the memory of an entry in `in_kernel`.
        let submitted = unsafe { self.uring.submission().push(submission) };
        submitted.expect("by invariant 3 the submission queue has room");
    }

    /// Submits the given entries, waits until an entry has a request or the ring is woken, and appends the
    /// entries with requests to `received`.
    ///
    /// # Errors
    /// The kernel refuses to wait, or refuses a registered entry although the connection has not ended.
    pub(super) fn wait(&mut self, received: &mut Vec<Entry>) -> io::Result<()> {
        if !self.waits_for_waker {
            self.waits_for_waker = true;
            let event = types::Fd(self.waker.0.as_raw_fd());
            let readable = u32::try_from(libc::POLLIN).unwrap_or(1);
            let poll = opcode::PollAdd::new(event, readable).build();
            self.submit(&squeue::Entry128::from(poll).user_data(WAKE_KEY));
        }
        match self.uring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) => match Errno::from_io_error(&error) {
                // EBUSY and EAGAIN: take completions first, then submit the rest.
                Some(Errno::INTR | Errno::BUSY | Errno::AGAIN) => {}
                _ => return Err(error),
            },
        }
        self.take(received)
    }

    /// Takes the completions from the ring.
    fn take(&mut self, received: &mut Vec<Entry>) -> io::Result<()> {
        while let Some((key, result)) = self.next_completion() {
            if key == WAKE_KEY {
                self.waits_for_waker = false;
                // If the read fails, the event remains set, and the next wait ends at once.
                let _ = rustix::io::read(&self.waker.0, &mut [0; 8]);
                continue;
            }
            let slot = usize::try_from(key)
                .ok()
                .and_then(|index| self.in_kernel.get_mut(index));
            let mut entry = slot
                .and_then(Option::take)
                .expect("the key is the index of an entry in the kernel");
            if result >= 0 {
                entry.is_registered = true;
                received.push(entry);
                continue;
            }
            match Errno::from_raw_os_error(-result) {
                Errno::AGAIN | Errno::INTR => self.give(entry),
                // The connection has ended, and the kernel has dropped the entry.
                Errno::NOTCONN
                | Errno::CONNABORTED
                | Errno::NODEV
                | Errno::NOENT
                | Errno::CANCELED => self.live -= 1,
                errno if !entry.is_registered => {
                    self.live -= 1;
                    self.refusal = Some(errno);
                }
                errno => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn next_completion(&mut self) -> Option<(u64, i32)> {
        let completion = self.uring.completion().next()?;
        Some((completion.user_data(), completion.result()))
    }
}

/// Makes the kernel pass all requests through /dev/fuse although the reply to `INIT` has accepted `io_uring`. At least
/// one queue must have no entry.
///
/// Until each queue has an entry, the kernel passes no request to any queue. If it refuses an entry, it stops waiting for
/// the others, and uses /dev/fuse. Therefore this function registers an entry for a queue that does not exist.
///
/// # Errors
/// The command did not reach the FUSE driver, for example because a security module does not permit it. The kernel then
/// keeps waiting for the queues.
pub(super) fn decline(connection: &Arc<Connection>) -> io::Result<()> {
    let mut ring = Ring::new(connection, &[u16::MAX], 0)?;
    let registered = ring.register(1, &mut Vec::new());
    registered.or_else(|error| match Errno::from_io_error(&error) {
        // EOPNOTSUPP: the kernel has refused another entry before, and already uses /dev/fuse.
        Some(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        _ => Err(error),
    })
}

/// Gives `thread` the scheduling policy `SCHED_IDLE` if `is_idle`, otherwise the normal policy. Threads that
/// `thread` starts get the normal policy.
pub(super) fn set_idle_policy(thread: Pid, is_idle: bool) -> Result<(), Errno> {
    let policy = if is_idle {
        libc::SCHED_IDLE | libc::SCHED_RESET_ON_FORK
    } else {
        libc::SCHED_OTHER
    };
    // The kernel's `struct sched_param`. The C library musl has another one, and no sched_setscheduler(2).
    let priority: libc::c_int = 0;
    let thread = thread.as_raw_nonzero().get();
    // SAFETY: the call reads `priority` and changes no memory.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            thread,
            policy,
            &raw const priority,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::PERM))
    }
}

fn part(memory: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: memory.as_mut_ptr().cast(),
        iov_len: memory.len(),
    }
}

/// Sets the field `len` of a submission.
fn with_len(mut submission: squeue::Entry128, len: u32) -> squeue::Entry128 {
    const { assert!(size_of::<squeue::Entry128>() == 128) };
    // SAFETY: a submission is 128 bytes of integers, in the layout of the kernel's `struct io_uring_sqe`.
    unsafe {
        (&raw mut submission)
            .cast::<u32>()
            .add(LEN_FIELD)
            .write(len);
    }
    submission
}

// SAFETY: the pointers in `parts` point to the memory of the entries, which any thread may use.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still use the memory of these entries.
        std::mem::forget(std::mem::take(&mut self.in_kernel));
        std::mem::forget(std::mem::take(&mut self.parts));
    }
}

impl Debug for Ring {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("entries", &self.in_kernel.len())
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}
