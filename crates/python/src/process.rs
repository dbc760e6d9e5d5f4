//! Objects that only the process that created them can use.
//!
//! # Safety
//! The handler of fork(2) runs in a process of which only one thread was copied. It must not wait for a lock, and
//! therefore only increments an atomic number.
#![allow(unsafe_code, reason = "registers a handler of fork(2)")]

use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of forks between the process that loaded this module and this process.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Detects forks from now on. A handler of the C library runs before those of Python, which may already drop objects.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn detect_forks() -> io::Result<()> {
    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler exists as long as the process, because Python never unloads a module.
    match unsafe { libc::pthread_atfork(None, None, Some(forked)) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// A value that is only used, and only dropped, by the process that created it. In other processes, it is leaked.
#[derive(Debug)]
pub(crate) struct Local<T> {
    value: Option<T>,
    forks: u64,
}

impl<T> Local<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Some(value),
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    /// Returns the value, or `None` in another process.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.is_here())
    }

    /// Returns the value, or leaks it and returns `None` in another process.
    pub(crate) fn into_value(mut self) -> Option<T> {
        if self.is_here() {
            self.value.take()
        } else {
            None
        }
    }

    fn is_here(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

impl<T> Drop for Local<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            mem::forget(self.value.take());
        }
    }
}
