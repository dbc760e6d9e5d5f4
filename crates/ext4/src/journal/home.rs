//! Writing of blocks to their homes, which are their locations in the file system, in contrast to
//! their copies in the log.

use super::progress::Progress;
use crate::{FsBlock, Result};
use larder_block::BlockDevice;
use larder_cache::buffer::BufferCache;
use parking_lot::Mutex;
use std::sync::Arc;

/// The maximum number of blocks of one write.
const RUN_BLOCKS: usize = 1024;

/// A block and its contents.
pub(super) type Version = (FsBlock, Arc<[u8]>);

/// Blocks that were written to their homes, but are still marked as dirty, because another thread was reading
/// their buffers.
#[derive(Debug, Default)]
pub(super) struct PendingClean {
    unclean: Mutex<Vec<Version>>,
}

/// Writes `blocks`, which must be sorted, to their homes. Passes all runs of adjacent blocks to the
/// device as one batch.
///
/// # Errors
/// The first error of the device. Any of the blocks may then have been written.
pub(super) fn write_home(
    device: &dyn BlockDevice,
    buffers: &BufferCache,
    progress: &Progress,
    blocks: &[Version],
) -> Result<()> {
    progress.check()?;
    let block_bytes = buffers.block_size_bytes() as u64;
    let mut runs = Vec::new();
    let mut rest = blocks;
    while let Some((first, _)) = rest.first() {
        let run = rest
            .iter()
            .zip(first.0..)
            .take(RUN_BLOCKS)
            .take_while(|((block, _), expected)| block.0 == *expected)
            .count();
        let (now, later) = rest.split_at(run);
        let contents: Vec<Arc<[u8]>> = now.iter().map(|(_, bytes)| Arc::clone(bytes)).collect();
        runs.push((first.0.saturating_mul(block_bytes), contents));
        rest = later;
    }
    Ok(larder_block::write_all(device, runs)?)
}

impl PendingClean {
    /// Marks the buffers of `blocks` as clean, except for buffers that have changed since.
    ///
    /// The blocks must have been written to their homes, because a clean buffer can be evicted and
    /// then read from the device again. They need not be durable there while the log contains their
    /// copies: recovery calls this function before it flushes, and empties the log after the flush.
    pub(super) fn clean(&self, buffers: &BufferCache, blocks: impl Iterator<Item = Version>) {
        let mut unclean = self.unclean.lock();
        let earlier = std::mem::take(&mut *unclean);
        for (block, contents) in earlier.into_iter().chain(blocks) {
            let is_same = |now: Arc<[u8]>| Arc::ptr_eq(&now, &contents);
            if !buffers.clean(block.0, &contents) && buffers.dirty(block.0).is_some_and(is_same) {
                unclean.push((block, contents));
            }
        }
    }
}
