//! Threads that write to the image in the background. A panic in one of them stops all writing.
//!
//! Without this, a mount whose flusher ended would accept writes and commit nothing. Therefore a
//! panic of such a thread aborts the file system, as the first failed write does: changes are
//! refused with `EROFS`, and fsync and close return `EIO` with the reason.

use crate::live::Inodes;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Starts a thread with the name `name`. If `work` panics, the file system is aborted, with
/// `panicked` as the reason.
pub(crate) fn spawn(
    inodes: &Arc<Inodes>,
    name: &str,
    panicked: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let inodes = Arc::clone(inodes);
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            // No lock is poisoned, and the data that a guard protects is consistent once the guard
            // is dropped.
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                tracing::error!("{panicked}");
                let error = larder_ext4::Error::Invariant(panicked);
                inodes.fs.abort(&error);
            }
        })
        .map_err(Error::Thread)
}
