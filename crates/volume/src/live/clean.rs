//! Marks blocks of an inode in use as clean: their content has been written back, or is discarded.

use super::{Live, LiveState, key};
use crate::Result;
use std::ops::Range;

impl Live<'_> {
    /// Marks `blocks` as clean. Their content must be on the device, or discarded. No thread may
    /// change the blocks during the call.
    pub(crate) fn mark_clean(&self, blocks: Range<u64>) {
        let mut state = self.state();
        let delayed = state.dirty.delayed.len();
        self.mark_clean_in(&mut state, blocks);
        if state.dirty.delayed.len() != delayed {
            self.refresh(&mut state);
        }
    }

    /// Marks `blocks` as clean after write-back has written them. Fails if these blocks are not in
    /// `dirty.writing`, which write-back sets.
    pub(crate) fn mark_written_back(&self, blocks: Range<u64>) -> Result<()> {
        let is_held = {
            let state = self.state();
            let writing = state.dirty.writing.as_ref();
            writing.is_some_and(|held| held.start <= blocks.start && blocks.end <= held.end)
        };
        let what = "write-back marks a block as clean that it did not write";
        self.inodes.fs.ensure(is_held, what)?;
        self.mark_clean(blocks);
        Ok(())
    }

    fn mark_clean_in(&self, state: &mut LiveState, blocks: Range<u64>) {
        let cleaned: Vec<_> = state.dirty.blocks.runs_in(blocks.clone()).collect();
        let before = state.dirty.blocks.len();
        state.dirty.blocks.remove(blocks.clone());
        state.dirty.delayed.remove(blocks.clone());
        state.dirty.converting.remove(blocks);
        let fewer = before - state.dirty.blocks.len();
        if state.dirty.delayed.is_empty() {
            self.release_surplus(state);
        }
        let inodes = self.inodes;
        let per_page = inodes.blocks_per_page();
        for run in cleaned {
            for index in state.dirty.pages_left(run, per_page).into_iter().flatten() {
                inodes.caches.pages.set_clean(key(self.ino(), index));
            }
        }
        inodes
            .dirty_files
            .remove(self.ino(), fewer, state.is_clean());
    }

    /// Discards all pages of the file, and its content that is only in memory. Called when a file
    /// is deleted, before its blocks are freed. The caller must hold `rw` exclusively.
    ///
    /// # Errors
    /// [`WouldWait`](larder_ext4::Error::WouldWait).
    pub(crate) fn discard_content(&self) -> Result<()> {
        let _exclusive = self.lock_write_back()?;
        self.discard_all_pages();
        self.mark_clean(0..u64::MAX);
        self.state().size_bytes = None;
        Ok(())
    }
}
