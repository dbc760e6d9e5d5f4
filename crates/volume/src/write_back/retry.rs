//! Repeats an operation that ran out of space, if a commit can make space available.
//!
//! Model: `ext4_should_retry_alloc`. Blocks that a transaction freed can be allocated only after
//! that transaction is committed. Therefore a thread that finds no space commits and tries again.
//! If another thread allocates the released blocks first, the thread commits again, as long as
//! there are freed blocks to release.

use crate::{Error, Result};
use larder_ext4::{Error as Ext4, Filesystem, MemoryOnly};

/// The maximum number of tries. Each new try follows a commit that released blocks. A try fails
/// again if other threads have allocated these blocks, or if the operation needs more space than
/// there is. The limit ends the operation even if each commit releases some blocks.
const MAX_TRIES: u32 = 32;

/// Calls `run`. If `run` fails for lack of blocks or inodes, and a commit releases freed blocks, calls
/// `run` again, at most [`MAX_TRIES`] times in total. After an error, a new call of `run` must be able
/// to repeat or to continue the work. The caller must not have a handle open.
pub(crate) fn retry_after_commit<R>(
    fs: &Filesystem,
    mut run: impl FnMut() -> Result<R>,
) -> Result<R> {
    for _ in 1..MAX_TRIES {
        let since = fs.releases();
        let done = run();
        if !matches!(done, Err(Error::Ext4(Ext4::NoSpace | Ext4::NoInodes))) {
            return done;
        }
        MemoryOnly::check_may_wait()?;
        if !fs.commit_freed(since)? {
            return done;
        }
    }
    run()
}
