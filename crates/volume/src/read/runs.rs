//! Reads runs of consecutive pages into the page cache.
//!
//! The model is `mpage_readahead` of Linux, which reads with bios that complete independently. A run is divided into
//! parts, which consist of consecutive pages. The content of most parts is contiguous on the device, and one request
//! reads it. A part that consists of zeros needs no request. The requests for different parts are in flight
//! concurrently. The pages of a part complete together, so a reader waits only for the part that contains its page.
//!
//! On a device that delivers [in pieces](larder_block::BlockDevice::pieces), a run is divided so that all pages of a part
//! end in the same piece. Therefore a part never waits for a piece after the one in which it ends. A page that crosses
//! the border of two pieces is the first page of the part that ends in the later piece. Before a run is divided, each
//! of its ranges that is contiguous on the device is announced to the device as a whole. The device can then fetch the
//! range with few requests to its server.
//!
//! If blocks are smaller than pages, the blocks of one page can be in several places on the device. Such a
//! page is a part of its own, with one request for each place. These requests are performed in sequence: the
//! request for a place is submitted when the request for the previous place completes.
//!
//! If a request for several pages fails while a reader waits for it, each page is requested on its own, so that an
//! unreadable block affects only its own page. If no reader waits, the pages are requested on their own only if the
//! error is [`Error::Io`]; otherwise, all pages of the request are removed from the cache. In both
//! cases, a page that cannot be read on its own is removed. If a reader waits for the read of this page, it gets the
//! error. Any other reader that needs a removed page reads it again, and gets the error of its own read.
//!
//! If the device does not answer within its timeout, the reader stops waiting and returns an error. The pages
//! stay busy until the request completes, because the device may still write to their memory. A later answer
//! is handled like the answer to a request for which no reader waits.
//!
//! Locking: on a volume that is open for writing, a run holds a shared lock on the `map` of its inode until all
//! of its requests are complete. Therefore no block is freed while a request reads it. Readahead does not
//! wait for this lock, because the wait could deadlock: the thread that starts readahead may have a page
//! pinned, and a thread that holds the lock exclusively may be waiting until that page is unpinned.

use super::in_flight::{Counted, InFlight};
use super::measured::Measured;
use crate::Result;
use crate::fill::{PageFiller, Segment, UncheckpointedBlocks, segments, slices};
use crate::live::StableMapping;
use larder_block::{CancelToken, Error, Pieces, Priority, Request};
use larder_cache::page::{NewPage, PagesToRead};
use larder_ext4::Inode;
use larder_readahead::Balance;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Reads runs of pages.
///
/// Dropping this value [cancels](larder_block::BlockDevice::cancel_in_flight) the requests that the device has not
/// started, and those that wait for a server. The drop then waits until all requests are complete, at most for the
/// timeout of the device. After a timeout, the requests that are still in flight keep references to their pages, to the
/// pool of frames that contains the pages, to the inodes and to the device. The last request to complete releases them.
#[derive(Debug)]
pub(super) struct Runs {
    filler: PageFiller,
    in_flight: Arc<InFlight>,
    /// The token of the requests for which no reader waits.
    cancel: CancelToken,
    /// Records the durations of reads, from which the policy `adaptive` estimates the speed of the device. `None` with
    /// other policies.
    balance: Option<Arc<Balance>>,
}

/// Bytes of a part that are contiguous on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The range of the bytes, relative to the start of the part's first page.
    bytes: Range<usize>,
    /// The offset of the first byte on the device.
    offset_bytes: u64,
}

/// Consecutive pages of a run that are filled together.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    /// The number of pages.
    pages: usize,
    /// The places, in the order of their bytes in the part. Bytes outside all places are zeros. A part of
    /// several pages has at most one place.
    places: VecDeque<Place>,
}

/// The busy pages of a part, and the places that have not been requested yet.
struct PartPages {
    /// The offset of the first page in the file, in bytes.
    start_bytes: u64,
    pages: Vec<NewPage>,
    places: VecDeque<Place>,
}

/// The result of a request for one place of a part. The place is no longer in `part.places`.
struct Answer {
    part: PartPages,
    place: Place,
    result: larder_block::Result<()>,
}

