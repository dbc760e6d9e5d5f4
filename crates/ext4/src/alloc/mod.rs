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
//! claimed again before the transaction that freed it is committed.

mod claim;

pub use claim::{Claim, Reservation};

use crate::journal::Handle;
use crate::journal::Tid;
use crate::{Filesystem, FsBlock, Ino, Inode, Result};

/// What a handle allocated and freed, to be kept or undone with it.
#[derive(Debug, Default)]
pub(crate) struct AllocationChanges {}

/// The state of the free space: what is claimed, freed, counted.
#[derive(Debug, Default)]
pub(crate) struct Allocator {}

impl Allocator {
    /// A handle stopped: what it changed is part of transaction `tid`.
    pub(crate) fn keep(&self, changes: &mut AllocationChanges, tid: Tid) {
        let _ = (changes, tid);
        todo!()
    }

    /// A handle failed: what it changed was not.
    pub(crate) fn undo(&self, changes: &mut AllocationChanges) {
        let _ = changes;
        todo!()
    }

    /// Transaction `tid` is committed: what it freed can be claimed.
    pub(crate) fn committed(&self, tid: Tid) {
        let _ = tid;
        todo!()
    }
}

/// Where blocks are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// As near behind this block as possible.
    pub near: FsBlock,
    /// A large file that is being written from end to end: such streams are kept apart.
    pub is_stream: bool,
}

impl Filesystem {
    /// Keeps `clusters` clusters free for their owner, wherever they are: delayed allocation
    /// asks at write(2), so that it cannot fail later.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`].
    pub fn reserve(&self, clusters: u64) -> Result<Reservation> {
        let _ = clusters;
        todo!()
    }

    /// Claims a run of at most `want` free blocks, at least one; whole clusters with bigalloc.
    /// Those come out of `reservation` if there is one.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`], or what is wrong with the image.
    pub fn claim(
        &self,
        goal: Goal,
        want: u32,
        reservation: Option<&mut Reservation>,
    ) -> Result<Claim> {
        let _ = (goal, want, reservation);
        todo!()
    }

    /// Marks the blocks of `claim` as used.
    pub fn take(&self, handle: &mut Handle<'_>, claim: Claim) -> Result<()> {
        let _ = (handle, claim);
        todo!()
    }

    /// A block for metadata of `ino`, claimed and taken.
    pub fn allocate_block(
        &self,
        handle: &mut Handle<'_>,
        near: FsBlock,
        ino: Ino,
    ) -> Result<FsBlock> {
        let _ = (handle, near, ino);
        todo!()
    }

    /// Marks blocks as free: whole clusters with bigalloc.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if one is free already or belongs to the file system itself.
    pub fn free_blocks(
        &self,
        handle: &mut Handle<'_>,
        start: FsBlock,
        blocks: u32,
        ino: Ino,
    ) -> Result<()> {
        let _ = (handle, start, blocks, ino);
        todo!()
    }

    /// Takes a free inode number for a new file in the directory `parent`.
    ///
    /// # Errors
    /// [`crate::Error::NoInodes`], or what is wrong with the image.
    pub fn allocate_inode(
        &self,
        handle: &mut Handle<'_>,
        parent: &Inode,
        is_directory: bool,
    ) -> Result<Ino> {
        let _ = (handle, parent, is_directory);
        todo!()
    }

    /// Marks the inode number as free.
    pub fn free_inode(&self, handle: &mut Handle<'_>, ino: Ino, is_directory: bool) -> Result<()> {
        let _ = (handle, ino, is_directory);
        todo!()
    }

    /// Where the first blocks of `inode` should lie: near its inode table.
    #[must_use]
    pub fn home_goal(&self, inode: &Inode) -> FsBlock {
        let _ = inode;
        todo!()
    }

    /// Discards free space in `bytes` of the file system, in runs of at least `min_bytes`; returns
    /// the bytes discarded. Not what a transaction that is not committed yet has freed.
    pub fn trim(&self, bytes: std::ops::Range<u64>, min_bytes: u64) -> Result<u64> {
        let _ = (bytes, min_bytes);
        todo!()
    }
}
