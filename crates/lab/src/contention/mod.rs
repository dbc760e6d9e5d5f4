//! Contention: what processors do to one another with their locks and cache lines, in virtual time.
//!
//! # Model
//! An operation of a real variant of mbcache is run once, alone, and tells what it locks, writes and
//! holds ([`record`]). A [`Machine`] with any number of processors then plays such operations of many
//! workers against each other ([`Machine::play`]), each step at its price ([`Prices`]):
//!
//! - A lock or a line that another processor had last costs a **transfer** before it can be used:
//!   a hand-over. Who wants one that is in use waits in line, and keeps his processor, as for a
//!   spinlock.
//! - An entry that is held, so that a worker may not have it, makes the worker **park**: he gives back
//!   the lock under which he found that out, and sleeps. Whoever lets that entry go wakes all who are
//!   parked, whichever entry they wait for, and pays for it once he has given back the lock; each of
//!   them takes the lock again and looks.
//! - Workers beyond the number of processors take turns after each operation, or when one parks.
//!
//! # What it leaves out
//! Operations were recorded one after the other, so what one does because another is in the middle of
//! his is not played. Places that the cache does not tell of (the file system's own locks, the memory
//! allocator) cost nothing. Every transfer costs the same, whatever the distance. Nobody is
//! preempted in the middle of an operation.
//!
//! # Cost
//! Time in the number of steps, times the logarithm of the processors; waking all is what it says.

mod machine;
pub mod record;

pub use machine::{Machine, Outcome, Prices, Step};