/// The state that a reader shares with the request for which it waits.
enum Handover {
    /// The reader waits, and the request is not complete. The pages of the request are not counted as in flight: only a
    /// drop of [`Runs`] waits for counted pages, and the [`Runs`] cannot be dropped while the reader borrows them.
    Expected,
    /// The request is complete, and the reader has not taken the answer yet.
    Answered(Answer),
    /// The reader has stopped waiting. When the request completes, its callback handles the answer. Until
    /// then, the pages of the request count as in flight, so that a drop of [`Runs`] waits for them.
    Abandoned(Counted),
}

/// The state shared by the reads of all parts of a run.
#[derive(Clone, Debug)]
struct PageReads {
    filler: PageFiller,
    in_flight: Arc<InFlight>,
    cancel: CancelToken,
    balance: Option<Arc<Balance>>,
    /// The state of the inode when the run was prepared.
    inode: Inode,
    /// Keeps the mapping of the file unchanged until all requests of the run are complete. `None` if the
    /// volume is not open for writing.
    _mapping: Option<Arc<StableMapping>>,
    priority: Priority,
}

impl Runs {
    /// Creates a `Runs` that fills pages with `filler`, for a cache of `cache_pages` pages. The durations of
    /// its requests are recorded in `balance`.
    pub(super) fn new(
        filler: PageFiller,
        cache_pages: usize,
        balance: Option<Arc<Balance>>,
    ) -> Self {
        Self {
            filler,
            in_flight: InFlight::new(cache_pages),
            cancel: CancelToken::default(),
            balance,
        }
    }

    /// Returns whether asynchronous readahead must stop because too many pages are in flight.
    pub(super) fn is_congested(&self) -> bool {
        self.in_flight.is_congested()
    }

    /// Returns the deadline of a reader that starts to wait for a page now. Returns `None` if the device has no
    /// timeout.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.filler.device.deadline()
    }

    /// Returns the error for a reader that has waited for a page until [`Runs::deadline`].
    pub(super) fn timed_out(&self) -> crate::Error {
        self.filler.inodes.caches.buffers.timed_out().into()
    }

    /// Raises the priority of the request that reads page `index`, because a reader is about to wait for this page. To
    /// find the request, looks up the page's place on the device, which may require a read of the file's block mapping.
    /// Does nothing if this lookup fails, or if another thread is changing the mapping or waits to change it.
    pub(super) fn expedite(&self, inode: &Inode, index: u64) {
        let inodes = &self.filler.inodes;
        // An error of this lookup can be ignored, because the request is already in flight. If the request fails, the reader
        // reads the page itself, which repeats the lookup and returns its error.
        let Ok(Some((inode, _mapping))) = inodes.stable_mapping(inode, false) else {
            return;
        };
        let page_bytes = inodes.caches.pages.page_bytes();
        let start_bytes = index * page_bytes as u64;
        let segments = segments(&inodes.fs, &inode, start_bytes, page_bytes).unwrap_or_default();
        for segment in segments {
            if let Some(offset_bytes) = segment.offset_bytes {
                let len_bytes = segment.bytes.len() as u64;
                self.filler.device.expedite(offset_bytes, len_bytes);
            }
        }
    }

    /// Starts to read `pages`, which are consecutive from page `first` on. Does not wait for the pages, unless
    /// [`BlockDevice::submit`](larder_block::BlockDevice::submit) performs the requests itself. May wait until
    /// the file's block mapping is read. If another thread is changing the mapping, or if the mapping of page
    /// `first` cannot be read, drops the pages without reading them.
    pub(super) fn start(&self, inode: &Inode, first: u64, pages: Vec<NewPage>, priority: Priority) {
        match self.prepare(inode, first, pages, priority, false) {
            Ok(Some((reads, parts))) => reads.start(parts),
            Ok(None) => {}
            Err(error) => tracing::debug!(ino = %inode.ino(), %error, "readahead failed"),
        }
    }

    /// Reads `pages`, which are consecutive from page `first` on, and waits for page `first`. Passes this page
    /// to `complete`, and returns the result of `complete`. The other pages may complete later. If another
    /// thread is changing the mapping of the file, first waits for that thread. The caller must not have a page
    /// pinned, because that thread may wait until the page is unpinned.
    pub(super) fn read<R>(
        &self,
        inode: &Inode,
        first: u64,
        pages: Vec<NewPage>,
        complete: impl FnOnce(NewPage) -> R,
    ) -> Result<R> {
        let prepared = self.prepare(inode, first, pages, Priority::Demand, true)?;
        let (reads, mut parts) = prepared.expect("the mapping is stable after a wait");
        let first = parts.pop_front().expect("a run has at least one part");
        reads.start(parts);
        reads.read(first).map(complete)
    }

    /// Locks and reads the block mapping for a run, and divides the run into parts. If the mapping of the whole
    /// run cannot be read, drops all pages except the first, and reads the mapping of the first page only. If
    /// another thread is changing the mapping, waits for that thread if `can_wait` is true, and otherwise
    /// returns `None`.
    fn prepare(
        &self,
        inode: &Inode,
        first: u64,
        mut pages: Vec<NewPage>,
        priority: Priority,
        can_wait: bool,
    ) -> Result<Option<(PageReads, VecDeque<PartPages>)>> {
        let inodes = &self.filler.inodes;
        let Some((inode, mapping)) = inodes.stable_mapping(inode, can_wait)? else {
            return Ok(None);
        };
        let page_bytes = inodes.caches.pages.page_bytes();
        let mut start_bytes = first * page_bytes as u64;
        let segments_of =
            |pages: usize| segments(&inodes.fs, &inode, start_bytes, pages * page_bytes);
        let segments = match segments_of(pages.len()) {
            Err(_) if pages.len() > 1 => {
                pages.truncate(1);
                segments_of(1)?
            }
            segments => segments?,
        };
        let pieces = self.filler.device.pieces();
        if pieces.is_some() {
            self.announce(&segments, priority);
        }
        let parts = divide_into_parts(&segments, page_bytes, pages.len(), pieces);
        let mut pages = pages.into_iter();
        let parts = parts.into_iter().map(|part| {
            let part = PartPages {
                start_bytes,
                pages: pages.by_ref().take(part.pages).collect(),
                places: part.places,
            };
            start_bytes += (part.pages.len() * page_bytes) as u64;
            part
        });
        let parts = parts.collect();
        let reads = PageReads {
            filler: self.filler.clone(),
            in_flight: Arc::clone(&self.in_flight),
            cancel: self.cancel.clone(),
            balance: self.balance.clone(),
            inode,
            _mapping: mapping.map(Arc::new),
            priority,
        };
        Ok(Some((reads, parts)))
    }

    /// Announces the reads of `segments` to the device.
    fn announce(&self, segments: &[Segment], priority: Priority) {
        for segment in segments {
            if let Some(offset_bytes) = segment.offset_bytes {
                let len_bytes = segment.bytes.len() as u64;
                self.filler
                    .device
                    .announce(offset_bytes, len_bytes, priority);
            }
        }
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.filler.device.cancel_in_flight();
        let pages = self.in_flight.wait(self.deadline());
        if pages > 0 {
            tracing::warn!(
                pages,
                "the volume was closed while pages were still being read"
            );
        }
    }
}

