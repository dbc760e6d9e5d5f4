//! Writing the superblock: with a handle while the file system is in use, and directly to the
//! device when the file system is opened or closed ([`crate::superblock_state`]), or has failed.
//!
//! Only the first superblock is written. As in the kernel, the backups do not change.
//! [`Filesystem::superblock`] keeps the contents from the time when the file system was opened.
//! Values that change later are stored where they are used.

use crate::journal::Handle;
use crate::ondisk::features::RoCompat;
use crate::ondisk::superblock::{
    ErrorRecord, LABEL_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET_BYTES, Superblock, SuperblockEdit,
};
use crate::{Error, Filesystem, FsBlock, Ino, Result};
use larder_block::BlockDevice;
use std::sync::Arc;

/// The inode number in errors about the superblock, which belongs to no inode.
const NO_INO: Ino = Ino(0);

/// The smallest size in bytes at which a file needs the feature `large_file`.
const LARGE_FILE_BYTES: u64 = 1 << 31;

impl Filesystem {
    /// Changes the superblock with `edit`, as part of `handle`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the superblock is damaged, the error of `edit`, or the device's error.
    pub fn update_superblock<R>(
        &self,
        handle: &mut Handle<'_>,
        edit: impl FnOnce(&mut SuperblockEdit<'_>) -> R,
    ) -> Result<R> {
        let (block, start) = self.superblock_place();
        handle.update(block, NO_INO, |bytes| {
            edit_superblock(bytes.get_mut(start..).unwrap_or_default(), edit)
        })
    }

    /// Returns the block that contains the superblock, and the offset in bytes of the superblock in
    /// the block.
    pub(crate) fn superblock_place(&self) -> (FsBlock, usize) {
        let log2 = self.superblock().block_size_log2;
        let block = SUPERBLOCK_OFFSET_BYTES >> log2;
        let start = SUPERBLOCK_OFFSET_BYTES - (block << log2);
        (FsBlock(block), usize::try_from(start).unwrap_or(usize::MAX))
    }

    /// Changes the superblock on `device` immediately, without the journal, and flushes the device.
    /// If a version of the superblock is dirty in the buffer cache, changes that version as well.
    ///
    /// # Errors
    /// As [`Filesystem::update_superblock`].
    pub fn write_superblock(
        &self,
        device: &dyn BlockDevice,
        edit: impl Fn(&mut SuperblockEdit<'_>),
    ) -> Result<()> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        device.read_at(&mut bytes, SUPERBLOCK_OFFSET_BYTES)?;
        let before = bytes;
        edit_superblock(&mut bytes, &edit)?;
        if let Err(error) = device.write_at(&bytes, SUPERBLOCK_OFFSET_BYTES) {
            // An interrupted write may have left a superblock with a wrong checksum, so the old bytes are restored.
            // If the interrupted write can still be in flight, the device refuses this second write.
            let _ = device.write_at(&before, SUPERBLOCK_OFFSET_BYTES);
            return Err(error.into());
        }
        self.edit_cached_superblock(&bytes, &edit)?;
        Ok(device.flush()?)
    }

    /// Applies the change that was made to the superblock on the device, which is now `written`, to
    /// the cached superblock.
    fn edit_cached_superblock(
        &self,
        written: &[u8; SUPERBLOCK_BYTES],
        edit: impl Fn(&mut SuperblockEdit<'_>),
    ) -> Result<()> {
        let (block, start) = self.superblock_place();
        let buffers = self.buffers();
        let edited = buffers.edit_dirty(block.0, |bytes| {
            edit_superblock(bytes.get_mut(start..).unwrap_or_default(), &edit)
        });
        if let Some(edited) = edited {
            return edited;
        }
        // A cached clean block has the old contents. Setting the new contents as dirty and then as
        // clean replaces them. If a thread is reading the old contents, the new ones stay dirty.
        let mut contents = self.metadata_block_unchecked(block, NO_INO)?.to_vec();
        if let Some(place) = contents.get_mut(start..start + SUPERBLOCK_BYTES) {
            place.copy_from_slice(written);
        }
        let contents: Arc<[u8]> = contents.into();
        buffers.set_dirty(block.0, Arc::clone(&contents));
        buffers.clean(block.0, &contents);
        Ok(())
    }

    /// Records on the image that an error was found, so that e2fsck runs a full check next time.
    ///
    /// # Errors
    /// As [`Filesystem::update_superblock`].
    pub fn record_error(&self, device: &dyn BlockDevice, error: &ErrorRecord<'_>) -> Result<()> {
        self.write_superblock(device, |superblock| {
            superblock.record_error(error);
            superblock.set_written(error.time);
        })
    }

    /// Sets the feature `large_file` if a file of `size_bytes` bytes needs it, which is the case
    /// from 2 GiB on.
    ///
    /// # Errors
    /// As [`Filesystem::update_superblock`].
    pub fn allow_file_size(&self, handle: &mut Handle<'_>, size_bytes: u64) -> Result<()> {
        let has_feature = self.superblock().ro_compat.contains(RoCompat::LARGE_FILE);
        if has_feature || size_bytes < LARGE_FILE_BYTES {
            return Ok(());
        }
        self.update_superblock(handle, |superblock| {
            superblock.set_ro_compat(RoCompat::LARGE_FILE, true);
        })
    }

    /// Returns the current label.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the superblock is damaged, or the device's error.
    pub fn label(&self) -> Result<Vec<u8>> {
        let (block, start) = self.superblock_place();
        let buffer = self.metadata_block_unchecked(block, NO_INO)?;
        let bytes = buffer.get(start..).unwrap_or_default();
        Ok(Superblock::parse(bytes)?.label)
    }

    /// Sets the label.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the label is longer than 16 bytes; otherwise as
    /// [`Filesystem::update_superblock`].
    pub fn set_label(&self, handle: &mut Handle<'_>, label: &[u8]) -> Result<()> {
        if label.len() > LABEL_BYTES {
            return Err(Error::Invalid(Ino::ROOT, "label is longer than 16 bytes"));
        }
        self.update_superblock(handle, |superblock| superblock.set_label(label))
    }
}

/// Changes the superblock at the start of `bytes`, and updates its checksum.
fn edit_superblock<R>(
    bytes: &mut [u8],
    edit: impl FnOnce(&mut SuperblockEdit<'_>) -> R,
) -> Result<R> {
    let mut superblock = SuperblockEdit::new(bytes)?;
    let done = edit(&mut superblock);
    superblock.finish();
    Ok(done)
}
