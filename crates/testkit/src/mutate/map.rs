//! The location of the metadata of an image.

use super::{WalkLimits, walk};
use crate::error::{Error, Result};
use crate::seed::Random;
use larder::{OpenOptions, PolicyName, Volume};
use larder_block::BlockDevice;
use larder_instruments::RecordingDevice;
use std::collections::BTreeSet;
use std::sync::Arc;

const SUPERBLOCK: (u64, u64) = (1024, 1024);
/// The first bytes of a block, where damage is most likely to have an effect.
const HEAD_BYTES: u64 = 128;

/// The blocks that contain metadata.
#[derive(Clone, Debug)]
pub struct MetadataMap {
    block_size_bytes: u64,
    size_bytes: u64,
    /// The offsets of the blocks, sorted.
    blocks: Vec<u64>,
    /// The number of reads of a clean walk.
    reads: u64,
}

impl MetadataMap {
    /// Creates a map of the ranges (offset and length) that were read.
    #[must_use]
    pub fn new(block_size_bytes: u64, size_bytes: u64, ranges: &[(u64, u64)]) -> Self {
        let blocks: BTreeSet<u64> = ranges
            .iter()
            .flat_map(|&(offset, len)| {
                let first = offset / block_size_bytes;
                let end = (offset + len).div_ceil(block_size_bytes);
                (first..end).map(|block| block * block_size_bytes)
            })
            .collect();
        Self {
            block_size_bytes,
            size_bytes,
            blocks: blocks.into_iter().collect(),
            reads: ranges.len() as u64,
        }
    }

    /// Finds the metadata of `device` by a walk that reads no content.
    pub fn of(device: &Arc<dyn BlockDevice>) -> Result<Self> {
        let recorder = Arc::new(RecordingDevice::new(Arc::clone(device)));
        let failed = |source| Error::Volume {
            what: "cannot open the clean image".to_owned(),
            source,
        };
        let volume = Volume::open_device(recorder.clone(), &open_options()).map_err(failed)?;
        let limits = WalkLimits {
            content: false,
            ..WalkLimits::default()
        };
        let outcome = walk(&volume, &limits);
        if outcome.errors > 0 || outcome.entries == 0 {
            return Err(Error::Inconsistent(format!(
                "the clean image cannot be read without errors: {outcome:?}"
            )));
        }
        let block_size_bytes = u64::from(volume.info().block_size_bytes);
        drop(volume);
        let ranges: Vec<_> = recorder
            .take_log()
            .iter()
            .map(|read| (read.offset_bytes, read.len_bytes))
            .collect();
        Ok(Self::new(block_size_bytes, device.size_bytes(), &ranges))
    }

    /// Returns an offset for damage: mostly in metadata, sometimes anywhere.
    pub fn place(&self, random: &mut Random) -> u64 {
        let (superblock, len) = SUPERBLOCK;
        match random.below(100) {
            0..4 => random.below(self.size_bytes),
            4..14 => superblock + random.below(len),
            kind => {
                let block = random.choose(&self.blocks).copied().unwrap_or(superblock);
                let within = if kind < 50 {
                    HEAD_BYTES.min(self.block_size_bytes)
                } else {
                    self.block_size_bytes
                };
                block + random.below(within)
            }
        }
    }

    /// Returns the block size.
    #[must_use]
    pub fn block_size_bytes(&self) -> u64 {
        self.block_size_bytes
    }

    /// Returns the size of the image.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the number of blocks that hold metadata.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the number of reads of the clean walk.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads
    }
}

/// Returns options with small caches and no threads, so that every run makes the same reads.
pub(super) fn open_options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.cache_size_bytes = 4 << 20;
    options.readahead = PolicyName::Off;
    options
}
