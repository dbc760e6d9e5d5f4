//! Writes the changes of an overlay to its base.
//!
//! # Order of writes
//! 1. The overlay records the name of the base, and a checksum of each sector of the base that the commit writes.
//! 2. It records that the commit has begun.
//! 3. The changes are written to the base.
//! 4. The overlay records that the commit is complete.
//!
//! Each step ends with a flush. Steps 2 and 4 each change a single sector. The overlay contains all changes until the end, so
//! a commit that was interrupted can be repeated.
//!
//! # Binding
//! The version of the base changes with the first write. When an interrupted commit is continued, each sector that it writes
//! must have its original content or the content in the overlay. Otherwise the base was replaced, or another program changed
//! it. Sectors that the commit does not write are not checked, and keep their content. So the name of the base may change. If
//! an earlier version of Larder has recorded no checksums, the name must be the same.
//!
//! The checksums follow the last used cluster of the file, in the order of the sectors. Each has 4 bytes (CRC-32, big-endian),
//! so together they take 1/128 of the size of the changes. They are written and read in parts.

use super::device::Overlay;
use super::error::OverlayError;
use super::header::{CHECKSUM_LEN, CommitState, Head, SECTOR_LEN};
use larder_block::{BlockDevice, Result};
use std::ops::Range;
use std::sync::Arc;

/// The maximum number of bytes that are copied or compared at a time.
const PART_LEN: usize = 1 << 20;

impl Overlay {
    /// Writes the changes of the overlay in `file` to `base`, which has this `name`, or continues a commit that was
    /// interrupted. Once the commit has begun, the overlay can only be committed, and only to the same base. Its name may have
    /// changed. Once the commit is complete, the overlay cannot be opened. `file` must have the size
    /// [`Overlay::max_file_bytes`].
    ///
    /// Calls `progress` with the number of bytes that were copied so far, and the total number. Returns the total number.
    ///
    /// # Errors
    /// - The errors of [`Overlay::open`].
    /// - [`OverlayError::Base`] if the base cannot be read or written.
    /// - [`OverlayError::ChangedInCommit`] if another program has written to the base after the commit was interrupted, or if
    ///   this is another base.
    pub fn commit(
        file: &Arc<dyn BlockDevice>,
        base: &Arc<dyn BlockDevice>,
        name: &[u8],
        mut progress: impl FnMut(u64, u64),
    ) -> Result<u64, OverlayError> {
        let overlay = begin(file, base, name)?;
        let changes = overlay.changes();
        let total_bytes: u64 = changes.iter().map(|range| range.end - range.start).sum();
        let mut copied_bytes = 0;
        for part in parts(&changes) {
            let bytes = read(&overlay, &part)?;
            base.write_at(&bytes, part.start)
                .map_err(OverlayError::Base)?;
            copied_bytes += part.end - part.start;
            progress(copied_bytes, total_bytes);
        }
        base.flush().map_err(OverlayError::Base)?;
        let mut head = Head::read(&**file)?;
        head.commit = CommitState::Complete;
        head.write(&**file)?;
        Ok(total_bytes)
    }

