//! Directories: lookup and listing of names.
//!
//! Model: the kernel's `ext4_lookup` and `ext4_readdir`. A name is looked up through the hash tree
//! if there is one ([`crate::htree`]), and block by block otherwise. On a read-only file system, a
//! listing reads the blocks in order, even if the directory is indexed. This is possible because a
//! node of the tree has the form of a block without entries. This order usually is the order in
//! which the files were created, so a program that visits the files requests adjacent inodes. On a
//! writable file system with hash trees, a listing is in hash order, as in the kernel, because names
//! may be added during the listing ([`crate::htree`]).
//!
//! Damage: a damaged block affects only its own entries. A lookup that finds the name in another
//! block succeeds. A listing emits all readable entries and fails at its end; the error names the
//! first damaged block.
//!
//! Cookies: a cookie is the position of the next entry: a byte offset in the directory or, in a
//! listing by hash, a number that contains the hash of the name. Two higher bits are flags. With
//! [`COOKIE_OVERLAY`](entry::COOKIE_OVERLAY), the other bits are the number of an entry that fast
//! commits added. [`COOKIE_DAMAGE`](entry::COOKIE_DAMAGE) records earlier damage, so that a listing
//! in several calls reports the damage at its end.

mod block_search;
mod blocks;
mod change;
mod entry;
mod hint;
mod inline;
mod leaf;
mod listing;
mod read_dir;
mod write;

use crate::error::Place;
use crate::htree::Indexed;
use crate::ondisk::dir::FileTypeByte;
use crate::ondisk::features::Incompat;
use crate::ondisk::inode::InodeFlags;
use crate::{Error, Filesystem, Ino, Inode, Result};
pub(crate) use block_search::first_found;
use blocks::DirBlocks;
pub(crate) use change::DirChange;
pub use entry::DirEntry;
use entry::MAX_NAME_BYTES;
pub(crate) use entry::{Block, Target};
pub(crate) use hint::RoomHints;
pub(crate) use listing::Listing;

impl Filesystem {
    /// Returns the inode and the type of `name` in the directory `dir`, or `None` if there is no
    /// such name.
    ///
    /// # Errors
    /// [`Error::NotDirectory`]; [`Error::Encrypted`] and [`Error::Casefolded`] if names cannot be
    /// compared; [`Error::Corrupt`] if a damaged block could contain the name; the device's error.
    pub fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<(Ino, FileTypeByte)>> {
        self.check_directory(dir)?;
        let is_dots = matches!(name, b"." | b"..");
        if !is_dots {
            self.check_comparable(dir)?;
        }
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Ok(None);
        }
        if let Some(changed) = self.overlay().and_then(|o| o.entry(dir.ino(), name)) {
            return Ok(changed.map(|entry| (entry.ino, self.file_type(entry.file_type))));
        }
        if dir.has_inline_data() {
            return self.lookup_inline(dir, name);
        }
        Ok(self.find(dir, name)?.map(|(_, target)| target))
    }

    /// Returns the block of `dir` that contains `name`, and the target of the name. The entries of
    /// `dir` must be stored in blocks.
    fn find(&self, dir: &Inode, name: &[u8]) -> Result<Option<(Block, Target)>> {
        let is_dots = matches!(name, b"." | b"..");
        if !is_dots && self.is_indexed(dir) {
            match self.find_indexed(dir, name) {
                Ok(Indexed::Answer(found)) => return Ok(found),
                Ok(Indexed::Unusable) => {}
                // A fast commit may have logged that the directory has an index, but it does not
                // log the index. The directory is then searched block by block.
                Err(Error::Corrupt(_)) if self.has_overlay_entries(dir) => {}
                Err(error) => return Err(error),
            }
        }
        self.find_linear(dir, name)
    }

    fn check_directory(&self, dir: &Inode) -> Result<()> {
        if !dir.is_directory() {
            return Err(Error::NotDirectory(dir.ino()));
        }
        // Directories grow by whole blocks, and cannot be larger than the file system. This check
        // bounds the time of every walk over a directory.
        let block_size_bytes = u64::from(self.superblock().block_size_bytes());
        if dir.size_bytes().div_ceil(block_size_bytes) > self.present_blocks() {
            return Err(dir
                .place()
                .corrupt("directory is larger than the file system"));
        }
        Ok(())
    }

    /// Returns an error if the names of `dir` cannot be read.
    fn check_names(&self, dir: &Inode) -> Result<()> {
        if self.is_encrypted(dir) {
            return Err(Error::Encrypted(dir.ino()));
        }
        Ok(())
    }

    /// Returns an error if a name cannot be compared with the names of `dir`.
    fn check_comparable(&self, dir: &Inode) -> Result<()> {
        self.check_names(dir)?;
        if dir.flags().contains(InodeFlags::CASEFOLD)
            && self.superblock().incompat.contains(Incompat::CASEFOLD)
        {
            return Err(Error::Casefolded(dir.ino()));
        }
        Ok(())
    }

    /// Returns whether fast commits added entries to `dir`.
    fn has_overlay_entries(&self, dir: &Inode) -> bool {
        let mut entries = self
            .overlay()
            .into_iter()
            .flat_map(|o| o.entries(dir.ino()));
        entries.next().is_some()
    }

    fn find_linear(&self, dir: &Inode, name: &[u8]) -> Result<Option<(Block, Target)>> {
        let mut blocks = DirBlocks::new(self, *dir, 0);
        first_found(std::iter::from_fn(|| {
            let (number, block) = blocks.next()?;
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            Some(block.and_then(|(at, block)| {
                let found = self.search_block(&block, name, Place::Block(at, dir.ino()))?;
                Ok(found.map(|target| (Block { number, at }, target)))
            }))
        }))
    }
}
