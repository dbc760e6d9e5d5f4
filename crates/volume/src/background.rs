//! Starts threads that write to the image in the background. A panic of such a thread stops all
//! writing.
//!
//! The panic aborts the journal, as the first failed write does. After that, changes fail with `EROFS`, and
//! fsync and close return `EIO` with the reason. If the journal were not aborted, a mount whose flusher has
//! panicked would still accept writes, but would not commit them periodically.

use crate::live::Inodes;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Starts a thread named `name` that runs `work`. If `work` panics, aborts the journal with
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
            // `AssertUnwindSafe` is correct: the locks are not poisoned by a panic, and each guard
            // leaves consistent data when it is dropped.
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                tracing::error!("{panicked}");
                let error = larder_ext4::Error::Invariant(panicked);
                inodes.fs.abort(&error);
            }
        })
        .map_err(Error::Thread)
}