impl PageReads {
    /// Starts to read `parts`: submits a request for the first place of each. Parts without places, which
    /// consist of zeros, complete immediately.
    fn start(&self, parts: VecDeque<PartPages>) {
        let requests = parts.into_iter().filter_map(|mut part| {
            part.zero_gaps();
            self.clone().request(part)
        });
        let requests: Vec<_> = requests.collect();
        if !requests.is_empty() {
            self.filler.device.submit(requests);
        }
    }

    /// Returns a request for the next place of `part`. If all places have been read, completes the
    /// pages and returns `None`.
    fn request(self, mut part: PartPages) -> Option<Request> {
        let Some(place) = part.places.pop_front() else {
            self.filled(part).into_iter().for_each(NewPage::complete);
            return None;
        };
        let counted = self.in_flight.count(part.pages.len());
        let (priority, cancel) = (self.priority, self.cancel.clone());
        let done = |reads: Self, answer| reads.answered(answer, counted);
        let request = self.request_for(part, place, done);
        Some(request.with_priority(priority).with_cancel(&cancel))
    }

    /// Returns a request that fills `place` of `part`, and then calls `done`.
    fn request_for(
        self,
        mut part: PartPages,
        place: Place,
        done: impl FnOnce(Self, Answer) + Send + 'static,
    ) -> Request {
        let bytes = place.bytes.clone();
        let offset_bytes = place.offset_bytes;
        let uncheckpointed =
            UncheckpointedBlocks::find(&self.filler.inodes.fs, bytes.clone(), offset_bytes);
        let measured = self.balance.as_ref().map(|balance| {
            let pages = bytes.len().div_ceil(part.pages[0].len());
            Measured::new(balance, u32::try_from(pages).unwrap_or(u32::MAX))
        });
        let read = PagesToRead::new(std::mem::take(&mut part.pages), bytes);
        Request::read(read, offset_bytes, move |read, result| {
            if let Some(measured) = measured.filter(|_| result.is_ok()) {
                measured.complete(self.filler.pages().readahead_counts());
            }
            part.pages = read.into_pages();
            if result.is_ok() {
                uncheckpointed.copy_to(&mut part.pages);
            }
            let answer = Answer {
                part,
                place,
                result,
            };
            done(self, answer);
        })
    }

