//! Writing past the page cache: straight from the caller's buffer to the device.
//!
//! Model: `ext4_dio_write_iter`, for what is large enough that a copy costs more than it brings. A
//! FUSE kernel has gathered it already, and what comes in one piece can be allocated in one.
//!
//! # Locking
//! `rw` and `writeback` throughout. Pages that are filled while the device is written to may hold a
//! mixture: they are dropped, under `map`, before anyone can know that the write is done.

use super::Writer;
use super::pages::Writing;
use crate::Result;
use crate::live::Live;
use crate::write_back::place::{Piece, Written, map_written, place};
use crate::write_back::retry::retry_after_commit;
use std::collections::VecDeque;

impl Writer {
    /// Writes what is left of `writing`, up to `until` in the file: whole blocks, in pages of which
    /// nothing else is dirty. The file is at least `size_bytes` long afterwards.
    ///
    /// # Errors
    /// `NoSpace` before anything is written, unless more is needed than was promised.
    pub(super) fn write_past_cache(
        &self,
        live: &Live<'_>,
        writing: &mut Writing<'_>,
        until: u64,
        size_bytes: u64,
    ) -> Result<()> {
        if live.inode()?.size_bytes() < writing.at() && live.is_dirty() {
            // The size is not to pass content that is not on the device.
            self.write_back.write_file(live)?;
        }
        let blocks = self.inodes.blocks_touched(&(writing.at()..until));
        self.reserve_holes(live, blocks.clone())?;
        let _alone = live.writeback.lock();
        let written = retry_after_commit(self.fs(), || {
            let written = self.write_reserved(live, writing, until, size_bytes);
            if written.is_err() {
                live.settle_reservation();
            }
            written
        });
        live.end_expecting(blocks);
        live.settle_reservation();
        written
    }

    /// Writes what has space, and maps it. With `writeback` held.
    fn write_reserved(
        &self,
        live: &Live<'_>,
        writing: &mut Writing<'_>,
        until: u64,
        size_bytes: u64,
    ) -> Result<()> {
        let bytes = writing.at()..until;
        let blocks = self.inodes.blocks_touched(&bytes);
        let mut reservation = live.state().dirty.reservation.take();
        let placed = place(
            &self.inodes,
            &live.inode()?,
            blocks.clone(),
            reservation.as_mut(),
        );
        live.state().dirty.reservation = reservation;
        let pieces: VecDeque<_> = placed?.into();
        self.write_pieces(&pieces, writing.left(until), bytes.start)?;

        let _map = live.map.write();
        let written = Written {
            live,
            pieces,
            // Not as far as the file reaches in memory: that may not be on the device.
            size_bytes,
            content: None,
        };
        let mut end = blocks.start;
        let mapped = map_written(&self.inodes, [written].into(), |_, mapped| {
            end = mapped.last().map_or(end, |last| last.end);
        });
        live.mark_clean(blocks.start..end);
        writing.advance_to(end * self.inodes.block_bytes());
        // What is dirty still is what the file has.
        let per_page = self.inodes.blocks_per_page();
        let stale = live.state().dirty.pages_left(blocks, per_page);
        for pages in stale {
            live.discard_pages(pages);
        }
        mapped
    }

    /// Writes `buf`, which starts at `start_bytes` of the file, where `pieces` say. Pieces that
    /// follow each other are one device write.
    fn write_pieces(&self, pieces: &VecDeque<Piece>, buf: &[u8], start_bytes: u64) -> Result<()> {
        let block_bytes = self.inodes.block_bytes();
        let mut at = 0;
        while let Some(first) = pieces.get(at) {
            let mut end = first.blocks.end;
            let on_device = first.start().0;
            at += 1;
            while let Some(next) = pieces.get(at)
                && next.start().0 == on_device + (next.blocks.start - first.blocks.start)
            {
                end = next.blocks.end;
                at += 1;
            }
            let in_buf = |block: u64| usize::try_from(block * block_bytes - start_bytes).ok();
            let part = in_buf(first.blocks.start)
                .zip(in_buf(end))
                .and_then(|(from, to)| buf.get(from..to));
            self.write_back
                .write_to_device(part.unwrap_or_default(), on_device * block_bytes)?;
        }
        Ok(())
    }
}
