//! Paths of open files.

use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

/// Returns a path that leads to the file of an open descriptor, even if the file is a symbolic link.
pub(super) fn path(descriptor: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd()).into()
}
