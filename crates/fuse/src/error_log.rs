//! Logs failures of operations, and avoids repeated messages.
//!
//! Every access to a damaged inode fails. For each pair of a node and an errno, the first failure is
//! logged as a warning or an error, and later failures at the debug level. The log stores at most
//! [`MAX_LOGGED`] such pairs. When it is full, it discards all of them, so a failure can be logged as
//! a warning or an error again.
//!
//! An errno that is an ordinary result of the operation on an undamaged image, such as `ENOENT`, is
//! always logged at the trace level.

use larder::Error;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::HashSet;
use tracing::Level;

const MAX_LOGGED: usize = 1024;

/// The operations for which `EOPNOTSUPP` is an ordinary result: programs try which attributes, modes
/// and flags a file has. Other operations fail with `EOPNOTSUPP` only because of features of the image
/// that are not supported.
const NOT_ALWAYS_SUPPORTED: [&str; 5] =
    ["getxattr", "setxattr", "removexattr", "fallocate", "ioctl"];

/// The set of failures that were logged.
#[derive(Debug, Default)]
pub(crate) struct ErrorLog {
    logged: Mutex<HashSet<(u64, i32)>>,
}

impl ErrorLog {
    /// Logs that `operation` failed on `node`, and returns the errno for the reply.
    pub(crate) fn failed(&self, operation: &'static str, node: u64, error: &Error) -> Errno {
        let errno = error.errno();
        match self.level(operation, node, errno) {
            Level::TRACE => tracing::trace!(operation, node, %errno, "{error}"),
            Level::DEBUG => tracing::debug!(operation, node, %errno, "{error}"),
            Level::WARN => tracing::warn!(operation, node, "{error}"),
            _ => tracing::error!(operation, node, "{error}"),
        }
        errno
    }

    /// Returns the level at which the failure is logged.
    fn level(&self, operation: &str, node: u64, errno: Errno) -> Level {
        if is_ordinary(operation, errno) {
            Level::TRACE
        } else if !self.is_first(node, errno) {
            Level::DEBUG
        } else if matches!(errno, Errno::UCLEAN | Errno::IO) {
            Level::ERROR
        } else {
            Level::WARN
        }
    }

    fn is_first(&self, node: u64, errno: Errno) -> bool {
        let mut logged = self.logged.lock();
        if logged.len() >= MAX_LOGGED {
            logged.clear();
        }
        logged.insert((node, errno.raw_os_error()))
    }
}

/// Returns whether `operation` on an undamaged image often fails with `errno`.
fn is_ordinary(operation: &str, errno: Errno) -> bool {
    match errno {
        Errno::OPNOTSUPP => NOT_ALWAYS_SUPPORTED.contains(&operation),
        Errno::NOENT
        | Errno::AGAIN
        | Errno::NXIO
        | Errno::ISDIR
        | Errno::NOTDIR
        | Errno::INVAL
        | Errno::EXIST
        | Errno::NOTEMPTY
        | Errno::NODATA
        | Errno::PERM
        | Errno::XDEV
        | Errno::NOSPC
        | Errno::NAMETOOLONG
        | Errno::MLINK
        | Errno::FBIG => true,
        _ => false,
    }
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
    fn only_ordinary_failures_are_logged_at_trace_level() {
        for (operation, errno, first, again) in [
            ("lookup", Errno::NOENT, Level::TRACE, Level::TRACE),
            ("link", Errno::XDEV, Level::TRACE, Level::TRACE),
            ("getxattr", Errno::OPNOTSUPP, Level::TRACE, Level::TRACE),
            ("fallocate", Errno::OPNOTSUPP, Level::TRACE, Level::TRACE),
            ("ioctl", Errno::OPNOTSUPP, Level::TRACE, Level::TRACE),
            // A lookup in a directory that ignores case.
            ("lookup", Errno::OPNOTSUPP, Level::WARN, Level::DEBUG),
            ("mkdir", Errno::OPNOTSUPP, Level::WARN, Level::DEBUG),
            ("read", Errno::NOKEY, Level::WARN, Level::DEBUG),
            ("read", Errno::UCLEAN, Level::ERROR, Level::DEBUG),
        ] {
            let log = ErrorLog::default();
            let levels = [12, 12].map(|node| log.level(operation, node, errno));
            assert_eq!(levels, [first, again], "{operation} {errno}");
        }
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
