//! An open image: names, metadata, content.

use crate::{CacheKind, DirEntry, Info, Metadata, OpenOptions, Result, StatFs, Stats};
use larder_block::BlockDevice;
use larder_ext4::Ino;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// An open ext2, ext3 or ext4 image.
#[derive(Debug)]
pub struct Volume {}

#[expect(unused_variables, clippy::todo, reason = "bodies follow")]
impl Volume {
    /// Opens the image at `path`, a regular file or a block device, read-only
    /// and with a shared lock. A journal that needs recovery is replayed in
    /// memory; the image is never written.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        todo!()
    }

    /// As [`Volume::open`], on any device; `options.offset_bytes` must be 0.
    pub fn open_device(device: Arc<dyn BlockDevice>, options: &OpenOptions) -> Result<Self> {
        todo!()
    }

    /// What the superblock says.
    #[must_use]
    pub fn info(&self) -> Info {
        todo!()
    }

    /// Free and used space.
    #[must_use]
    pub fn statfs(&self) -> StatFs {
        todo!()
    }

    /// The inode at `path`, from the root, following symbolic links in the
    /// middle and at the end. Leading, doubled and trailing slashes are ignored.
    pub fn resolve(&self, path: &[u8]) -> Result<Ino> {
        todo!()
    }

    /// As [`Volume::resolve`], but a symbolic link at the end is not followed.
    pub fn resolve_no_follow(&self, path: &[u8]) -> Result<Ino> {
        todo!()
    }

    /// The inode that `name` names in the directory `parent`.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        todo!()
    }

    /// What stat(2) tells.
    pub fn metadata(&self, ino: Ino) -> Result<Metadata> {
        todo!()
    }

    /// Fills `buf` from `offset_bytes` of a regular file and returns the
    /// number of bytes read: less than asked only at the end of the file.
    pub fn read_at(&self, ino: Ino, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        todo!()
    }

    /// Calls `emit` for each entry of the directory from `cookie` on, 0 being
    /// the start, until it breaks or the listing ends.
    pub fn read_dir(
        &self,
        ino: Ino,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        todo!()
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        todo!()
    }

    /// The value of the attribute `name` (with its prefix, as in `user.tag`), if set.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Option<Vec<u8>>> {
        todo!()
    }

    /// The names of all attributes.
    pub fn xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        todo!()
    }

    /// The first byte of data at or behind `offset_bytes`, as lseek(2)'s `SEEK_DATA`.
    pub fn seek_data(&self, ino: Ino, offset_bytes: u64) -> Result<u64> {
        todo!()
    }

    /// The first byte of a hole at or behind `offset_bytes`, as lseek(2)'s
    /// `SEEK_HOLE`; the end of the file counts as one.
    pub fn seek_hole(&self, ino: Ino, offset_bytes: u64) -> Result<u64> {
        todo!()
    }

    /// Counts since the volume was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        todo!()
    }

    /// The bucket histogram of a cache, in the form that the published ones have.
    #[must_use]
    pub fn histogram(&self, cache: CacheKind) -> String {
        todo!()
    }
}
