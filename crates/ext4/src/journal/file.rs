//! The journal as a file: translates blocks of the journal to blocks of the image.

use crate::error::Place;
use crate::{Error, FsBlock, Result};
use larder_block::BlockDevice;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// The location of each block of the journal in the image, and the device of the image.
///
/// Cost: 16 bytes for each run of adjacent blocks.
#[derive(Clone, Debug)]
pub(super) struct JournalFile {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) block_size_bytes: u32,
    pub(super) length_blocks: u32,
    pub(super) runs: Vec<Run>,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The run's first block, counted from the start of the journal.
    pub(super) start: u32,
    /// The location of the run's first block in the image.
    pub(super) physical: FsBlock,
}

impl JournalFile {
    /// Returns the block size in bytes.
    pub(super) fn block_size_bytes(&self) -> usize {
        self.block_size_bytes as usize
    }

    /// Returns the index of the run that contains the journal's `block`, and the location of the
    /// block in the image.
    fn locate(&self, block: u32) -> Result<(usize, FsBlock)> {
        let outside = || Place::Journal(block).corrupt("outside the journal");
        if block >= self.length_blocks {
            return Err(outside());
        }
        let next = self.runs.partition_point(|run| run.start <= block);
        let index = next.checked_sub(1).ok_or_else(outside)?;
        let run = &self.runs[index];
        let physical = run.physical.0.saturating_add(u64::from(block - run.start));
        Ok((index, FsBlock(physical)))
    }

    /// Returns the location of the journal's `block` in the image.
    pub(super) fn physical(&self, block: u32) -> Result<FsBlock> {
        self.locate(block).map(|(_, physical)| physical)
    }

    /// Returns how many of the `wanted` blocks of the journal, starting at `block`, are adjacent in
    /// the image.
    pub(super) fn adjoining_blocks(&self, block: u32, wanted: u32) -> Result<u32> {
        let (index, _) = self.locate(block)?;
        let run_end = self
            .runs
            .get(index + 1)
            .map_or(self.length_blocks, |next| next.start);
        Ok(wanted.min(run_end - block))
    }

    /// Fills `buf` with the contents of the journal from `block` on. These blocks must be adjacent
    /// in the image.
    pub(super) fn read(&self, block: u32, buf: &mut [u8]) -> Result<()> {
        let physical = self.physical(block)?;
        let offset_bytes = physical.0.saturating_mul(self.block_size_bytes.into());
        self.device
            .read_at(buf, offset_bytes)
            .map_err(|source| Error::Unreadable {
                place: Place::Journal(block),
                source,
            })
    }

    /// Writes `parts` to the journal from `block` on. These blocks must be adjacent in the image.
    pub(super) fn write(&self, block: u32, parts: &[IoSlice<'_>]) -> Result<()> {
        let physical = self.physical(block)?;
        let offset_bytes = physical.0.saturating_mul(self.block_size_bytes.into());
        Ok(self.device.write_vectored_at(parts, offset_bytes)?)
    }

    /// Returns the blocks of the image that belong to the journal.
    pub(super) fn extent(&self) -> Extent {
        let ends = self.runs.iter().skip(1).map(|run| run.start);
        let ends = ends.chain([self.length_blocks]);
        let ranges = self.runs.iter().zip(ends).map(|(run, end)| {
            let blocks = u64::from(end.saturating_sub(run.start));
            run.physical.0..run.physical.0.saturating_add(blocks)
        });
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable_by_key(|range| range.start);
        Extent { ranges }
    }
}

/// The location of a journal in its image.
#[derive(Debug)]
pub(super) struct Extent {
    /// The blocks of the journal, sorted.
    ranges: Vec<Range<u64>>,
}

impl Extent {
    /// Returns whether two blocks of the journal are the same block of the image.
    pub(super) fn overlaps_itself(&self) -> bool {
        let mut pairs = self.ranges.windows(2);
        pairs.any(|pair| pair[0].end > pair[1].start)
    }

    /// Returns whether `block` belongs to the journal, which must not overlap itself.
    pub(super) fn contains(&self, block: FsBlock) -> bool {
        let next = self.ranges.partition_point(|range| range.start <= block.0);
        let before = next.checked_sub(1).and_then(|at| self.ranges.get(at));
        before.is_some_and(|range| range.contains(&block.0))
    }
}
