//! The ranges of two image files that the host stores once, as after `cp --reflink` on XFS or Btrfs.
//!
//! Model: FIEMAP. The host reports the extents of a file: their offsets in the file and on the disk. Two extents of one
//! file system at the same place on the disk have the same content. Extents whose bytes are not stored as they are, for
//! example compressed ones, are left out.
//!
//! Cost: if the host reports no shared extents, one pass over the extents of each file. Otherwise both files are written
//! to the disk first, because the place of unwritten data is not known, and their extents are read again.

use fiemap::{Fiemap, FiemapExtent, FiemapExtentFlags, FiemapFlags};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The flags of an extent that is shared and can be compared by its place.
const PLAIN_FLAGS: FiemapExtentFlags = FiemapExtentFlags::SHARED
    .union(FiemapExtentFlags::LAST)
    .union(FiemapExtentFlags::MERGED);

/// The types of the file systems whose files can share extents, and whose places are unambiguous: XFS and Btrfs.
const FILE_SYSTEMS: [rustix::fs::FsWord; 2] = [0x5846_5342, 0x9123_683e];

/// An extent of a file, in bytes.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// The offset in the file at which it starts.
    start: u64,
    /// The offset in the file at which it ends.
    end: u64,
    /// The offset of its start on the disk.
    place: u64,
}

impl Extent {
    /// Returns the place of the byte at `offset`, which is in this extent.
    fn place_of(&self, offset: u64) -> u64 {
        self.place.wrapping_add(offset - self.start)
    }
}

/// Returns the shared extents of `file` that can be compared by their places, in ascending order. The first error ends
/// the iteration.
fn extents(file: &File, flags: FiemapFlags) -> impl Iterator<Item = Extent> {
    let reported = Fiemap::with_flags(file, flags).map_while(Result::ok);
    let shared = reported.filter(|extent| {
        let flags = extent.fe_flags;
        flags.contains(FiemapExtentFlags::SHARED) && PLAIN_FLAGS.contains(flags)
    });
    shared.map(|extent: FiemapExtent| Extent {
        start: extent.fe_logical,
        end: extent.fe_logical.saturating_add(extent.fe_length),
        place: extent.fe_physical,
    })
}

/// Ranges of bytes that two files share, at the same offsets in both, in ascending order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct SharedRanges(Vec<Range<u64>>);

impl SharedRanges {
    /// Returns the ranges that the host stores once for the raw images `old` and `new`. There are none if it does not
    /// report extents.
    pub(in crate::commands) fn of(old: &Path, new: &Path) -> Self {
        Self::reported(old, new).unwrap_or_default()
    }

    fn reported(old: &Path, new: &Path) -> io::Result<Self> {
        let (old, new) = (File::open(old)?, File::open(new)?);
        let (one, other) = (old.metadata()?, new.metadata()?);
        let are_comparable = one.dev() == other.dev() && one.is_file() && other.is_file();
        if !are_comparable || !FILE_SYSTEMS.contains(&rustix::fs::fstatfs(&old)?.f_type) {
            return Ok(Self::default());
        }
        let common = |flags| Self::common(extents(&old, flags), extents(&new, flags));
        let found = common(FiemapFlags::empty());
        Ok(if found.0.is_empty() {
            found
        } else {
            common(FiemapFlags::SYNC)
        })
    }

    /// Returns the ranges that are at the same offset and at the same place in extents of both files.
    fn common(old: impl Iterator<Item = Extent>, new: impl Iterator<Item = Extent>) -> Self {
        let (mut old, mut new) = (old.peekable(), new.peekable());
        let mut ranges = Vec::new();
        while let (Some(one), Some(other)) = (old.peek(), new.peek()) {
            let start = one.start.max(other.start);
            let end = one.end.min(other.end);
            if start < end && one.place_of(start) == other.place_of(start) {
                ranges.push(start..end);
            }
            if one.end <= other.end {
                old.next();
            } else {
                new.next();
            }
        }
        Self(ranges)
    }

    /// Returns the number of bytes from `offset_bytes` to the end of the range that contains it, or 0.
    pub(super) fn len_from(&self, offset_bytes: u64) -> u64 {
        let at = self.0.partition_point(|range| range.end <= offset_bytes);
        let range = self.0.get(at).filter(|range| range.contains(&offset_bytes));
        range.map_or(0, |range| range.end - offset_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, end: u64, place: u64) -> Extent {
        Extent { start, end, place }
    }

    #[test]
    fn ranges_are_common_where_offset_and_place_are_equal() {
        let old = [
            extent(0, 100, 1000),
            extent(100, 200, 5000),
            extent(300, 400, 7000),
        ];
        // Up to 50, the place differs. The next two extents match the first extent of the old file up to 100. The last
        // extent has the same place as in the old file, but another offset.
        let new = [
            extent(0, 50, 3000),
            extent(50, 80, 1050),
            extent(80, 150, 1080),
            extent(150, 200, 5050),
            extent(310, 410, 7000),
        ];
        let ranges = SharedRanges::common(old.into_iter(), new.into_iter());
        // From 100 on, the new file continues the first extent of the old one.
        assert_eq!(ranges.0, [50..80, 80..100, 150..200]);
    }

    #[test]
    fn length_is_counted_to_the_end_of_the_range() {
        let ranges = SharedRanges(vec![10..20, 20..30, 40..50]);
        let lengths = [0, 10, 19, 20, 30, 45, 50].map(|offset| ranges.len_from(offset));
        assert_eq!(lengths, [0, 10, 1, 10, 0, 5, 0]);
    }

    #[test]
    fn files_that_do_not_share_extents_have_no_common_ranges() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        std::fs::write(&old, [7; 8192]).unwrap();
        std::fs::write(&new, [7; 8192]).unwrap();
        assert_eq!(SharedRanges::of(&old, &new), SharedRanges::default());
        let absent = folder.path().join("absent");
        assert_eq!(SharedRanges::of(&old, &absent), SharedRanges::default());
    }
}