    /// Handles the answer to a request for which no reader waits: requests the next place or, after the last
    /// place, completes the pages. If the request failed, requests each page on its own, or drops the pages
    /// ([`PageReads::single_page_requests`]).
    fn answered(self, answer: Answer, counted: Counted) {
        let device = Arc::clone(&self.filler.device);
        let requests = match answer.result {
            Ok(()) => self.request(answer.part).into_iter().collect(),
            Err(error) => self.single_page_requests(answer.part, &answer.place, &error),
        };
        if !requests.is_empty() {
            device.submit(requests);
        }
        // The reference to the device is dropped before `counted`. Once no page is counted, another thread may
        // finish the drop of the volume. If this thread still had its reference then, the image would stay open
        // for a moment after that drop.
        drop(device);
        drop(counted);
    }

    /// Returns a request for each page of `part`, after the read of `place` failed with `error`. If the part
    /// is a single page, or `error` is not [`Error::Io`], drops the pages and returns no requests. A reader
    /// that needs one of these pages reads it again. If this read also fails, the reader gets its error.
    fn single_page_requests(self, part: PartPages, place: &Place, error: &Error) -> Vec<Request> {
        if part.pages.len() == 1 || !matches!(error, Error::Io { .. }) {
            let ino = self.inode.ino();
            tracing::debug!(%ino, %error, "a read without a waiting reader failed");
            return Vec::new();
        }
        let pages = part.into_single_pages(place).into_iter();
        pages
            .filter_map(|page| self.clone().request(page))
            .collect()
    }

    /// Returns the pages of `part`, whose places have all been read. On a volume that is open for writing,
    /// fills the bytes past the end of the file with zeros first.
    fn filled(&self, mut part: PartPages) -> Vec<NewPage> {
        self.filler
            .zero_past_end(&self.inode, part.start_bytes, &mut part.pages);
        part.pages
    }

    /// Reads `part`, completes all pages except the first, and returns the first. If the read of several pages
    /// fails, reads the first page on its own, and starts to read each other page on its own. If the device does
    /// not answer within its timeout, returns an error. The request then keeps the pages. A later answer is
    /// handled like the answer to a request for which no reader waits.
    fn read(&self, mut part: PartPages) -> Result<NewPage> {
        part.zero_gaps();
        while let Some(place) = part.places.pop_front() {
            let answer = self.perform(part, place)?;
            part = answer.part;
            if let Err(source) = answer.result {
                if part.pages.len() == 1 {
                    return Err(self.unreadable(&answer.place, source));
                }
                let mut pages = part.into_single_pages(&answer.place);
                let first = pages.pop_front().expect("a part has at least one page");
                self.start(pages);
                return self.read(first);
            }
        }
        let mut pages = self.filled(part).into_iter();
        let first = pages.next().expect("a part has at least one page");
        pages.for_each(NewPage::complete);
        Ok(first)
    }

    /// Reads `place` of `part` from the device, and waits for the answer. If the read fails, the answer contains
    /// the error. This function itself returns an error if the wait ends without an answer, for example after the
    /// timeout of the device.
    fn perform(&self, part: PartPages, place: Place) -> Result<Answer> {
        let handover = Arc::new(Mutex::new(Handover::Expected));
        let (device, shared) = (&self.filler.device, Arc::clone(&handover));
        let requested = place.clone();
        let pages = part.pages.len();
        let done = move |reads: Self, answer| {
            let mut handover = shared.lock();
            match std::mem::replace(&mut *handover, Handover::Expected) {
                Handover::Abandoned(counted) => {
                    drop(handover);
                    reads.answered(answer, counted);
                }
                _ => *handover = Handover::Answered(answer),
            }
        };
        let request = self.clone().request_for(part, place, done);
        let performed = device.perform(vec![request], device.timeout());
        let abandoned = Handover::Abandoned(self.in_flight.count(pages));
        match (
            std::mem::replace(&mut *handover.lock(), abandoned),
            performed,
        ) {
            (Handover::Answered(answer), Ok(())) => Ok(answer),
            // The read succeeded after the timeout, but before `handover` was locked.
            (Handover::Answered(answer), Err(_)) if answer.result.is_ok() => Ok(answer),
            (_, performed) => {
                let error = performed.err().unwrap_or(Error::Cancelled);
                Err(self.unreadable(&requested, error))
            }
        }
    }

