//! Reads the tables of a disk image: the first level as a whole, and parts of the second level through a cache.

use super::cache::{Key, PartCache};
use super::error::{DiskError, corrupt};
use super::limits::MAX_TABLE_BYTES;
use larder_block::{BlockDevice, Result, check_range, read_owned};
use std::sync::Arc;
use zerocopy::FromBytes;

/// Reads the first level of the tables of an image: `entries` entries at `offset_bytes` of `file`. `name` names the table,
/// with its article.
///
/// # Errors
/// If the table has more than [`MAX_TABLE_BYTES`], is not inside the file, or cannot be read.
pub(crate) fn read_first_level<E: FromBytes>(
    file: &dyn BlockDevice,
    offset_bytes: u64,
    entries: u64,
    name: &str,
) -> Result<Vec<E>, DiskError> {
    let len_bytes = entries.saturating_mul(size_of::<E>() as u64);
    if len_bytes > MAX_TABLE_BYTES {
        let what = format!("{name} of {len_bytes} bytes");
        return Err(DiskError::Unsupported(what));
    }
    // The range is checked before the memory is allocated.
    check_range(file.size_bytes(), offset_bytes, len_bytes)?;
    let mut bytes = vec![0; usize::try_from(len_bytes).unwrap_or(usize::MAX)];
    file.read_at(&mut bytes, offset_bytes)?;
    let entries = bytes.chunks_exact(size_of::<E>());
    Ok(entries
        .filter_map(|entry| E::read_from_bytes(entry).ok())
        .collect())
}

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
    /// If the part is not inside the file, or cannot be read. The offset in the error is that in the file.
    pub(crate) fn read(&self, offset_bytes: u64, len: usize) -> Result<Option<Arc<Vec<u8>>>> {
        let key = Key::Table(offset_bytes);
        if !self.may_wait {
            return Ok(self.cache.get(key));
        }
        check_range(self.file.size_bytes(), offset_bytes, len as u64)
            .map_err(|_| corrupt(offset_bytes, len as u64, "a table is not in the file"))?;
        let part = self.cache.get_or_fill(key, || {
            read_owned(self.file, vec![0; len], offset_bytes, self.file.timeout())
        });
        part.map(Some)
    }
}
