//! The undo records of a handle.
//!
//! # Model
//! A list of records of previous contents. An undo restores them from the last record to the first. If a
//! block has two records, the later record contains the result of earlier changes of the handle.
//!
//! # Invariants
//! 1. A block has at most two records: one of a part, followed by one of the whole block.
//!
//! # Cost
//! The first change of a part of a dirty block copies only that part, whatever the block size.

use super::block_map::BlockMap;
use crate::FsBlock;
use std::ops::Range;
use std::sync::Arc;

/// The maximum number of records that are searched sequentially.
const SCANNED_RECORDS: usize = 16;

/// The contents of a block before it was changed.
#[derive(Debug)]
pub(super) enum Before {
    /// The block was clean: its contents were the same as on the device.
    Clean,
    /// The block was dirty, with these contents.
    Whole(Arc<[u8]>),
    /// The block was dirty. Its bytes from `start` on are saved in the range `saved` of
    /// [`UndoRecords::saved`]. Its other bytes have not changed since.
    Part { start: usize, saved: Range<usize> },
}

/// The undo records of a handle, in the order of the changes.
#[derive(Debug, Default)]
pub(super) struct UndoRecords {
    records: Vec<(FsBlock, Before)>,
    saved: Vec<u8>,
    /// The index of the last record of each block. Empty while there are at most
    /// [`SCANNED_RECORDS`] records.
    latest: BlockMap<usize>,
}

impl UndoRecords {
    /// Returns the last record of `block`.
    fn latest(&self, block: FsBlock) -> Option<&Before> {
        let (_, before) = if self.records.len() > SCANNED_RECORDS {
            &self.records[*self.latest.get(&block)?]
        } else {
            let mut latest_first = self.records.iter().rev();
            latest_first.find(|(of, _)| *of == block)?
        };
        Some(before)
    }

    pub(super) fn contains(&self, block: FsBlock) -> bool {
        self.latest(block).is_some()
    }

    /// Returns whether the old contents of `bytes` of `block` are saved.
    pub(super) fn covers(&self, block: FsBlock, bytes: &Range<usize>) -> bool {
        match self.latest(block) {
            None => false,
            Some(Before::Clean | Before::Whole(_)) => true,
            Some(Before::Part { start, saved }) => {
                *start <= bytes.start && bytes.end <= start + saved.len()
            }
        }
    }

    /// Returns whether all old contents of `block` are saved.
    pub(super) fn covers_all(&self, block: FsBlock) -> bool {
        self.covers(block, &(0..usize::MAX))
    }

    /// Saves `before`, the contents of the dirty `block`. `None` records that the block was clean.
    pub(super) fn keep_whole(&mut self, block: FsBlock, before: Option<Arc<[u8]>>) {
        debug_assert!(!self.covers_all(block), "{block} is already saved");
        self.push(block, before.map_or(Before::Clean, Before::Whole));
    }

    /// Saves `before`, the contents of the dirty `block` from the byte `start` on. The handle must
    /// not have changed the block yet.
    pub(super) fn keep_part(&mut self, block: FsBlock, start: usize, before: &[u8]) {
        debug_assert!(
            !self.contains(block),
            "another part of {block} is already saved"
        );
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

    /// Removes all records, from the last to the first, and calls `visit` for each. The third
    /// argument holds the saved bytes if only a part of the block was saved.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Undoes the changes of a block.
    fn undo(records: &mut UndoRecords, of: FsBlock, contents: &mut Vec<u8>) {
        records.drain(|block, before, saved| match before {
            _ if block != of => {}
            Before::Clean => contents.clear(),
            Before::Whole(before) => *contents = before.to_vec(),
            Before::Part { start, .. } => {
                contents[start..start + saved.len()].copy_from_slice(saved);
            }
        });
    }

    #[test]
    fn undo_of_part_and_whole_restores_the_first_contents() {
        for others in [0, SCANNED_RECORDS as u64] {
            let block = FsBlock(1000);
            let mut records = UndoRecords::default();
            let mut contents = vec![1, 2, 3, 4];
            records.keep_part(block, 1, &contents[1..3]);
            contents[1..3].copy_from_slice(&[8, 8]);
            for other in 0..others {
                records.keep_whole(FsBlock(other), None);
            }
            assert!(records.covers(block, &(1..3)) && records.covers(block, &(2..3)));
            assert!(!records.covers(block, &(0..2)) && !records.covers_all(block));
            records.keep_whole(block, Some(contents.clone().into()));
            contents.fill(0);
            assert!(records.covers_all(block));
            undo(&mut records, block, &mut contents);
            assert_eq!(contents, [1, 2, 3, 4], "with {others} other blocks");
            assert!(!records.contains(block) && !records.contains(FsBlock(0)));
        }
    }
}
