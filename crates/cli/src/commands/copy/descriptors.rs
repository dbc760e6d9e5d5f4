//! The limit of open files.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files to the maximum, because a recursive copy keeps a descriptor open for each
/// level of directories.
pub(in crate::commands) fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(errno) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!("cannot raise the limit of open files: {errno}");
    }
}
