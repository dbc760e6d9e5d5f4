//! Numbers of threads, small and reused, by which threads choose what they need not share.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Relaxed};

/// Threads that have a number each. One bit each in [`TAKEN`].
pub(crate) const NUMBERED: usize = 64;

/// Which numbers have a thread.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Not asked yet.
const UNKNOWN: usize = usize::MAX;

thread_local! {
    /// This thread's number. Has no destructor, so that access is one instruction.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    /// Gives the number back when the thread ends.
    static OWNER: Owner = Owner::new();
}

#[derive(Debug)]
struct Owner(usize);

impl Owner {
    fn new() -> Self {
        let mut taken = TAKEN.load(Relaxed);
        while taken != u64::MAX {
            let number = taken.trailing_ones();
            match TAKEN.compare_exchange(taken, taken | 1 << number, AcqRel, Relaxed) {
                Ok(_) => return Self(number as usize),
                Err(now) => taken = now,
            }
        }
        Self(NUMBERED)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // What this thread still does while it ends is done without a number of its own.
        NUMBER.set(NUMBERED);
        if self.0 < NUMBERED {
            TAKEN.fetch_and(!(1 << self.0), AcqRel);
        }
    }
}

/// The calling thread's number: the lowest that no other thread has, or 64 if as many have one.
#[must_use]
#[inline]
pub fn thread_number() -> usize {
    match assigned_number() {
        UNKNOWN => assign_number(),
        number => number,
    }
}

/// The calling thread's number; above all numbers if it was not asked for before.
#[inline]
pub(crate) fn assigned_number() -> usize {
    NUMBER.get()
}

#[cold]
fn assign_number() -> usize {
    NUMBER.set(OWNER.try_with(|owner| owner.0).unwrap_or(NUMBERED));
    NUMBER.get()
}
