//! Write-back: dirty pages on their way to the device.
//!
//! Model: `ext4_writepages`. Several files are written back together, in the order of their
//! numbers, so that what was created together is claimed, written and mapped together: pages that
//! follow each other on the device are one device write, of whichever files, straight from the
//! pages.
//!
//! ```text
//!   dirty blocks     -> pinned pages    nobody changes them meanwhile
//!   holes            -> claims          in memory only
//!   content          -> device
//!   claims           -> mapping, size   one handle for many files
//!   pages            -> clean
//! ```
//!
//! # Locking
//! `writeback` of the files throughout, in the order of their numbers: whoever cuts a file or
//! changes its mapping has it too, so that no page is written that was cut off meanwhile, and the
//! mapping can be looked at without `map`. That is taken, exclusively, around the handle.

use crate::dirty::BlockSet;
use crate::live::Live;
use crate::place::{Piece, Written};
use crate::read::{Reader, key};
use crate::{Error, Result};
use larder_cache::page::{Entry, Page};
use larder_ext4::{Ino, Reservation};
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::ops::Range;

/// The most pages that are written in one go; a small cache gives fewer.
const ROUND_PAGES: u32 = 1024;

/// The most files that are written back together.
const ROUND_FILES: usize = 64;

/// The most bytes of one device write.
const WRITE_BYTES: usize = 4 << 20;

/// Whether times that nothing but an inode's own block needs are written too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// They are.
    Written,
    /// They may wait: fdatasync.
    Left,
}

/// What of a file is written in one go.
struct FileRound<'r> {
    live: &'r Live<'r>,
    pages: BTreeMap<u64, Page<'r>>,
    pieces: VecDeque<Piece>,
    size_bytes: u64,
}

/// What follows each other on the device.
struct DeviceWrite<'p> {
    offset_bytes: u64,
    len_bytes: usize,
    slices: Vec<IoSlice<'p>>,
}

impl Reader {
    /// Writes back all files, as they are now.
    ///
    /// # Errors
    /// The first error; what other files have is written nevertheless.
    pub(crate) fn write_back_all(&self) -> Result<()> {
        self.write_back_numbered(&self.dirty_files.files())
    }

    /// Writes back the files of these numbers, which ascend.
    pub(crate) fn write_back_numbered(&self, files: &[Ino]) -> Result<()> {
        let mut result = Ok(());
        for group in files.chunks(ROUND_FILES) {
            let lives: Result<Vec<_>> = group.iter().map(|ino| self.live(*ino)).collect();
            result = result.and(self.write_back_files(&lives?, Times::Written));
        }
        result
    }

    /// Writes back one file.
    pub(crate) fn write_back_one(&self, live: &Live<'_>) -> Result<()> {
        self.write_back_files(std::slice::from_ref(live), Times::Written)
    }

    /// Content could not be written: nothing that depends on it may be committed.
    pub(crate) fn content_failed(&self, error: larder_block::Error) -> Error {
        let error = larder_ext4::Error::from(error);
        self.fs.abort(&error);
        error.into()
    }

