//! The allocator: allocation and freeing of blocks and inodes.
//!
//! Model: ext4's multi-block allocator, and Orlov's allocator for directories.
//!
//! # States of a block
//! ```text
//!         claim              allocate            free             commit
//!   free --------> claimed ---------> in use ---------> freed ----------> free
//!     ^               |
//!     +---------------+
//!      drop the claim
//! ```
//! Claiming changes only memory. Allocating and freeing change the group's bitmap as part of a
//! transaction, through a journal handle.
//!
//! A [`Claim`] excludes blocks from all other allocations, in memory only. File data can then be
//! written to them before the bitmap on the image marks them as used. Afterwards, one handle both
//! marks the blocks as used ([`Filesystem::take`]) and maps them, so that no crash exposes stale
//! data or leaks blocks. A claim that is dropped makes its blocks free again.
//!
//! Freed blocks count as free, but cannot be claimed until the transaction that freed them is
//! committed. An operation that fails with [`Error::NoSpace`] must therefore call
//! [`Filesystem::commit_freed`]. If that function returns true, the operation must be tried again.
//!
//! # Credits
//! A journal handle has a number of credits: the maximum number of blocks that it may change.
//! Allocating the blocks of a claim, or freeing a run, changes two blocks for each group that the
//! run is in: the block bitmap and the descriptor. Allocating or freeing an inode number changes
//! two blocks: the inode bitmap and the descriptor. Allocating an inode also initializes the
//! inode-table block that contains it, if that block was never used.
//!
//! # Damage
//! Nothing is allocated or freed in a group whose bitmap or descriptor is damaged.

mod bits;
mod blocks;
mod changes;
mod claim;
mod claiming;
mod content_zone;
mod count;
mod counts;
mod inodes;
mod load;
mod orlov;
mod run;
mod search;
mod space;
mod sums;
mod trim;
mod window;

pub(crate) use changes::AllocationChanges;
pub use claim::{Claim, MappingReservation, Reservation};
pub use counts::Privilege;
pub(crate) use counts::clusters_for_metadata;

use crate::ondisk::superblock::Superblock;
use crate::{Error, Filesystem, FsBlock, Ino, Result};
pub(crate) use space::Space;
use std::sync::Arc;

/// The maximum number of block groups of a writable file system. With blocks of 4 KiB, these groups have
/// 128 TiB.
pub(crate) const GROUPS_MAX: u32 = 1 << 20;

/// The inode number in errors about bitmaps and descriptors, which belong to no inode.
const NO_INO: Ino = Ino(0);

/// Returns an error if the allocator cannot manage the file system: the image is shorter than the
/// superblock states, or has so many groups that a search of all of them would take too long.
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
    /// The block at which the search for free blocks starts, unless `is_stream` determines another
    /// block.
    pub near: FsBlock,
    /// Whether the file is large. The first allocation for a large file starts where an earlier
    /// allocation for a large file ended, if there was one. Large files are therefore stored apart
    /// from small files. The allocator remembers four places at which such an allocation ended; the
    /// inode number selects one of them.
    pub is_stream: bool,
    /// The file that the blocks are for, or 0 if they are not for a file. For a file that grows,
    /// more blocks than it needs are preallocated. [`Filesystem::release_preallocation`] releases
    /// them. They are released earlier if the file's next allocation starts elsewhere, if blocks
    /// are preallocated for too many files, or if an allocation finds no other free blocks.
    pub ino: Ino,
    /// The number of blocks that the file already has; 0 for the first allocation. If this
    /// number is not 0, `near` must be the block that makes the file contiguous if it is allocated.
    pub file_blocks: u64,
    /// Whether blocks that are reserved for the super-user may be used.
    pub may_use_reserved: bool,
}

impl Filesystem {
    /// Returns how many committed transactions have made freed blocks claimable since the file system
    /// was opened. An operation that may run out of space calls this function before it starts, and
    /// passes the result to [`Filesystem::commit_freed`].
    #[must_use]
    pub fn releases(&self) -> u64 {
        let writer = self.writer.as_ref();
        writer.map_or(0, |_| self.allocator().releases())
    }

    /// Commits the running transaction if freed blocks cannot be claimed yet. `since` is an earlier
    /// result of [`Filesystem::releases`]. Returns true if a commit has made freed blocks claimable
    /// since that result: this commit, or another one. An operation that failed with
    /// [`Error::NoSpace`] must then be tried again. Must not be called while the thread has an open
    /// handle.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], or the error of the commit.
    pub fn commit_freed(&self, since: u64) -> Result<bool> {
        let space = self.space()?;
        if space.has_pending() {
            self.commit_for_space(self.running_tid()?)?;
            return Ok(true);
        }
        Ok(space.releases() != since)
    }

    /// Returns the counts of free blocks and free inodes in memory, which are written to the
    /// superblock when the file system is closed. Claimed and reserved blocks are counted as free.
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

    /// Returns the number of blocks that ordinary requests may use; 0 if the file system was not
    /// opened for writing, or if a failure has stopped writing. Reads nothing from the device.
    ///
    /// If the image was clean when it was opened, and at least an eighth of its space was available,
    /// the number is at first based on the free count in the superblock, which may be wrong.
    /// The free count is replaced by the sum of the counts in the group descriptors when
    /// [`Filesystem::statfs`] is called, or when a reservation would leave less than an eighth of the
    /// space available. If the image was not clean, or less than
    /// an eighth was available, the sum was computed when the file system was opened.
    #[must_use]
    pub fn available_blocks(&self) -> u64 {
        self.space().map_or(0, |space| {
            space.counts().available(Privilege::Ordinary) << space.geometry.cluster_blocks_log2
        })
    }

    fn space(&self) -> Result<&Arc<Space>> {
        if !self.is_writable() {
            return Err(Error::ReadOnly(self.failure()));
        }
        Ok(self.allocator())
    }
}
