//! The memory in which replies are composed, except those that are composed in the entries of a ring.
//!
//! # Model
//! - A receiver has memory for the largest reply.
//! - A worker has memory for replies of at most [`SMALL_REPLY_BYTES`]. For a larger reply, it borrows memory from a pool. An
//!   image at a URL has many workers, and the kernel reads from it at most [`SMALL_REPLY_BYTES`] at once, except for direct
//!   reads.
//! - The pool lends memory for at most [`LARGE_REPLIES`] replies at once. Further workers wait before they begin to
//!   answer, so they hold nothing for which another worker could wait.
//! - The pool keeps returned memory for the next large reply, but no more than one piece for each thread that has
//!   borrowed memory and has not ended. Idle workers end, so an idle mount keeps none.
//!
//! A page of any memory is allocated when it is first used.
//!
//! # Locking
//! One lock, which is not held while memory is allocated or freed.

use crate::protocol::handshake::DATA_BYTES;
use larder_block::AlignedBytes;
use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;

/// The maximum length of the body of a reply, in bytes, unless the request reads a file or a directory
/// ([`Request::reply_bytes`](crate::protocol::Request::reply_bytes)). The largest of these bodies is the value of an
/// extended attribute. This is also the default of the kernel's readahead.
pub(super) const SMALL_REPLY_BYTES: usize = 128 << 10;
/// The number of larger replies that workers compose at once. By default, a mount of a local image has fewer workers.
const LARGE_REPLIES: usize = 32;
/// The alignment of the memory, which direct I/O requires.
const ALIGN_BYTES: usize = 4096;

thread_local! {
    static OF_RECEIVER: RefCell<AlignedBytes> = RefCell::new(large());
    static OF_WORKER: RefCell<AlignedBytes> =
        RefCell::new(AlignedBytes::zeroed(SMALL_REPLY_BYTES, ALIGN_BYTES));
    static BORROWER: Borrower = Borrower::of(&POOL);
}

static POOL: Pool = Pool::new();

/// Calls `run` with the memory of this thread, which is a receiver.
pub(super) fn with_receiver_memory<R>(run: impl FnOnce(&mut [u8]) -> R) -> R {
    OF_RECEIVER.with_borrow_mut(|memory| run(memory))
}

/// Calls `run`, on a worker, with memory for a reply of `len` bytes. May wait for other workers.
pub(super) fn with_worker_memory<R>(len: usize, run: impl FnOnce(&mut [u8]) -> R) -> R {
    if len <= SMALL_REPLY_BYTES {
        return OF_WORKER.with_borrow_mut(|memory| run(memory));
    }
    // The first use on a thread counts the thread.
    BORROWER.with(|_| {});
    run(POOL.borrow().bytes())
}

/// Returns memory for the largest reply.
fn large() -> AlignedBytes {
    AlignedBytes::zeroed(DATA_BYTES as usize, ALIGN_BYTES)
}

/// The memory for large replies, which workers share.
struct Pool {
    state: Mutex<State>,
    /// Signals that memory was returned.
    returned: Condvar,
}

struct State {
    /// The memory that is not in use.
    free: Vec<AlignedBytes>,
    /// The number of replies that are composed in memory of the pool.
    used: usize,
    /// The number of threads that have borrowed memory and have not ended.
    threads: usize,
}

impl Pool {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                free: Vec::new(),
                used: 0,
                threads: 0,
            }),
            returned: Condvar::new(),
        }
    }

    /// Waits until fewer than [`LARGE_REPLIES`] large replies are being composed, and returns memory.
    fn borrow(&self) -> Borrowed<'_> {
        let mut state = self.state.lock();
        while state.used == LARGE_REPLIES {
            self.returned.wait(&mut state);
        }
        state.used += 1;
        let free = state.free.pop();
        drop(state);
        Borrowed {
            pool: self,
            memory: Some(free.unwrap_or_else(large)),
        }
    }
}

/// Memory for a large reply. The drop returns it to the pool.
struct Borrowed<'p> {
    pool: &'p Pool,
    /// `None` only during the drop.
    memory: Option<AlignedBytes>,
}

impl Borrowed<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        self.memory.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.used -= 1;
        state.free.extend(self.memory.take());
        drop(state);
        self.pool.returned.notify_one();
    }
}

/// A thread that has borrowed memory, and that has not ended.
struct Borrower(&'static Pool);

impl Borrower {
    fn of(pool: &'static Pool) -> Self {
        pool.state.lock().threads += 1;
        Self(pool)
    }
}

impl Drop for Borrower {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.threads -= 1;
        let kept = state.free.len().min(state.threads);
        let freed = state.free.split_off(kept);
        drop(state);
        drop(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    fn free(pool: &Pool) -> usize {
        pool.state.lock().free.len()
    }

    #[test]
    fn memory_has_the_length_of_the_reply() {
        with_receiver_memory(|memory| assert_eq!(memory.len(), DATA_BYTES as usize));
        with_worker_memory(SMALL_REPLY_BYTES, |memory| {
            assert_eq!(memory.len(), SMALL_REPLY_BYTES);
        });
        with_worker_memory(SMALL_REPLY_BYTES + 1, |memory| {
            assert_eq!(memory.len(), DATA_BYTES as usize);
            assert!(memory.as_ptr().addr().is_multiple_of(ALIGN_BYTES));
        });
    }

    #[test]
    fn worker_waits_if_too_many_large_replies_are_composed() {
        static POOL: Pool = Pool::new();
        let mut used: Vec<_> = (0..LARGE_REPLIES).map(|_| POOL.borrow()).collect();
        let (sender, receiver) = channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _one_more = POOL.borrow();
                sender.send(POOL.state.lock().used).unwrap();
            });
            used.pop();
            assert_eq!(receiver.recv().unwrap(), LARGE_REPLIES);
        });
        drop(used);
        assert_eq!(POOL.state.lock().used, 0);
        assert_eq!(free(&POOL), LARGE_REPLIES);
    }

    #[test]
    fn memory_is_freed_when_the_threads_end() {
        static POOL: Pool = Pool::new();
        let threads = [Borrower::of(&POOL), Borrower::of(&POOL)];
        let used = [POOL.borrow(), POOL.borrow()];
        assert_eq!(free(&POOL), 0);
        drop(used);
        assert_eq!(free(&POOL), 2);
        for (thread, left) in threads.into_iter().zip([1, 0]) {
            drop(thread);
            assert_eq!(free(&POOL), left);
        }
    }
}
