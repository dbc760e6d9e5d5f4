//! Where a file is stored on an image, so that it can be read without the file system.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use larder_testkit::e2fsprogs::debugfs;
use serde::{Deserialize, Serialize};

use crate::work::ReadAt;

const BLOCK_BYTES: u64 = 4096;

/// The extents of a file, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extents(Vec<Extent>);

/// A part of a file that is contiguous on the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Extent {
    /// The range of its bytes in the file.
    file: Range<u64>,
    /// The offset of its first byte in the image.
    image_bytes: u64,
}

impl Extents {
    /// Returns the extents of the file `path` on `image`. The blocks of the image must have 4 KiB.
    pub fn of(image: &Path, path: &str) -> Result<Self> {
        let text = debugfs(image, &format!("dump_extents -l {path}"))?;
        let extents = Self::parsed(&text);
        ensure!(!extents.0.is_empty(), "debugfs printed no extents: {text}");
        Ok(extents)
    }

    /// Parses the output of debugfs. The line of an extent has the level and the entry (both as `N/ N`),
    /// the first and the last block in the file, the same in the image, and the length in blocks. All
    /// other lines are ignored.
    fn parsed(text: &str) -> Self {
        let numbers = |line: &str| -> Vec<u64> {
            line.split(|letter: char| !letter.is_ascii_digit())
                .filter_map(|number| number.parse().ok())
                .collect()
        };
        let extents = text.lines().filter_map(|line| match numbers(line)[..] {
            [_, _, _, _, file, _, block, _, len] => Some(Extent {
                file: file * BLOCK_BYTES..(file + len) * BLOCK_BYTES,
                image_bytes: block * BLOCK_BYTES,
            }),
            _ => None,
        });
        Self(extents.collect())
    }

    /// Returns the offset in the image of the byte `file_bytes` of the file.
    pub fn image_bytes(&self, file_bytes: u64) -> Result<u64> {
        Ok(self.place(file_bytes)?.0)
    }

    /// Returns the offset in the image of the byte `file_bytes` of the file, and the length of the rest
    /// of its extent.
    fn place(&self, file_bytes: u64) -> Result<(u64, u64)> {
        let after = self
            .0
            .partition_point(|extent| extent.file.start <= file_bytes);
        let extent = after.checked_sub(1).map(|last| &self.0[last]);
        let extent = extent
            .filter(|extent| extent.file.contains(&file_bytes))
            .with_context(|| format!("the file has no block at byte {file_bytes}"))?;
        let image_bytes = extent.image_bytes + (file_bytes - extent.file.start);
        Ok((image_bytes, extent.file.end - file_bytes))
    }
}

/// A file that is read from the image at its extents.
#[derive(Debug)]
pub struct StoredFile {
    /// The image.
    pub image: File,
    /// The extents.
    pub extents: Extents,
}

impl ReadAt for StoredFile {
    fn read_exact(&self, mut buf: &mut [u8], mut offset_bytes: u64) -> Result<()> {
        while !buf.is_empty() {
            let (image_bytes, rest_bytes) = self.extents.place(offset_bytes)?;
            let len = usize::try_from(rest_bytes)?.min(buf.len());
            let (now, later) = buf.split_at_mut(len);
            self.image.read_exact(now, image_bytes)?;
            buf = later;
            offset_bytes += len as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Level Entries       Logical          Physical Length Flags
 1/ 1   1/  2     0 -     1    100 -     101      2 
 1/ 1   2/  2     2 -     4     50 -      52      3 Uninit
";

    #[test]
    fn bytes_of_a_file_are_found_in_its_extents() {
        let extents = Extents::parsed(TEXT);
        assert_eq!(extents.0.len(), 2);
        assert_eq!(extents.image_bytes(0).unwrap(), 100 * 4096);
        assert_eq!(extents.image_bytes(4096 + 7).unwrap(), 101 * 4096 + 7);
        let place = extents.place(3 * 4096).unwrap();
        assert_eq!(place, (51 * 4096, 2 * 4096));
        assert!(extents.image_bytes(5 * 4096).is_err());
        assert!(Extents::parsed("").image_bytes(0).is_err());
    }
}
