//! Repeating an operation when space is about to become free.
//!
//! Model: `ext4_should_retry_alloc`. Blocks that a transaction freed can be claimed once it is
//! committed. Therefore a thread that finds no space commits and tries again. Other threads do the
//! same at the same time, and may claim the blocks that one commit freed. Then there is a next
//! commit.

use crate::{Error, Result};
use larder_ext4::{Error as Ext4, Filesystem};

/// The maximum number of tries of a thread that finds no space, each after another commit that
/// freed blocks. Each time other threads claimed them, so there is progress overall. An operation
/// that needs more space than is left ends after these tries.
const MAX_TRIES: u32 = 32;

/// Calls `run`, and repeats it while it lacks space and a commit can free blocks. If `run` fails,
/// it must leave nothing half-done. The caller holds no handle.
pub(crate) fn retry_after_commit<R>(
    fs: &Filesystem,
    mut run: impl FnMut() -> Result<R>,
) -> Result<R> {
    for _ in 1..MAX_TRIES {
        let since = fs.releases();
        match run() {
            Err(Error::Ext4(Ext4::NoSpace | Ext4::NoInodes)) if fs.commit_freed(since)? => {}
            done => return done,
        }
    }
    run()
}
