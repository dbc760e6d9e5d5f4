//! Reads parts of the tables of a disk image, through a cache.

use super::cache::{Key, PartCache};
use larder_block::{BlockDevice, Result};
use std::sync::Arc;

/// Access to the second level of the tables of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables<'d> {
    pub(crate) file: &'d dyn BlockDevice,
    pub(crate) cache: &'d PartCache,
    /// Whether parts that are not cached are read from the file.
    pub(crate) may_wait: bool,
}

impl Tables<'_> {
    /// Returns the part of a table that has `len` bytes at `offset_bytes` of the file. All calls with the same offset must
    /// have the same length. Returns `None` if the part is not cached, and must not be read from the file.
    ///
    /// # Errors
    /// If the part is not inside the file, or cannot be read.
    pub(crate) fn read(&self, offset_bytes: u64, len: usize) -> Result<Option<Arc<[u8]>>> {
        let key = Key::Table(offset_bytes);
        if !self.may_wait {
            return Ok(self.cache.get(key));
        }
        let part = self.cache.get_or_fill(key, || {
            let mut bytes = vec![0; len];
            self.file.read_at(&mut bytes, offset_bytes)?;
            Ok(bytes)
        });
        part.map(Some)
    }
}
