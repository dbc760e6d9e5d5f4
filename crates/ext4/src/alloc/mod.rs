//! Free space: blocks and inodes, taken and given back.
//!
//! Model: ext4's multi-block allocator and Orlov's for directories.
//!
//! # A block's way
//! ```text
//!           claim               take            free              commit of the
//!   free ----------> claimed ----------> used ----------> freed -----------> free
//!     ^  (in memory)    |    (in bitmap)       (in bitmap)  transaction
//!     +-----------------+
//!           dropped
//! ```
//! A [`Claim`] keeps blocks for its owner in memory only, so that file data can be written to
//! them before anything on the image says that they are used; then one handle takes the claim
//! and maps the blocks, and no crash shows stale data or leaks blocks. What was freed is not
//! claimed again before the transaction that freed it is committed; it counts as free
//! nevertheless, and who finds no space asks for [`Filesystem::commit_freed`] and tries again.
//!
//! # Credits
//! A claim that is taken and a run that is freed change two blocks for each group that they lie in: the
//! bitmap and the descriptor. An inode's number changes three: one more if its block
//! of the inode table was never used.
//!
//! # Damage
//! Nothing is allocated in a group whose bitmap or descriptor is damaged, nor freed.

mod bits;
mod blocks;
mod changes;
mod claim;
mod claiming;
mod content_zone;
mod counts;
mod inodes;
mod load;
mod orlov;
mod run;
mod search;
mod space;
mod trim;
mod window;

pub(crate) use changes::AllocationChanges;
pub use claim::{Claim, MappingReservation, Reservation};
pub(crate) use counts::clusters_for_metadata;

use crate::ondisk::superblock::Superblock;
use crate::{Error, Filesystem, FsBlock, Ino, Result};
pub(crate) use space::Space;
use std::sync::Arc;

/// Block groups of a file system that can be written to, at most: 128 TiB in blocks of 4 KiB.
pub(crate) const GROUPS_MAX: u32 = 1 << 20;

/// The owner of bitmaps and descriptors in errors: none.
const NO_INO: Ino = Ino(0);

/// Refuses file systems whose space cannot be looked after: cut off at the end, or of more groups
/// than can be searched in a second.
///
/// # Errors
/// [`Error::NotWritable`].
pub(crate) fn check_geometry(sb: &Superblock, device_size_bytes: u64) -> Result<()> {
    if sb.missing_bytes(device_size_bytes) > 0 {
        return Err(Error::NotWritable("its end is missing".to_owned()));
    }
    if sb.groups_count > GROUPS_MAX {
        let what = format!("it has {} block groups", sb.groups_count);
        return Err(Error::NotWritable(what));
    }
    Ok(())
}

/// Where blocks are wanted, and what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// As near behind this block as possible.
    pub near: FsBlock,
    /// A large file that is being written from end to end: such streams are kept apart.
    pub is_stream: bool,
    /// The file that they are for; 0 if it is none. One that grows gets space set aside
    /// for what it will want next, until [`Filesystem::release_preallocation`].
    pub ino: Ino,
    /// Blocks that the file has: the last of them right before `near`. 0 for its first.
    pub file_blocks: u64,
    /// Whether what is kept back for the super-user may be taken.
    pub may_use_reserved: bool,
}

impl Filesystem {
    /// How often blocks that were freed became claimable: to be asked for before an attempt that may
    /// want space, for [`Filesystem::commit_freed`].
    #[must_use]
    pub fn releases(&self) -> u64 {
        let writer = self.writer.as_ref();
        writer.map_or(0, |_| self.allocator().releases())
    }

    /// Commits if that makes blocks claimable that were freed. True, after
    /// [`Error::NoSpace`], says that trying again may help: because of this commit, or because another
    /// one has done so since [`Filesystem::releases`] was `since`. Not to be called under a handle.
    ///
    /// # Errors
    /// The commit's.
    pub fn commit_freed(&self, since: u64) -> Result<bool> {
        let space = self.space()?;
        if space.has_pending() {
            self.commit(self.running_tid()?)?;
            return Ok(true);
        }
        Ok(space.releases() != since)
    }

    /// Free blocks and inodes, as the superblock of an image that is left clean says: by the
    /// bitmaps, whatever is claimed.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn free_counts(&self) -> Result<(u64, u32)> {
        let space = self.space()?;
        let counts = space.counts();
        let blocks = counts.free() << space.geometry.cluster_blocks_log2;
        let inodes = u32::try_from(counts.free_inodes).unwrap_or(u32::MAX);
        Ok((blocks, inodes))
    }

    /// Free blocks, those that anybody may have, and free inodes, if the file system was
    /// opened for writing. Not to be called under a handle.
    pub(crate) fn free_now(&self) -> Option<(u64, u64, u64)> {
        self.writer.as_ref()?;
        let space = self.allocator();
        if space.counts().need_exact(u64::MAX)
            && let Err(error) = self.count_free()
        {
            tracing::debug!(%error, "free blocks by the superblock");
        }
        let counts = space.counts();
        let free = counts.unpromised();
        let available = free.saturating_sub(counts.kept_back());
        let log2 = space.geometry.cluster_blocks_log2;
        Some((free << log2, available << log2, counts.free_inodes))
    }

    /// Sums up the group descriptors at open, if the superblock cannot be trusted.
    pub(crate) fn count_free_unless_known(&self) {
        let space = self.allocator();
        if !space.counts().is_known() {
            self.sum_up(space);
        }
    }

    /// Sums up the group descriptors. No handle is open meanwhile, so that the sums are
    /// those of one moment.
    fn count_free(&self) -> Result<()> {
        let space = self.space()?;
        let handle = self.start(0)?;
        self.sum_up(space);
        drop(handle);
        Ok(())
    }

    fn sum_up(&self, space: &Space) {
        if let Some((clusters, inodes)) = self.sum_of_free() {
            space.counts().set_exact(clusters, inodes);
        }
    }

    fn space(&self) -> Result<&Arc<Space>> {
        if !self.is_writable() {
            return Err(Error::ReadOnly(self.failure()));
        }
        Ok(self.allocator())
    }
}
