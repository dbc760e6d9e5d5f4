//! Adjusts the reservations of an inode in use to the space that its blocks need.

use super::{Live, LiveState};
use crate::need::{Need, need_of};
use larder_ext4::Reservation;
use std::ops::Range;

impl Live<'_> {
    /// Ends a write of `blocks`, and releases the reservations of the blocks that did not become
    /// dirty.
    pub(crate) fn end_expecting(&self, blocks: Range<u64>) {
        let mut state = self.state();
        let dirty = &mut state.dirty;
        let sets = [&dirty.expected, &dirty.converting];
        if !sets.iter().any(|set| set.intersects(blocks.clone())) {
            return;
        }
        dirty.expected.remove(blocks.clone());
        let mut clean = blocks.start;
        for run in dirty.blocks.runs_in(blocks.clone()) {
            dirty.converting.remove(clean..run.start);
            clean = run.end;
        }
        dirty.converting.remove(clean..blocks.end);
        self.release_surplus(&mut state);
    }

    /// Releases the reserved space that the delayed, expected and converting blocks do not need.
    pub(crate) fn release_surplus(&self, state: &mut LiveState) {
        let dirty = &state.dirty;
        let is_needed = dirty.reserved_sets().iter().any(|set| !set.is_empty());
        let need = match state.loaded() {
            Some(inode) if is_needed => {
                let delayed = need_of(&self.inodes.fs, &inode, &dirty.delayed, None);
                let expected = need_of(&self.inodes.fs, &inode, &dirty.expected, None);
                let converting = need_of(&self.inodes.fs, &inode, &dirty.converting, None);
                Need {
                    content: delayed.content + expected.content,
                    mapping: delayed.mapping + expected.mapping + converting.mapping,
                }
            }
            _ => Need::default(),
        };
        let dirty = &mut state.dirty;
        if !is_needed {
            dirty.reservation = None;
            dirty.for_mapping = None;
        }
        if let Some(reservation) = &mut dirty.reservation {
            reservation.keep(need.content);
        }
        if let Some(for_mapping) = &mut dirty.for_mapping {
            for_mapping.keep(need.mapping);
        }
    }

    /// Reserves space again for delayed blocks, after write-back has used their reservation for a
    /// claim that it failed to map. Also releases surplus reservations. The caller must hold
    /// `writeback`.
    pub(crate) fn settle_reservation(&self) {
        let mut state = self.state();
        if let Some(inode) = state.loaded() {
            let needed = need_of(&self.inodes.fs, &inode, &state.dirty.delayed, None);
            let reservation = state.dirty.reservation.as_ref();
            let reserved = reservation.map_or(0, Reservation::clusters);
            if reserved < needed.content
                && let Ok(again) = self.inodes.fs.reserve_again(needed.content - reserved)
            {
                state.dirty.add_reservation(again);
            }
        }
        self.release_surplus(&mut state);
    }
}
