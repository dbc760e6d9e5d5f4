//! Thread numbers: small integers with which threads select their own elements of an array. When a thread
//! ends, a later thread can get its number.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Relaxed};

/// The maximum number of threads with numbers of their own. Each number is one bit in [`TAKEN`].
pub(crate) const NUMBERED: usize = 64;

/// A bit for each number, which is set while a thread has the number.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The value of [`NUMBER`] in a thread that has no number yet.
const UNKNOWN: usize = usize::MAX;

thread_local! {
    /// The number of this thread. The variable has no destructor, so an access is one instruction.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    /// Whether the lookups of this thread are not counted.
    static IS_UNCOUNTED: Cell<bool> = const { Cell::new(false) };
    /// The guard that releases the number when the thread ends.
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

/// Returns the number of the calling thread. The first call assigns the lowest unused number to the thread.
/// If all numbers are in use, the call assigns 64, which several threads can share.
#[must_use]
#[inline]
pub fn thread_number() -> usize {
    match assigned_number() {
        UNKNOWN => assign_number(),
        number => number,
    }
}

/// Returns the number of the calling thread, or [`UNKNOWN`] if the thread has no number yet. [`UNKNOWN`] is
/// greater than all numbers.
#[inline]
pub(crate) fn assigned_number() -> usize {
    NUMBER.get()
}

#[cold]
fn assign_number() -> usize {
    let number = OWNER.try_with(|owner| owner.0).unwrap_or(NUMBERED);
    // Without an assigned number, each lookup takes the slow path, which checks whether the lookup is counted.
    if !IS_UNCOUNTED.get() {
        NUMBER.set(number);
    }
    number
}

/// A guard: until it is dropped, the lookups of the thread are neither counted in the statistics of the caches nor
/// recorded on a tape. It is for lookups that no user of the caches causes.
#[derive(Debug)]
#[must_use = "lookups are counted again when this is dropped"]
pub struct Uncounted(PhantomData<*const ()>);

impl Uncounted {
    /// Begins a period in which the lookups of this thread are not counted. Such periods must not be nested.
    pub fn begin() -> Self {
        IS_UNCOUNTED.set(true);
        NUMBER.set(UNKNOWN);
        Self(PhantomData)
    }

    /// Returns whether the lookups of this thread are not counted.
    pub(crate) fn is_active() -> bool {
        IS_UNCOUNTED.get()
    }
}

impl Drop for Uncounted {
    fn drop(&mut self) {
        IS_UNCOUNTED.set(false);
    }
}
