//! Simulates contention in virtual time: how the locks and cache lines of mbcache delay processors that use
//! it concurrently.
//!
//! # Model
//! Operations of a variant of mbcache are executed one after the other, and their accesses to locks, cache
//! lines and entries are recorded ([`record`]). A [`Machine`] with any number of processors then simulates
//! the recorded operations of many workers (simulated threads) that run concurrently ([`Machine::simulate`]).
//! Each step of an operation has a cost ([`Prices`]):
//!
//! - A lock or line that another processor used last must be **transferred** before its use. A transfer is
//!   counted as a handover. A worker that accesses a lock or line that is in use waits in a queue and keeps its
//!   processor, as with a spinlock. Each worker that waits makes the transfer more expensive, because the
//!   processors of waiting workers read the line too.
//! - A worker that needs an entry that another worker holds **parks**: it releases its lock and sleeps. The
//!   worker that releases the entry wakes all parked workers, including those that wait for other entries. That
//!   worker spends the time for the wake-ups after it has released its own lock. Each woken worker acquires its
//!   lock again and checks its entry.
//! - A worker that changes a block adds it to the running transaction of a **journal**. If the transaction has
//!   its maximum number of blocks, it is committed, and a new one begins. If the previous commit has not
//!   ended, all workers that add a block wait for its end first.
//! - If there are more workers than processors, a processor runs its next worker after each operation, or
//!   when its worker parks.
//!
//! # Limitations
//! Operations are recorded one after the other. If an operation does additional work when another one is in
//! progress, this work is not simulated. The file system is simulated by a number of lines that all operations
//! write, and by the journal; its other locks and the memory allocator cost nothing. A transfer costs the same
//! whatever the distance. No worker is preempted during an operation.
//!
//! # Cost
//! The time is proportional to the number of steps, times the logarithm of the number of processors. The time
//! of waking all workers is proportional to their number.

mod journal;
mod machine;
pub mod record;

pub use journal::JournalSize;
pub use machine::{Machine, Outcome, Prices, Step};