    /// Writes back `lives`, in the order of their numbers.
    ///
    /// # Errors
    /// The first error; what other files have is written nevertheless, and what could not be
    /// written stays dirty.
    pub(crate) fn write_back_files(&self, lives: &[Live<'_>], times: Times) -> Result<()> {
        let _alone: Vec<_> = lives.iter().map(|live| live.writeback.lock()).collect();
        let mut result = Ok(());
        // The next block of each file that is dirty; others may even be deleted by now.
        let dirty = lives.iter().filter(|live| live.is_dirty());
        let mut queue: VecDeque<(&Live<'_>, u64)> = dirty.map(|live| (live, 0)).collect();
        while !queue.is_empty() {
            let mut begun = Vec::new();
            match self.write_next_round(&mut queue, &mut begun, times) {
                Ok(Some(next)) => queue.push_front(next),
                Ok(None) => {}
                Err(error) if !self.fs.is_writable() => return result.and(Err(error)),
                // One of them cannot be written, and the others can.
                Err(_) => {
                    for (live, from) in begun {
                        result = result.and(self.write_back_alone(live, from, times));
                    }
                }
            }
        }
        result
    }

    /// Writes back what comes next in `queue`, as much as a round has room for; returns where the
    /// last file goes on. `begun` are the files that it takes from there, whatever happens.
    fn write_next_round<'r>(
        &'r self,
        queue: &mut VecDeque<(&'r Live<'r>, u64)>,
        begun: &mut Vec<(&'r Live<'r>, u64)>,
        times: Times,
    ) -> Result<Option<(&'r Live<'r>, u64)>> {
        let mut room = self.round_pages();
        let mut gathered = Ok(None);
        let mut round = Vec::new();
        while room > 0
            && let Ok(None) = &gathered
            && let Some((live, from)) = queue.pop_front()
        {
            begun.push((live, from));
            gathered = self.gather(live, from, room).map(|(file, next)| {
                room = room.saturating_sub(file.pages.len());
                round.push(file);
                next.map(|next| (live, next))
            });
        }
        let written = gathered.and_then(|next| self.write_round(round, times).map(|()| next));
        for (live, _) in begun {
            end_round(live);
        }
        written
    }

    /// Writes back one file from block `from` on, if need be again when what was freed is
    /// committed.
    fn write_back_alone(&self, live: &Live<'_>, from: u64, times: Times) -> Result<()> {
        let mut next = Some(from);
        while let Some(from) = next {
            next = self.while_room_comes(|| {
                let mut queue = VecDeque::from([(live, from)]);
                let then = self.write_next_round(&mut queue, &mut Vec::new(), times)?;
                Ok(then.map(|(_, next)| next))
            })?;
        }
        Ok(())
    }

    fn round_pages(&self) -> usize {
        let most = self.caches.pages.frames().capacity() / 8;
        most.clamp(1, ROUND_PAGES) as usize
    }

    /// Pins dirty pages of the file from block `from` on, at most `room`, and places their
    /// content. Also tells where to go on, if there is more.
    fn gather<'r>(
        &'r self,
        live: &'r Live<'r>,
        from: u64,
        room: usize,
    ) -> Result<(FileRound<'r>, Option<u64>)> {
        let per_page = (self.page_bytes() / self.block_bytes()).max(1);
        let (runs, next, present_bytes, mut reservation) = {
            let mut state = live.state();
            let present_bytes = live.present_in(&mut state)?.size_bytes();
            let (runs, next) = first_pages(&state.dirty.blocks, from, room as u64, per_page);
            if let (Some(first), Some(last)) = (runs.first(), runs.last()) {
                state.dirty.writing = Some(first.start..last.end);
            }
            (runs, next, present_bytes, state.dirty.reservation.take())
        };
        let placed = self.place_runs(live, &runs, reservation.as_mut());
        let mut state = live.state();
        if let Some(mut reservation) = reservation {
            if let Some(more) = state.dirty.reservation.take() {
                reservation.add(more);
            }
            state.dirty.reservation = Some(reservation);
        }
        drop(state);
        let (pieces, stopped_at) = placed?;
        let end = stopped_at.unwrap_or(u64::MAX);
        let mut pages = BTreeMap::new();
        for run in runs {
            let run = run.start..run.end.min(end);
            for index in run.start / per_page..run.end.div_ceil(per_page) {
                pages
                    .entry(index)
                    .or_insert_with(|| self.pin_dirty(live.ino(), index));
            }
        }
        let is_last = stopped_at.is_none() && next.is_none();
        let written_to = pieces.back().map_or(0, |piece| piece.blocks.end);
        let file = FileRound {
            live,
            pages,
            pieces,
            size_bytes: if is_last {
                present_bytes
            } else {
                present_bytes.min(written_to.saturating_mul(self.block_bytes()))
            },
        };
        Ok((file, stopped_at.or(next)))
    }

    /// Places `runs`, up to the first block that cannot be placed before those before it are
    /// mapped, which is returned too.
    fn place_runs(
        &self,
        live: &Live<'_>,
        runs: &[Range<u64>],
        mut reservation: Option<&mut Reservation>,
    ) -> Result<(VecDeque<Piece>, Option<u64>)> {
        let cluster_log2 = self.fs.superblock().cluster_blocks_log2;
        let inode = live.inode()?;
        let mut pieces: VecDeque<Piece> = VecDeque::new();
        for run in runs {
            let shares_cluster = |last: &Piece| {
                !last.is_mapped()
                    && (last.blocks.end - 1) >> cluster_log2 == run.start >> cluster_log2
            };
            if cluster_log2 > 0 && pieces.back().is_some_and(shares_cluster) {
                return Ok((pieces, Some(run.start)));
            }
            pieces.extend(self.place(&inode, run.clone(), reservation.as_deref_mut())?);
        }
        Ok((pieces, None))
    }

