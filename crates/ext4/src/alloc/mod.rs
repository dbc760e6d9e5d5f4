//! Free space: allocation and freeing of blocks and inodes.
//!
//! Model: ext4's multi-block allocator, and Orlov's allocator for directories.
//!
//! # States of a block
//! ```text
//!           claim               take            free              commit of the
//!   free ----------> claimed ----------> used ----------> freed -----------> free
//!     ^  (in memory)    |    (in bitmap)       (in bitmap)  transaction
//!     +-----------------+
//!           dropped
//! ```
//! A [`Claim`] keeps blocks for its owner in memory only, so that file data can be written to them
//! before the image marks them as used. Then one handle takes the claim and maps the blocks, so
//! that no crash exposes stale data or leaks blocks. Freed blocks cannot be claimed before the
//! transaction that freed them is committed, although they count as free. An operation that finds
//! no space therefore calls [`Filesystem::commit_freed`] and tries again.
//!
//! # Credits
//! Taking a claim or freeing a run changes two blocks for each group that it is in: the bitmap and
//! the descriptor. Taking or freeing an inode number changes three blocks, and one more if its
//! block of the inode table was never used.
//!
//! # Damage
//! Nothing is allocated or freed in a group whose bitmap or descriptor is damaged.

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

/// The maximum number of block groups of a writable file system: 128 TiB in blocks of 4 KiB.
pub(crate) const GROUPS_MAX: u32 = 1 << 20;

/// The owner of bitmaps and descriptors in errors: none.
const NO_INO: Ino = Ino(0);

/// Returns an error for a file system whose space cannot be managed: its end is missing, or it has
/// more groups than can be searched in a second.
///
/// # Errors
/// [`Error::NotWritable`].
pub(crate) fn check_geometry(sb: &Superblock, device_size_bytes: u64) -> Result<()> {
    if sb.missing_bytes(device_size_bytes) > 0 {
        return Err(Error::NotWritable(
            "the end of the image is missing".to_owned(),
        ));
    }
    if sb.groups_count > GROUPS_MAX {
        let what = format!(
            "it has {} block groups, more than {GROUPS_MAX}",
            sb.groups_count
        );
        return Err(Error::NotWritable(what));
    }
    Ok(())
}

/// The preferred location of an allocation, and its purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// The block to allocate at, or as soon after it as possible.
    pub near: FsBlock,
    /// Whether the file is large and written sequentially: such streams are kept apart.
    pub is_stream: bool,
    /// The file that the blocks are for, or 0 for none. A file that grows gets space set aside for
    /// its next blocks, until [`Filesystem::release_preallocation`].
    pub ino: Ino,
    /// The number of blocks of the file, the last of which is just before `near`. 0 for its first
    /// block.
    pub file_blocks: u64,
    /// Whether clusters that are kept back for the super-user may be used.
    pub may_use_reserved: bool,
}

impl Filesystem {
    /// Returns how often freed blocks became claimable. Call this before an attempt that may need
    /// space, for [`Filesystem::commit_freed`].
    #[must_use]
    pub fn releases(&self) -> u64 {
        let writer = self.writer.as_ref();
        writer.map_or(0, |_| self.allocator().releases())
    }

    /// Commits if that makes freed blocks claimable. Returns true if it may help to try again after
    /// [`Error::NoSpace`], because of this commit, or because of another one since
    /// [`Filesystem::releases`] returned `since`. Must not be called under a handle.
    ///
    /// # Errors
    /// The error of the commit.
    pub fn commit_freed(&self, since: u64) -> Result<bool> {
        let space = self.space()?;
        if space.has_pending() {
            self.commit(self.running_tid()?)?;
            return Ok(true);
        }
        Ok(space.releases() != since)
    }

    /// Returns the free blocks and inodes, as the superblock of a clean image records them: by the
    /// bitmaps, including claimed blocks.
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

    /// Returns the free blocks, those of them that ordinary users may use, and the free inodes, if
    /// the file system was opened for writing. Must not be called under a handle.
    pub(crate) fn free_now(&self) -> Option<(u64, u64, u64)> {
        self.writer.as_ref()?;
        let space = self.allocator();
        if space.counts().need_exact(u64::MAX)
            && let Err(error) = self.count_free()
        {
            tracing::debug!(%error, "the free counts of the superblock are used");
        }
        let counts = space.counts();
        let free = counts.unreserved();
        let available = free.saturating_sub(counts.kept_back());
        let log2 = space.geometry.cluster_blocks_log2;
        Some((free << log2, available << log2, counts.free_inodes))
    }

    /// Sums up the group descriptors at open, if the superblock cannot be trusted.
    pub(crate) fn count_free_unless_known(&self) {
        let space = self.allocator();
        if !space.counts().is_known() {
            self.sum_free_counts(space);
        }
    }

    /// Sums up the group descriptors. An empty handle is open meanwhile and excludes others, so
    /// that the sums are consistent.
    fn count_free(&self) -> Result<()> {
        let space = self.space()?;
        let handle = self.start(0)?;
        self.sum_free_counts(space);
        drop(handle);
        Ok(())
    }

    fn sum_free_counts(&self, space: &Space) {
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
