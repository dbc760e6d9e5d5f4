//! An image with one large file, whose content is computed instead of stored.
//!
//! mke2fs and debugfs create a file of allocated blocks full of zeros. The copy of the image that is kept
//! between runs has holes in place of these blocks. [`PatternDevice`] fills the holes with a pattern that
//! depends on the offset in the file.

use super::build::keep;
use super::copy_sparse;
use crate::device::PatternDevice;
use crate::e2fsprogs::{debugfs, debugfs_write, make_image};
use crate::error::{Context, Error, Result};
use larder_block::{BlockDevice, FileDevice, FileRange};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const BLOCK_BYTES: u64 = 4096;

/// An image that contains only the file `/large`.
#[derive(Debug)]
pub struct LargeFile {
    /// The image.
    pub device: Arc<PatternDevice>,
    /// The path of the file.
    pub path: &'static str,
    /// The size of the file.
    pub size_bytes: u64,
}

impl LargeFile {
    /// Creates a file of `size_mib`, mapped through indirect blocks up to the third level.
    pub fn new(size_mib: u64) -> Result<Self> {
        let path = keep(&format!("large-{size_mib}"), "", |unfinished, _| {
            make(unfinished, size_mib)
        })?;
        let blocks = debugfs(&path, "stat /large")?;
        let device = FileDevice::open(&path, FileRange::default())
            .map_err(|error| Error::Inconsistent(format!("{}: {error}", path.display())))?;
        let base: Arc<dyn BlockDevice> = Arc::new(device);
        Ok(Self {
            device: Arc::new(PatternDevice::new(base, ranges(&blocks))),
            path: "/large",
            size_bytes: size_mib << 20,
        })
    }
}

fn make(path: &Path, size_mib: u64) -> Result<()> {
    let whole = path.with_extension("whole");
    let image_mib = size_mib + size_mib / 8 + 16;
    make_image(
        &whole,
        "-t ext2 -b 4096 -N 64 -m 0",
        &format!("{image_mib}M"),
    )?;
    let size_bytes = size_mib << 20;
    // debugfs prints the inode that it creates only on standard output.
    debugfs_write(
        &whole,
        &[
            "write /dev/null large".to_owned(),
            format!("set_inode_field large size {size_bytes}"),
            format!("fallocate large 0 {}", size_bytes / BLOCK_BYTES - 1),
        ],
    )?;
    copy_sparse(&whole, path)?;
    std::fs::remove_file(&whole).context("remove", &whole)
}

/// Parses the list of a file's blocks that debugfs prints: `(0-11):85-96, (IND):97, (12):98, …`.
fn ranges(stat: &str) -> Vec<(Range<u64>, u64)> {
    let number = |text: &str| text.parse::<u64>().ok();
    let item = |item: &str| {
        let (in_file, on_disk) = item.trim().strip_prefix('(')?.split_once("):")?;
        let offset_bytes = number(in_file.split('-').next()?)? * BLOCK_BYTES;
        let mut blocks = on_disk.split('-');
        let first = number(blocks.next()?)?;
        let last = blocks.next().map_or(Some(first), number)?;
        let range = first * BLOCK_BYTES..(last + 1) * BLOCK_BYTES;
        Some((range, offset_bytes))
    };
    stat.split([',', '\n']).filter_map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_debugfs_text_omit_indirect_blocks() {
        let text = "BLOCKS:\n(0-11):85-96, (IND):97, (12):98\nTOTAL: 14\n";
        assert_eq!(
            ranges(text),
            [(85 * 4096..97 * 4096, 0), (98 * 4096..99 * 4096, 12 * 4096)]
        );
    }
}
