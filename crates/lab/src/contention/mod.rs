//! A simulation of contention: how processors delay one another with locks and cache lines, in virtual
//! time.
//!
//! # Model
//! An operation of a real variant of mbcache is run once, alone, and records what it locks, writes and
//! holds ([`record`]). A [`Machine`] with any number of processors then simulates such operations of
//! many workers that run concurrently ([`Machine::simulate`]). Each step has a cost ([`Prices`]):
//!
//! - A lock or line that another processor used last costs a **transfer** before it can be used. This
//!   counts as a handover. A worker that wants one that is in use waits in a queue and keeps its
//!   processor, as with a spinlock.
//! - A worker that needs an entry that is held **parks**: it releases the lock under which it found
//!   the entry held, and sleeps. The worker that releases that entry wakes all parked workers,
//!   whichever entry they wait for, and pays for this after it releases the lock. Each woken worker
//!   acquires the lock again and checks its entry.
//! - If there are more workers than processors, they take turns after each operation, or when one
//!   parks.
//!
//! # Limitations
//! Operations are recorded one after the other, so work that an operation does only because another is
//! in progress is not simulated. Places that the cache does not report (the file system's own locks,
//! the memory allocator) cost nothing. Every transfer costs the same, whatever the distance. No worker
//! is preempted during an operation.
//!
//! # Cost
//! The time is proportional to the number of steps, times the logarithm of the number of processors.
//! Waking all workers is proportional to their number.

mod machine;
pub mod record;

pub use machine::{Machine, Outcome, Prices, Step};
