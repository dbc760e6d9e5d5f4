//! A debug check that a thread does not wait for a device while this is forbidden.
//!
//! While a thread holds a lock that many others need, it forbids itself to wait for a device. A
//! journal handle of `larder-ext4` is such a lock. These calls check this in debug builds:
//!
//! - all blocking calls of a [`CountingDevice`], including [`perform`], flushes and discards. The caches and the journal
//!   of a volume use such a device, so every test of the layers above checks it too.
//! - most blocking calls of [`FileDevice`], [`DirectDevice`], [`MemoryDevice`] and [`DeadlineDevice`].
//! - each wait for the requests of a batch.
//!
//! [`submit`] does not check this, because it does not wait. Waits for other threads, for example for a page that another
//! thread reads, are not checked either.
//!
//! Cost: none in release builds.
//!
//! [`CountingDevice`]: crate::CountingDevice
//! [`DeadlineDevice`]: crate::DeadlineDevice
//! [`DirectDevice`]: crate::DirectDevice
//! [`FileDevice`]: crate::FileDevice
//! [`MemoryDevice`]: crate::MemoryDevice
//! [`perform`]: crate::BlockDevice::perform
//! [`submit`]: crate::BlockDevice::submit

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static IS_FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// A part of a thread's work in which waiting for a device is forbidden, or allowed again. The part
/// ends when this value is dropped.
#[derive(Debug)]
#[must_use = "the part ends when this is dropped"]
pub struct Waiting {
    was_forbidden: bool,
    /// Makes the type `!Send`: a part belongs to one thread.
    _thread: PhantomData<*const ()>,
}

impl Waiting {
    /// Forbids this thread to wait for a device: an access panics in debug builds.
    pub fn forbid() -> Self {
        Self::set(true)
    }

    /// Allows this thread to wait for a device, even inside a part that forbids it. This is meant
    /// for the last actions after a failure.
    pub fn allow() -> Self {
        Self::set(false)
    }

    /// Ends the current part early, so that this thread may wait for a device.
    pub fn end() {
        IS_FORBIDDEN.set(false);
    }

    fn set(is_forbidden: bool) -> Self {
        Self {
            was_forbidden: IS_FORBIDDEN.replace(is_forbidden),
            _thread: PhantomData,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        IS_FORBIDDEN.set(self.was_forbidden);
    }
}

/// Panics in debug builds if this thread must not wait for a device.
#[inline]
pub(crate) fn check() {
    debug_assert!(
        !IS_FORBIDDEN.get(),
        "a thread waits for a device where waiting is forbidden"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_allow_forbids_waiting_again() {
        check();
        let forbidden = Waiting::forbid();
        let allowed = Waiting::allow();
        check();
        drop(allowed);
        assert!(IS_FORBIDDEN.get());
        drop(forbidden);
        check();
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "waits for a device")]
    fn access_in_a_forbidden_part_panics() {
        use crate::{BlockDevice, MemoryDevice};
        let device = MemoryDevice::new(vec![0; 8]);
        let _forbidden = Waiting::forbid();
        let _ = device.read_at(&mut [0; 4], 0);
    }
}
