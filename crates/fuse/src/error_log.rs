//! Logs failures of operations, and avoids repeated messages.
//!
//! Every access to a damaged inode fails. For each pair of a node and an errno, the first failure is
//! logged as a warning or an error, and later failures at the debug level. The log stores at most
//! [`MAX_LOGGED`] such pairs. When it is full, it discards all of them, so a failure can be logged as
//! a warning or an error again.
//!
//! An errno that is ordinary on an undamaged image, such as `ENOENT`, is always logged at the trace
//! level.

use larder::Error;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::HashSet;

const MAX_LOGGED: usize = 1024;

/// The set of failures that were logged.
#[derive(Debug, Default)]
pub(crate) struct ErrorLog {
    logged: Mutex<HashSet<(u64, i32)>>,
}

impl ErrorLog {
    /// Logs that `operation` failed on `node`, and returns the errno for the reply.
    pub(crate) fn failed(&self, operation: &'static str, node: u64, error: &Error) -> Errno {
        let errno = error.errno();
        if is_ordinary(errno) {
            tracing::trace!(operation, node, %errno, "{error}");
        } else if !self.is_first(node, errno) {
            tracing::debug!(operation, node, %errno, "{error}");
        } else if matches!(errno, Errno::UCLEAN | Errno::IO) {
            tracing::error!(operation, node, "{error}");
        } else {
            tracing::warn!(operation, node, "{error}");
        }
        errno
    }

    fn is_first(&self, node: u64, errno: Errno) -> bool {
        let mut logged = self.logged.lock();
        if logged.len() >= MAX_LOGGED {
            logged.clear();
        }
        logged.insert((node, errno.raw_os_error()))
    }
}

/// Returns whether operations on an undamaged image often fail with `errno`.
fn is_ordinary(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT
            | Errno::AGAIN
            | Errno::NXIO
            | Errno::ISDIR
            | Errno::NOTDIR
            | Errno::INVAL
            | Errno::EXIST
            | Errno::NOTEMPTY
            | Errno::NODATA
            | Errno::OPNOTSUPP
            | Errno::RANGE
            | Errno::PERM
            | Errno::NOSPC
            | Errno::NAMETOOLONG
            | Errno::MLINK
            | Errno::FBIG
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_failure_is_logged_once() {
        let log = ErrorLog::default();
        assert!(log.is_first(12, Errno::UCLEAN));
        assert!(!log.is_first(12, Errno::UCLEAN));
        assert!(log.is_first(12, Errno::IO));
        assert!(log.is_first(13, Errno::UCLEAN));
    }

    #[test]
    fn number_of_remembered_failures_is_bounded() {
        let log = ErrorLog::default();
        for node in 0..10 * MAX_LOGGED as u64 {
            log.is_first(node, Errno::IO);
            assert!(log.logged.lock().len() <= MAX_LOGGED);
        }
    }
}
