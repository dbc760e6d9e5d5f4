//! What a handle changed, and what takes that back.
//!
//! # Model
//! A list of what was there before, taken back from its end: later records of a block hold
//! what earlier ones made of it.
//!
//! # Cost
//! A part that is changed costs its own bytes, whatever the size of its block.

use super::block_map::BlockMap;
use crate::FsBlock;
use std::ops::Range;
use std::sync::Arc;

/// Up to as many records are looked through one by one.
const SCANNED_RECORDS: usize = 16;

/// What a block was before it was changed.
#[derive(Debug)]
pub(super) enum Before {
    /// As on the device.
    Clean,
    /// Dirty, with these contents.
    Whole(Arc<[u8]>),
    /// Dirty, with these bytes of [`Touched`] from `start` on; the rest is not changed.
    Part { start: usize, saved: Range<usize> },
}

/// The blocks that a handle changed, in its order.
#[derive(Debug, Default)]
pub(super) struct Touched {
    records: Vec<(FsBlock, Before)>,
    saved: Vec<u8>,
    /// The last record of each block, once there are more than [`SCANNED_RECORDS`].
    latest: BlockMap<usize>,
}

impl Touched {
    /// The last record of `block`.
    fn latest(&self, block: FsBlock) -> Option<&Before> {
        let (_, before) = if self.records.len() > SCANNED_RECORDS {
            &self.records[*self.latest.get(&block)?]
        } else {
            let mut latest_first = self.records.iter().rev();
            latest_first.find(|(touched, _)| *touched == block)?
        };
        Some(before)
    }

    pub(super) fn contains(&self, block: FsBlock) -> bool {
        self.latest(block).is_some()
    }

    /// Whether a change of `bytes` of `block` can be taken back.
    pub(super) fn covers(&self, block: FsBlock, bytes: &Range<usize>) -> bool {
        match self.latest(block) {
            None => false,
            Some(Before::Clean | Before::Whole(_)) => true,
            Some(Before::Part { start, saved }) => {
                *start <= bytes.start && bytes.end <= start + saved.len()
            }
        }
    }

    /// Whether any change of `block` can be taken back.
    pub(super) fn covers_all(&self, block: FsBlock) -> bool {
        self.covers(block, &(0..usize::MAX))
    }

    /// `block` was `before`, if it was dirty.
    pub(super) fn keep_whole(&mut self, block: FsBlock, before: Option<Arc<[u8]>>) {
        self.push(block, before.map_or(Before::Clean, Before::Whole));
    }

    /// `block`, which is dirty, had `before` from the byte `start` on.
    pub(super) fn keep_part(&mut self, block: FsBlock, start: usize, before: &[u8]) {
        let from = self.saved.len();
        self.saved.extend_from_slice(before);
        let saved = from..self.saved.len();
        self.push(block, Before::Part { start, saved });
    }

    fn push(&mut self, block: FsBlock, before: Before) {
        self.records.push((block, before));
        match self.records.len() {
            0..=SCANNED_RECORDS => {}
            len if len == SCANNED_RECORDS + 1 => {
                let blocks = self.records.iter().map(|(block, _)| *block);
                self.latest.extend(blocks.zip(0..));
            }
            len => drop(self.latest.insert(block, len - 1)),
        }
    }

    /// Tells of every record, the last one first, with the bytes that a part was, and forgets all.
    pub(super) fn drain(&mut self, mut visit: impl FnMut(FsBlock, Before, &[u8])) {
        while let Some((block, before)) = self.records.pop() {
            let saved = match &before {
                Before::Part { saved, .. } => &self.saved[saved.clone()],
                Before::Clean | Before::Whole(_) => &[],
            };
            visit(block, before, saved);
        }
        self.saved.clear();
        self.latest.clear();
    }
}
