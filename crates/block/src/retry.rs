//! System calls that a signal may interrupt.

use rustix::io::Errno;

/// Calls again as long as a signal interrupts.
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}
