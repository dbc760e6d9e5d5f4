//! Writes the changes of an overlay to its base.
//!
//! # Order of writes
//! 1. The overlay records the name of the base, and checksums of what the base has in place of the changes.
//! 2. It records that the commit has begun.
//! 3. The changes are written to the base.
//! 4. The overlay records that the commit is complete.
//!
//! Each step ends with a flush. Steps 2 and 4 change one sector. Until the end, the overlay has all changes, so a commit that
//! was interrupted can be repeated.
//!
//! # Binding
//! The version of the base changes with the first write. When the commit is continued, each sector that has a checksum must
//! have its original content or that of the overlay. Otherwise, the base is another one, or was changed since. The
//! first 8 MiB of the changes have checksums. Almost always, the superblock is among them: each change of a file system
//! changes it.

use super::device::Overlay;
use super::error::OverlayError;
use super::header::{Commit, Head, MAX_CHECKSUMS};
use larder_block::{BlockDevice, Result};
use std::ops::Range;
use std::sync::Arc;

/// The number of bytes that are copied or compared at once.
const PART_LEN: usize = 1 << 20;
/// The unit of the checksums in bytes. A power cut never leaves a part of it.
const SECTOR_LEN: usize = 512;

impl Overlay {
    /// Writes the changes of the overlay in `file` to `base`, which has this `name`. From the start on, the overlay can only be
    /// committed, to a base with the same name. At the end, it cannot be opened again. This also continues a commit that was
    /// interrupted.
    ///
    /// Calls `progress` with the number of bytes that were copied, and that of all. Returns the number of all.
    ///
    /// # Errors
    /// As [`Overlay::open`]. [`OverlayError::Base`] if the base cannot be written, and [`OverlayError::ChangedInCommit`] if
    /// another program has written to it after the commit was interrupted.
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
        head.commit = Commit::Complete;
        head.write(&**file)?;
        Ok(total_bytes)
    }
}

/// Opens the overlay in `file`, and records in it that a commit to `base` has begun.
fn begin(
    file: &Arc<dyn BlockDevice>,
    base: &Arc<dyn BlockDevice>,
    name: &[u8],
) -> Result<Overlay, OverlayError> {
    let mut head = Head::read(&**file)?;
    let is_same = head.base.name == name && head.geometry.size_bytes == base.size_bytes();
    let overlay = match head.commit {
        Commit::Begun { has_checksums } if is_same => {
            let overlay = Overlay::with_head(Arc::clone(file), Arc::clone(base), &head)?;
            if has_checksums {
                check(&**file, &**base, &overlay)?;
            }
            overlay
        }
        _ => {
            let overlay = Overlay::open(Arc::clone(file), Arc::clone(base))?;
            let checksums = checksums(&**base, &overlay.changes()).map_err(OverlayError::Base)?;
            Head::write_checksums(&**file, &checksums)?;
            name.clone_into(&mut head.base.name);
            head.write(&**file)?;
            head.commit = Commit::Begun {
                has_checksums: true,
            };
            overlay
        }
    };
    // If the commit is continued, an earlier write of the head may not be durable.
    head.write(&**file)?;
    Ok(overlay)
}

/// Checks that only the commit of `overlay` has changed `base` since the checksums in `file` were recorded.
fn check(
    file: &dyn BlockDevice,
    base: &dyn BlockDevice,
    overlay: &Overlay,
) -> Result<(), OverlayError> {
    let changes = overlay.changes();
    let present = checksums(base, &changes).map_err(OverlayError::Base)?;
    let new = checksums(overlay, &changes)?;
    let original = Head::read_checksums(file, present.len())?;
    let mut all = present.iter().zip(new).zip(original);
    if all.all(|((&present, new), original)| present == new || present == original) {
        Ok(())
    } else {
        Err(OverlayError::ChangedInCommit)
    }
}

/// Returns the checksums of the first sectors of `changes` on `device`.
fn checksums(device: &dyn BlockDevice, changes: &[Range<u64>]) -> Result<Vec<u32>> {
    let mut checksums = Vec::new();
    for part in parts(changes) {
        if checksums.len() >= MAX_CHECKSUMS {
            break;
        }
        let bytes = read(device, &part)?;
        checksums.extend(bytes.chunks(SECTOR_LEN).map(crc32fast::hash));
    }
    checksums.truncate(MAX_CHECKSUMS);
    Ok(checksums)
}

/// Divides `ranges` into parts of at most [`PART_LEN`].
fn parts(ranges: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> {
    ranges.iter().flat_map(|range| {
        let end = range.end;
        let starts = (range.start..end).step_by(PART_LEN);
        starts.map(move |start| start..end.min(start + PART_LEN as u64))
    })
}

fn read(device: &dyn BlockDevice, range: &Range<u64>) -> Result<Vec<u8>> {
    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let mut bytes = vec![0; len];
    device.read_at(&mut bytes, range.start)?;
    Ok(bytes)
}
