//! Numbers of threads, small and reused, which select per-thread data.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Relaxed};

/// The largest number of threads with separate numbers. Each has one bit in [`TAKEN`].
pub(crate) const NUMBERED: usize = 64;

/// The numbers in use.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The thread has no number yet.
const UNKNOWN: usize = usize::MAX;

thread_local! {
    /// This thread's number. It has no destructor, so an access is one instruction.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    /// Releases the number when the thread ends.
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
        // Later operations of the ending thread use the shared number.
        NUMBER.set(NUMBERED);
        if self.0 < NUMBERED {
            TAKEN.fetch_and(!(1 << self.0), AcqRel);
        }
    }
}

/// Returns the calling thread's number: the lowest unused one, or 64 if all are in use.
#[must_use]
#[inline]
pub fn thread_number() -> usize {
    match assigned_number() {
        UNKNOWN => assign_number(),
        number => number,
    }
}

/// Returns the calling thread's number. The result is greater than all numbers if the thread has
/// none yet.
#[inline]
pub(crate) fn assigned_number() -> usize {
    NUMBER.get()
}

#[cold]
fn assign_number() -> usize {
    NUMBER.set(OWNER.try_with(|owner| owner.0).unwrap_or(NUMBERED));
    NUMBER.get()
}