    /// Returns whether `base` has all changes of the overlay in `file`, whose commit is complete.
    ///
    /// # Errors
    /// The errors of [`Overlay::open`], but not [`OverlayError::Committed`]. [`OverlayError::Base`] if the base cannot be read.
    pub fn is_in_base(
        file: &Arc<dyn BlockDevice>,
        base: &Arc<dyn BlockDevice>,
    ) -> Result<bool, OverlayError> {
        let head = Head::read(&**file)?;
        if head.geometry.size_bytes != base.size_bytes() {
            return Ok(false);
        }
        let overlay = Overlay::with_head(Arc::clone(file), Arc::clone(base), &head)?;
        for part in parts(&overlay.changes()) {
            let present = read(&**base, &part).map_err(OverlayError::Base)?;
            if present != read(&overlay, &part)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Opens the overlay in `file`, and records in it that a commit to `base` has begun.
fn begin(
    file: &Arc<dyn BlockDevice>,
    base: &Arc<dyn BlockDevice>,
    name: &[u8],
) -> Result<Overlay, OverlayError> {
    let mut head = Head::read(&**file)?;
    let has_size = head.geometry.size_bytes == base.size_bytes();
    let overlay = match head.commit {
        CommitState::Begun { has_checksums }
            if has_size && (has_checksums || head.base.name == name) =>
        {
            let overlay = Overlay::with_head(Arc::clone(file), Arc::clone(base), &head)?;
            if has_checksums && let Some(offset_bytes) = changed_at(&**file, &**base, &overlay)? {
                return Err(OverlayError::ChangedInCommit {
                    recorded: head.base.name,
                    offset_bytes,
                });
            }
            // The head keeps the recorded name: a name can span sectors, and a torn write would damage the head.
            overlay
        }
        _ => {
            let overlay = Overlay::open(Arc::clone(file), Arc::clone(base))?;
            record(&**file, &**base, &overlay)?;
            name.clone_into(&mut head.base.name);
            head.write(&**file)?;
            head.commit = CommitState::Begun {
                has_checksums: true,
            };
            overlay
        }
    };
    // If the commit is continued, an earlier write of the head may not be durable yet.
    head.write(&**file)?;
    Ok(overlay)
}

/// Writes to `file` the checksums of all sectors of `base` that the commit of `overlay` will write. Does not flush them.
fn record(
    file: &dyn BlockDevice,
    base: &dyn BlockDevice,
    overlay: &Overlay,
) -> Result<(), OverlayError> {
    let mut at_bytes = overlay.end_offset();
    for part in parts(&overlay.changes()) {
        let original = read(base, &part).map_err(OverlayError::Base)?;
        let checksums: Vec<u8> = original.chunks(SECTOR_LEN).flat_map(checksum).collect();
        file.write_at(&checksums, at_bytes)?;
        at_bytes += checksums.len() as u64;
    }
    Ok(())
}

/// Returns the offset of the first sector of `base` that something other than the commit of `overlay` has changed since its
/// checksum was written to `file`. Reads only the sectors that the commit writes.
fn changed_at(
    file: &dyn BlockDevice,
    base: &dyn BlockDevice,
    overlay: &Overlay,
) -> Result<Option<u64>, OverlayError> {
    let mut at_bytes = overlay.end_offset();
    for part in parts(&overlay.changes()) {
        let present = read(base, &part).map_err(OverlayError::Base)?;
        let new = read(overlay, &part)?;
        let mut original = vec![0; present.len().div_ceil(SECTOR_LEN) * CHECKSUM_LEN];
        file.read_at(&mut original, at_bytes)?;
        at_bytes += original.len() as u64;
        let starts = part.step_by(SECTOR_LEN);
        let sectors = present.chunks(SECTOR_LEN).zip(new.chunks(SECTOR_LEN));
        let originals = original.chunks(CHECKSUM_LEN);
        for ((offset_bytes, (present, new)), original) in starts.zip(sectors).zip(originals) {
            if present != new && checksum(present) != original {
                return Ok(Some(offset_bytes));
            }
        }
    }
    Ok(None)
}

/// Returns the checksum of a sector as it is stored.
fn checksum(sector: &[u8]) -> [u8; CHECKSUM_LEN] {
    crc32fast::hash(sector).to_be_bytes()
}

/// Divides `ranges` into parts of at most [`PART_LEN`].
fn parts(ranges: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> {
    ranges.iter().flat_map(|range| {
        let end = range.end;
        let starts = (range.start..end).step_by(PART_LEN);
        starts.map(move |start| start..end.min(start + PART_LEN as u64))
    })
}

/// Reads a range of `device`.
fn read(device: &dyn BlockDevice, range: &Range<u64>) -> Result<Vec<u8>> {
    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let mut bytes = vec![0; len];
    device.read_at(&mut bytes, range.start)?;
    Ok(bytes)
}