    fn unreadable(&self, place: &Place, source: Error) -> crate::Error {
        let offset_bytes = place.offset_bytes;
        self.filler.unreadable(offset_bytes, &self.inode, source)
    }
}

impl PartPages {
    /// Fills the bytes outside all places with zeros.
    fn zero_gaps(&mut self) {
        let len = self.pages.iter().map(|page| page.len()).sum();
        let mut start = 0;
        for place in &self.places {
            slices(&mut self.pages, start..place.bytes.start).for_each(|gap| gap.fill(0));
            start = place.bytes.end;
        }
        slices(&mut self.pages, start..len).for_each(|gap| gap.fill(0));
    }

    /// Divides this part into parts of one page each. `place`, which was removed from this part, must have
    /// been its only place.
    fn into_single_pages(self, place: &Place) -> VecDeque<Self> {
        let mut at = 0;
        let parts = self.pages.into_iter().map(|page| {
            let start = at;
            at += page.len();
            let bytes = place.bytes.start.max(start)..place.bytes.end.min(at);
            let skipped = (bytes.start - place.bytes.start) as u64;
            let own = Place {
                bytes: bytes.start - start..bytes.end - start,
                offset_bytes: place.offset_bytes + skipped,
            };
            Self {
                start_bytes: self.start_bytes + start as u64,
                pages: vec![page],
                places: VecDeque::from([own]),
            }
        });
        parts.collect()
    }
}

/// Divides a run of `count` pages, which consists of `segments`, into parts. If the device has pieces, all
/// pages of a part end in the same piece, and only the first page can begin in an earlier one.
fn divide_into_parts(
    segments: &[Segment],
    page_bytes: usize,
    count: usize,
    pieces: Option<Pieces>,
) -> Vec<Part> {
    // The number of the piece that contains the last byte of `places`.
    let last_piece = |places: &VecDeque<Place>| {
        let last = places.back()?;
        let end_bytes = last.offset_bytes + last.bytes.len() as u64;
        Some(pieces?.number(end_bytes - 1))
    };
    let mut parts: Vec<Part> = Vec::new();
    let mut rest = segments;
    for page in 0..count {
        let bytes = page * page_bytes..(page + 1) * page_bytes;
        while rest
            .first()
            .is_some_and(|segment| segment.bytes.end <= bytes.start)
        {
            rest = &rest[1..];
        }
        let places = rest
            .iter()
            .take_while(|segment| segment.bytes.start < bytes.end)
            .filter_map(|segment| {
                let start = segment.bytes.start.max(bytes.start);
                let skipped = (start - segment.bytes.start) as u64;
                Some(Place {
                    bytes: start - bytes.start..segment.bytes.end.min(bytes.end) - bytes.start,
                    offset_bytes: segment.offset_bytes? + skipped,
                })
            });
        let places: VecDeque<_> = places.collect();
        let piece = last_piece(&places);
        let is_added = parts.last_mut().is_some_and(|part| {
            let last = last_piece(&part.places);
            let is_same = piece.is_none() || last.is_none() || piece == last;
            is_same && part.extend(&places, page_bytes)
        });
        if !is_added {
            parts.push(Part { pages: 1, places });
        }
    }
    parts
}

