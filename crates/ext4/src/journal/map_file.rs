//! Mapping of the journal's blocks to the image.

use super::file::{JournalFile, Run};
use crate::error::Place;
use crate::{FileBlock, Filesystem, Inode, MappingKind, Result};
use larder_block::BlockDevice;
use std::sync::Arc;

impl JournalFile {
    /// Determines the locations of the first `length_blocks` blocks of the journal in `inode`.
    /// `length_blocks` must be at least one.
    pub(super) fn map(
        fs: &Filesystem,
        device: Arc<dyn BlockDevice>,
        inode: &Inode,
        length_blocks: u32,
    ) -> Result<Self> {
        let corrupt = |block, what| Err(Place::Journal(block).corrupt(what));
        let block_size_bytes = fs.superblock().block_size_bytes();
        if inode.size_bytes() / u64::from(block_size_bytes) < u64::from(length_blocks) {
            return corrupt(0, "the journal is longer than its file");
        }
        if u64::from(length_blocks) > fs.present_blocks() {
            return corrupt(0, "the journal is longer than the file system");
        }
        let mut runs: Vec<Run> = Vec::new();
        let mut start = 0;
        while start < length_blocks {
            let mapping = fs.map(inode, FileBlock(start), length_blocks - start)?;
            let MappingKind::Written(physical) = mapping.kind else {
                return corrupt(start, "the journal's file has a hole");
            };
            let adjoins = runs.last().is_some_and(|last| {
                last.physical.0.checked_add(u64::from(start - last.start)) == Some(physical.0)
            });
            if !adjoins {
                runs.push(Run { start, physical });
            }
            start = start.saturating_add(mapping.blocks.max(1));
        }
        Ok(Self {
            device,
            block_size_bytes,
            length_blocks,
            runs,
        })
    }
}
