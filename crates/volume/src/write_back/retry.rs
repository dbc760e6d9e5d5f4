//! Another try where space is about to become free.
//!
//! Model: `ext4_should_retry_alloc`. What a transaction freed can be claimed once it is
//! committed, so that whoever finds nothing commits and looks again. Others look at the same
//! time, and may take what one commit gave back: then there is a next one.

use crate::{Error, Result};
use larder_ext4::{Error as Ext4, Filesystem};

/// The most tries of one who finds nothing, each after another commit that gave blocks back. Each time
/// somebody else had them, so that all together go on; what needs more than is left
/// ends here.
const MOST_TRIES: u32 = 32;

/// Does `run`; again while it lacks space and what was freed could be committed. It must leave
/// nothing half-done where it fails, and hold no handle.
pub(crate) fn retry_after_commit<R>(
    fs: &Filesystem,
    mut run: impl FnMut() -> Result<R>,
) -> Result<R> {
    for _ in 1..MOST_TRIES {
        let since = fs.releases();
        match run() {
            Err(Error::Ext4(Ext4::NoSpace | Ext4::NoInodes)) if fs.commit_freed(since)? => {}
            done => return done,
        }
    }
    run()
}