    /// The page, which is dirty, held in place and as it is.
    pub(crate) fn pin_dirty(&self, ino: Ino, index: u64) -> Page<'_> {
        loop {
            match self.caches.pages.get_or_insert(key(ino, index)) {
                Entry::Uptodate(page) => return page,
                Entry::Busy(wait) => {
                    if let Some(page) = wait.wait() {
                        return page;
                    }
                }
                Entry::New(_) | Entry::Full => unreachable!("a dirty page stays in the cache"),
            }
        }
    }

    /// Writes the content of a round, maps it, and says that it is clean.
    fn write_round(&self, mut round: Vec<FileRound<'_>>, times: Times) -> Result<()> {
        if !self.journals_content {
            for write in self.device_writes(&round) {
                self.device
                    .write_vectored_at(&write.slices, write.offset_bytes)
                    .map_err(|error| self.content_failed(error))?;
            }
        }
        let mut to_map = VecDeque::new();
        let mut locks = Vec::new();
        for file in &mut round {
            let live = file.live;
            if !self.journals_content {
                // Who wants to change them waits for the end of the write-back.
                file.pages.clear();
                // Overwritten in place: clean already.
                let in_place = file.pieces.iter().filter(|piece| piece.is_mapped());
                in_place.for_each(|piece| live.mark_clean(piece.blocks.clone()));
                file.pieces.retain(|piece| !piece.is_mapped());
            }
            let is_longer = live.inode()?.size_bytes() < file.size_bytes;
            let has_times = times == Times::Written && live.has_times();
            if !file.pieces.is_empty() || is_longer || has_times {
                locks.push(live.map.write());
                to_map.push_back(Written {
                    live,
                    pieces: std::mem::take(&mut file.pieces),
                    size_bytes: file.size_bytes,
                    content: self.journals_content.then_some(&file.pages),
                });
            }
        }
        self.map_written(to_map, |live, mapped| {
            for blocks in mapped {
                live.mark_clean(blocks.clone());
            }
        })
    }

    /// The device writes that the pieces of `round` make, in the order of their places.
    fn device_writes<'p>(&self, round: &'p [FileRound<'_>]) -> Vec<DeviceWrite<'p>> {
        let block_bytes = self.block_bytes();
        let mut writes: Vec<DeviceWrite<'p>> = Vec::new();
        for file in round {
            for piece in &file.pieces {
                let slices = self.slices(file, &piece.blocks);
                writes.push(DeviceWrite {
                    offset_bytes: piece.start().0 * block_bytes,
                    len_bytes: slices.iter().map(|slice| slice.len()).sum(),
                    slices,
                });
            }
        }
        writes.sort_by_key(|write| write.offset_bytes);
        let mut merged: Vec<DeviceWrite<'p>> = Vec::with_capacity(writes.len());
        for mut write in writes {
            match merged.last_mut() {
                Some(last)
                    if last.offset_bytes + last.len_bytes as u64 == write.offset_bytes
                        && last.len_bytes + write.len_bytes <= WRITE_BYTES =>
                {
                    last.len_bytes += write.len_bytes;
                    last.slices.append(&mut write.slices);
                }
                _ => merged.push(write),
            }
        }
        merged
    }

    /// The bytes of `blocks` in the pages of `file`.
    fn slices<'p>(&self, file: &'p FileRound<'_>, blocks: &Range<u64>) -> Vec<IoSlice<'p>> {
        let (block_bytes, page_bytes) = (self.block_bytes(), self.page_bytes());
        let bytes = blocks.start * block_bytes..blocks.end * block_bytes;
        let indexes = bytes.start / page_bytes..bytes.end.div_ceil(page_bytes);
        let pages = file.pages.range(indexes);
        pages
            .map(|(index, page)| {
                let start = index * page_bytes;
                let in_page = |at: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(0);
                let end = in_page(bytes.end).min(page.len());
                IoSlice::new(&page[in_page(bytes.start)..end])
            })
            .collect()
    }
}

/// Ends what [`Reader::gather`] began; space that was claimed and not mapped is reserved again.
fn end_round(live: &Live<'_>) {
    live.state().dirty.writing = None;
    live.settle_reservation();
}

/// The runs of `dirty` from block `from` on that lie in the first `room` pages of those that it
/// touches, and where it goes on.
fn first_pages(
    dirty: &BlockSet,
    from: u64,
    room: u64,
    per_page: u64,
) -> (Vec<Range<u64>>, Option<u64>) {
    let mut runs: Vec<Range<u64>> = Vec::new();
    let mut left = room;
    // The page behind the last that was counted.
    let mut counted = 0;
    for run in dirty.runs_in(from..u64::MAX) {
        let first = (run.start / per_page).max(counted);
        let last = run.end.div_ceil(per_page);
        let pages = last.saturating_sub(first);
        if pages > left {
            let end = (first + left) * per_page;
            if end > run.start {
                runs.push(run.start..end);
            }
            return (runs, Some(end.max(run.start)));
        }
        left -= pages;
        counted = last;
        runs.push(run);
    }
    (runs, None)
}