impl Part {
    /// Adds the next page, whose places are `places`, if it continues this part. Returns whether
    /// the page was added.
    fn extend(&mut self, places: &VecDeque<Place>, page_bytes: usize) -> bool {
        if self.places.len() > 1 || self.places.len() != places.len() {
            return false;
        }
        if let (Some(place), Some(next)) = (self.places.front_mut(), places.front()) {
            let is_continued = place.bytes.end == self.pages * page_bytes
                && next.bytes.start == 0
                && place.offset_bytes + place.bytes.len() as u64 == next.offset_bytes;
            if !is_continued {
                return false;
            }
            place.bytes.end += next.bytes.end;
        }
        self.pages += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(bytes: Range<usize>, offset_bytes: Option<u64>) -> Segment {
        Segment {
            bytes,
            offset_bytes,
        }
    }

    fn part<const N: usize>(pages: usize, places: [(Range<usize>, u64); N]) -> Part {
        let places = places.map(|(bytes, offset_bytes)| Place {
            bytes,
            offset_bytes,
        });
        Part {
            pages,
            places: places.into(),
        }
    }

    /// Returns pieces of `len_bytes` for a device that begins at `start_bytes` of a disk.
    fn pieces(len_bytes: u64, start_bytes: u64) -> Pieces {
        Pieces::new(len_bytes.try_into().unwrap(), start_bytes)
    }

    #[test]
    fn contiguous_blocks_are_one_part() {
        let segments = [segment(0..4096 * 3, Some(8192))];
        let expected = [part(3, [(0..12288, 8192)])];
        assert_eq!(divide_into_parts(&segments, 4096, 3, None), expected);
    }

    #[test]
    fn part_ends_at_the_end_of_a_piece() {
        let segments = [
            segment(0..16_384, Some(4096)),
            segment(16_384..24_576, None),
        ];
        let expected = [
            part(1, [(0..4096, 4096)]),
            part(2, [(0..8192, 8192)]),
            part(1, [(0..4096, 16_384)]),
            part(2, []),
        ];
        assert_eq!(
            divide_into_parts(&segments, 4096, 6, Some(pieces(8192, 0))),
            expected
        );
    }

    #[test]
    fn pieces_of_a_partition_begin_before_it() {
        let segments = [segment(0..24_576, Some(0))];
        let expected = [
            part(1, [(0..4096, 0)]),
            part(4, [(0..16_384, 4096)]),
            part(1, [(0..4096, 20_480)]),
        ];
        let at =
            |start_bytes| divide_into_parts(&segments, 4096, 6, Some(pieces(16_384, start_bytes)));
        assert_eq!(at(16_384 + 12_288), expected);
        // No page starts at the start of a piece: the second page is in two pieces.
        let expected = [part(1, [(0..4096, 0)]), part(4, [(0..16_384, 4096)])];
        assert_eq!(at(10 * 1024)[..2], expected);
    }

    #[test]
    fn page_in_two_pieces_is_the_first_of_its_part() {
        let segments = [segment(0..16_384, Some(5120))];
        let expected = [part(3, [(0..12_288, 5120)]), part(1, [(0..4096, 17_408)])];
        let expected_small = [part(1, [(0..4096, 5120)]), part(3, [(0..12_288, 9216)])];
        assert_eq!(
            divide_into_parts(&segments, 4096, 4, Some(pieces(20_480, 0))),
            expected
        );
        assert_eq!(
            divide_into_parts(&segments, 4096, 4, Some(pieces(12_288, 0))),
            expected_small
        );
    }

    #[test]
    fn part_ends_inside_its_last_page() {
        let segments = [segment(0..5120, Some(1024)), segment(5120..8192, None)];
        assert_eq!(
            divide_into_parts(&segments, 4096, 2, None),
            [part(2, [(0..5120, 1024)])]
        );
    }

    #[test]
    fn part_starts_inside_its_first_page() {
        let segments = [
            segment(0..3072, None),
            segment(3072..8192, Some(1024)),
            segment(8192..16384, None),
        ];
        let expected = [part(2, [(3072..8192, 1024)]), part(2, [])];
        assert_eq!(divide_into_parts(&segments, 4096, 4, None), expected);
    }

    #[test]
    fn page_of_several_places_is_a_part() {
        let segments = [
            segment(0..5120, Some(10_240)),
            segment(5120..6144, Some(1024)),
            segment(6144..7168, None),
            segment(7168..12_288, Some(20_480)),
        ];
        let several = [(0..1024, 14_336), (1024..2048, 1024), (3072..4096, 20_480)];
        let expected = [
            part(1, [(0..4096, 10_240)]),
            part(1, several),
            part(1, [(0..4096, 21_504)]),
        ];
        assert_eq!(divide_into_parts(&segments, 4096, 3, None), expected);
    }
}
