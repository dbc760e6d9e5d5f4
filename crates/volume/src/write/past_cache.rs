//! Writes content directly from the caller's buffer to the device, without the page cache.
//!
//! Model: `ext4_dio_write_iter`. Large writes use this path, because a copy into the page cache
//! would gain nothing. The kernel has already collected small writes into one FUSE request, and the
//! blocks of one request can be allocated in one extent.
//!
//! # Locking
//! `rw` and `writeback` are held from start to end. A page that a reader fills during the device
//! write may contain both old and new content. Such pages are discarded, with `map` held
//! exclusively, before the write returns.

use super::Writer;
use super::writing::Writing;
use crate::Result;
use crate::live::Live;
use crate::write_back::place::{Piece, Written, map_written, place};
use crate::write_back::retry::retry_after_commit;
use std::collections::VecDeque;

impl Writer {
    /// Writes the remaining bytes of `writing`, up to the file offset `until`. The range must
    /// consist of whole blocks. If it covers only a part of a page, no other block of that page may
    /// be dirty. The size of the file becomes at least `size_bytes`.
    ///
    /// # Errors
    /// `NoSpace`, usually before anything is written. It occurs after a part was written only if
    /// more space is needed than was reserved.
    pub(super) fn write_past_cache(
        &self,
        live: &Live<'_>,
        writing: &mut Writing<'_>,
        until: u64,
        size_bytes: u64,
    ) -> Result<()> {
        if live.inode()?.size_bytes() < writing.at() && live.is_dirty() {
            // This write may set the size on the image to the end of the range. The size must not
            // include content that is not on the device, so write back the content before the range
            // first.
            self.write_back.write_file(live)?;
        }
        let blocks = self.inodes.blocks_touched(&(writing.at()..until));
        self.reserve_holes(live, blocks.clone(), writing.privilege())?;
        let _exclusive = live.writeback.lock();
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

    /// Writes blocks for which space is reserved, and maps them. The caller must hold `writeback`.
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

        let _map = live.change_mapping()?;
        let written = Written {
            live,
            pieces,
            // This may be less than the present size of the file, because content after this write
            // may not be on the device yet.
            size_bytes,
            content: None,
        };
        let mut end = blocks.start;
        let mapped = map_written(&self.inodes, [written].into(), |_, mapped| {
            end = mapped.last().map_or(end, |last| last.end);
        });
        live.mark_clean(blocks.start..end);
        writing.advance_to(end * self.inodes.block_bytes());
        // Do not discard pages with dirty blocks: they contain the current content of the file.
        let per_page = self.inodes.blocks_per_page();
        let stale = live.state().dirty.pages_left(blocks, per_page);
        for pages in stale {
            live.discard_pages(pages);
        }
        mapped
    }

    /// Writes `buf`, the content at the file offset `start_bytes`, to the device blocks of
    /// `pieces`. Writes pieces that are contiguous on the device with one device write.
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
