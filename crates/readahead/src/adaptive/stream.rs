//! One stream of a file: its shape, the pages ahead of the reader, and the two values that adapt.
//!
//! ```text
//!                 reader        marker            next
//!   ----------------+--------------+----------------+----> page index of a forward stream
//!                   |              |<---- ahead --->|
//!                                  |                |<---- degree ---->|   the next window
//! ```
//!
//! Model: AMP (Gill and Bathen, 2007). The *degree* is the number of pages of the next window, and the *trigger
//! distance* is the number of pages that are still ahead of the reader when this window is started.
//!
//! | event | effect |
//! |---|---|
//! | the reader reaches the marker | the degree doubles, or quadruples if the reader had to wait |
//! | the reader waits for a page in flight | the trigger distance doubles at the next window; if the device is busy, it shrinks instead |
//! | the reader misses a page that was read ahead | it was evicted: the limit of degree and trigger distance halves |
//!
//! The sum of both is limited by the stream's share of the memory ([`Balance::share_pages`]) and by the pages that
//! it has consumed ([`Balance::reach_pages`]). While the sum is below its limit, the trigger distance equals the
//! degree, so that one window is read while the other is consumed.

use super::balance::{Balance, Chance, Start};
use crate::series::Series;
use crate::sizes::MAX_PAGES_LIMIT;
use crate::{PageIndex, Read, Window, Windows};
use std::ops::Range;

/// The least degree in pages.
const LEAST_PAGES: u32 = 4;

/// The first window has at least this number of pages ahead of the request, if the stream probably continues.
const FIRST_PAGES: u32 = 32;

/// The windows of a strided stream have at least this number of requests in total, if the memory permits: the queue
/// of a disk.
const STRIDED_REQUESTS: u32 = 32;

/// The trigger distance is reduced after this number of windows without a wait.
const CALM_WINDOWS: u8 = 8;

/// Sizes in pages of the parts of a long window, which are read concurrently.
const PART_PAGES: Range<u32> = 64..256;

/// The least size in pages of the parts of a long random request to a slow device: 64 KiB, a piece of a server's answer.
const LEAST_SLOW_PART_PAGES: u32 = 16;

/// The number of parts of a long window, if few requests are in flight.
const PARTS: u32 = 16;

/// If more than this number of requests are in flight, a long window has fewer and longer parts.
const MANY_REQUESTS: u32 = 64;

/// The pages that a strided reader reads at each place grow at most by this factor from one pass to the next.
const PASS_FACTOR: u32 = 8;

/// If a stream waits, its share of the memory grows by 1/`GROWTH_DIVISOR` of the memory at each window. The rate of
/// such a stream depends on its windows. Without this growth, a stream with small windows would keep small windows.
const GROWTH_DIVISOR: u32 = 512;

/// If at least this number of requests are in flight, a reader waits because the device is busy, and not because its
/// window was started too late.
const BUSY_REQUESTS: u32 = 16;

/// The order in which a stream reads pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Each request starts where the last one ended.
    Forward,
    /// Each request ends where the last one started.
    Backward,
    /// Each request starts `step` pages after the start of the last one.
    Strided { step: i64 },
}

/// The position of a missing page relative to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// The next page that has not been read ahead.
    Next,
    /// A page that has been read ahead, and was evicted.
    Evicted,
    /// A little further than the next page.
    Further,
    /// The start of another pass of a strided reader, between its first and its second request.
    Pass,
}

/// A stream of requests.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) shape: Shape,
    start: Start,
    /// Pages of a request.
    request_pages: u32,
    /// The start of the first request of a strided stream.
    origin: u64,
    /// The number of pages that a strided stream reads at each place: those of this pass and of the next passes.
    width: u32,
    /// The start of the current pass of a strided stream.
    pass_start: u64,
    /// The last known position of the reader.
    seen: u64,
    /// The first page that was not read ahead. For a backward stream, the page after it.
    next: u64,
    /// The page that carries the marker of this stream.
    pub(super) marker: Option<u64>,
    /// The degree.
    degree: u32,
    /// The trigger distance, if memory is short.
    distance: u32,
    /// The share of the memory.
    share: u32,
    /// The limit of the degree and the trigger distance, reduced when pages were evicted.
    limit: u32,
    /// Pages that the reader has consumed.
    consumed: u64,
    /// The value of [`Balance::inserted`] at the last window.
    inserted: u64,
    /// Whether the reader has waited since the last window.
    has_waited: bool,
    /// Whether the device was busy while the reader waited.
    is_busy: bool,
    calm_windows: u8,
    /// Number of windows so far, at most 4.
    windows: u8,
    /// The first page that the last window left out, because there was no memory for the page.
    omitted: Option<u64>,
    /// The number of the file's decision that last used this stream.
    pub(super) used_at: u32,
}

/// The missing pages of a request, and the size of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) file_pages: u64,
    /// The largest permitted window.
    pub(super) max_pages: u32,
}

impl Missing {
    pub(super) fn of(read: &Read, max_pages: u32) -> Self {
        let end = read.last_page().0.saturating_add(1).min(read.file_pages);
        let start = read.index.0;
        Self {
            start,
            end: end.clamp(start, start.saturating_add(MAX_PAGES_LIMIT.into())),
            file_pages: read.file_pages,
            max_pages,
        }
    }

    pub(super) fn pages(&self) -> u32 {
        u32::try_from(self.end - self.start).unwrap_or(u32::MAX)
    }

    /// Returns windows with the missing pages and no other pages.
    pub(super) fn windows(&self, balance: &Balance) -> Windows {
        // A part that is too small costs more than its earlier arrival saves, unless the device is slow.
        let least = if balance.is_slow() {
            LEAST_SLOW_PART_PAGES
        } else {
            PART_PAGES.start
        };
        let mut windows = Windows::NONE;
        windows.set_series(self.parts((self.start, self.pages()), None, least, balance));
        windows
    }

    /// Returns `pages` pages from `start` on, in parts that the device can read concurrently.
    fn series(&self, start: u64, pages: u32, marker: Option<u64>, balance: &Balance) -> Series {
        self.parts((start, pages), marker, PART_PAGES.start, balance)
    }

    /// Returns `pages` pages from `start` on, in parts of equal size, which have at least `least` pages if the largest
    /// window permits.
    fn parts(
        &self,
        (start, pages): (u64, u32),
        marker: Option<u64>,
        least: u32,
        balance: &Balance,
    ) -> Series {
        let parts = MANY_REQUESTS.saturating_sub(balance.requests_in_flight());
        let part = (pages / parts.clamp(1, PARTS)).clamp(least, PART_PAGES.end);
        let part = part.min(self.max_pages).max(1);
        let equal = pages.div_ceil(pages.div_ceil(part).max(1));
        Series::contiguous(start, pages, equal, marker)
    }
}

impl Stream {
    pub(super) fn new(
        shape: Shape,
        start: Start,
        missing: &Missing,
        request_pages: u32,
        balance: &Balance,
    ) -> Self {
        balance.started(start, 0);
        Self {
            shape,
            start,
            request_pages: request_pages.max(1),
            origin: missing.start,
            width: request_pages.max(1),
            pass_start: missing.start,
            seen: missing.start,
            next: match shape {
                Shape::Backward => missing.end,
                Shape::Forward | Shape::Strided { .. } => missing.start,
            },
            marker: None,
            degree: 0,
            distance: request_pages.max(8),
            share: u32::MAX,
            limit: u32::MAX,
            consumed: 0,
            inserted: balance.inserted(),
            has_waited: false,
            is_busy: false,
            calm_windows: 0,
            windows: 0,
            omitted: None,
            used_at: 0,
        }
    }

    /// Returns the position of the missing pages relative to this stream, if they belong to it.
    pub(super) fn place(&self, missing: &Missing) -> Option<Place> {
        let near = u64::from(missing.pages()) * 2;
        match self.shape {
            Shape::Forward | Shape::Strided { .. } if missing.start == self.next => {
                Some(Place::Next)
            }
            Shape::Forward if Some(missing.start) == self.omitted => Some(Place::Next),
            Shape::Forward if missing.start < self.next => {
                (missing.start >= self.seen).then_some(Place::Evicted)
            }
            Shape::Forward => {
                let is_near = self.windows >= 3 && missing.start - self.next <= near;
                is_near.then_some(Place::Further)
            }
            Shape::Backward if missing.start < self.next && self.next <= missing.end => {
                Some(Place::Next)
            }
            Shape::Backward if missing.start >= self.next => {
                (missing.start <= self.seen).then_some(Place::Evicted)
            }
            Shape::Backward => {
                let is_near = self.windows >= 3 && self.next - missing.end <= near;
                is_near.then_some(Place::Further)
            }
            Shape::Strided { step } => {
                let back = i128::from(self.next) - i128::from(missing.start);
                let steps = back / i128::from(step);
                let is_ahead = back % i128::from(step) == 0
                    && steps > 0
                    && steps <= i128::from(self.degree.saturating_mul(2) / self.request_pages);
                let is_pass = self.pass_shift(step, missing).is_some();
                is_ahead
                    .then_some(Place::Evicted)
                    .or_else(|| is_pass.then_some(Place::Pass))
            }
        }
    }

    /// Returns the distance from the first request of a strided stream to `missing`, if `missing` starts another pass.
    fn pass_shift(&self, step: i64, missing: &Missing) -> Option<u64> {
        let shift =
            (i128::from(missing.start) - i128::from(self.origin)) * i128::from(step.signum());
        let shift = u64::try_from(shift).ok()?;
        let is_known = self.consumed >= u64::from(self.request_pages) * 4;
        (is_known && shift > 0 && shift < step.unsigned_abs()).then_some(shift)
    }

    /// Begins another pass of a strided stream. If the pass starts directly after the first pages that the last pass
    /// read, later passes will probably do the same. In this case, the pages of several passes are read at each place,
    /// if the memory permits.
    fn begin_pass(&mut self, step: i64, missing: &Missing, balance: &Balance) {
        let Some(shift) = self.pass_shift(step, missing) else {
            return;
        };
        let is_next = missing.start.abs_diff(self.pass_start) == u64::from(self.width);
        let places = self.next.abs_diff(self.pass_start) / step.unsigned_abs();
        let gap = step.unsigned_abs() - shift;
        // On a fast device, wide places would delay the pages of this pass more than later passes would save.
        let most = if balance.is_slow() {
            missing.max_pages
        } else {
            FIRST_PAGES.min(missing.max_pages)
        };
        let wide = self.width.saturating_mul(PASS_FACTOR).min(most);
        let wide = u32::try_from(gap).map_or(wide, |gap| wide.min(gap));
        let memory = u64::from(balance.memory_pages().min(self.share));
        let pages = places.saturating_mul(wide.into());
        let is_worth = is_next && step > 0 && pages <= memory / 2;
        self.width = if is_worth {
            wide.max(self.request_pages)
        } else {
            self.request_pages
        };
        self.pass_start = missing.start;
    }

    /// Returns true if the page is between the reader and the end of the pages read ahead.
    pub(super) fn has_ahead(&self, page: u64) -> bool {
        let is_down = match self.shape {
            Shape::Forward => false,
            Shape::Backward => true,
            Shape::Strided { step } => step < 0,
        };
        if is_down {
            page <= self.seen && page >= self.next
        } else {
            page >= self.seen && page < self.next
        }
    }

    /// Records that a reader waits for a page in flight.
    pub(super) fn wait(&mut self, balance: &Balance) {
        self.has_waited = true;
        self.is_busy |= balance.requests_in_flight() >= BUSY_REQUESTS;
    }

    /// Returns the windows for a missing page of the stream.
    pub(super) fn miss(&mut self, place: Place, missing: &Missing, balance: &Balance) -> Windows {
        let request = missing.pages();
        if place == Place::Evicted {
            balance.evicted();
            self.limit = (self.degree / 2).max(LEAST_PAGES).max(self.request_pages);
        }
        self.count_window(balance);
        self.consumed += u64::from(request);
        self.adapt(request, balance);
        let mut windows = Windows::NONE;
        self.seen = missing.start;
        match self.shape {
            Shape::Forward => {
                let gap = missing.start.saturating_sub(self.next);
                if place == Place::Further
                    && let Ok(gap) = u32::try_from(gap)
                    && gap <= missing.max_pages
                {
                    windows.push(Window::unmarked(PageIndex(self.next), gap));
                }
                self.next = missing.end;
                let ahead = self.take_forward(missing.file_pages);
                let marker = (ahead > 0).then_some(missing.end);
                self.marker = marker;
                let all = request.saturating_add(ahead);
                windows.set_series(missing.series(missing.start, all, marker, balance));
            }
            Shape::Backward => {
                windows.push(Window::unmarked(PageIndex(missing.start), request));
                self.next = missing.start;
                windows.set_series(self.backward(missing, self.degree, balance));
            }
            Shape::Strided { step } => {
                if place == Place::Pass {
                    self.begin_pass(step, missing, balance);
                }
                let width = self.width.min(missing.max_pages).max(request);
                let wide = Window::unmarked(PageIndex(missing.start), width);
                if let Some(window) = wide.clip(missing.file_pages) {
                    windows.push(window);
                }
                self.next = missing.start.wrapping_add_signed(step);
                if u64::from(width) <= step.unsigned_abs() {
                    windows.set_series(self.strided(step, missing, self.degree));
                }
            }
        }
        windows
    }

    /// Returns the first window of a stream that begins at a marked page, which is at the start of `at`. The request of
    /// this page has `request` pages. Unlike in [`Stream::miss`], the windows do not contain the request.
    pub(super) fn begin_ahead(&mut self, request: u32, at: &Missing, balance: &Balance) -> Windows {
        self.consumed = request.into();
        self.windows = 1;
        self.adapt(request, balance);
        self.seen = at.start;
        let start = self.next;
        let pages = self.take_forward(at.file_pages);
        self.marker = (pages > 0).then_some(start);
        let mut windows = Windows::NONE;
        windows.set_series(at.series(start, pages, self.marker, balance));
        windows
    }

    /// Returns the windows after the reader has reached the marker. For a forward stream, `next` is the first page
    /// that is not resident.
    pub(super) fn marked(
        &mut self,
        next: Option<u64>,
        missing: &Missing,
        balance: &Balance,
    ) -> Windows {
        self.marker = None;
        self.consumed += u64::from(self.degree);
        self.count_window(balance);
        self.seen = missing.start;
        if self.windows == 2 && balance.chance(self.start, 1) == Chance::Low {
            self.degree = 0;
            return Windows::NONE;
        }
        self.adapt(self.request_pages, balance);
        let distance = self.trigger_distance();
        let mut windows = Windows::NONE;
        windows.set_series(match self.shape {
            Shape::Forward => {
                let start = next.unwrap_or(self.next).max(self.next);
                self.next = start;
                let pages = self.take_forward(missing.file_pages);
                let marked = self.next.saturating_sub(distance.into()).max(start);
                self.marker = (pages > 0).then_some(marked);
                missing.series(start, pages, self.marker, balance)
            }
            Shape::Backward => self.backward(missing, distance, balance),
            Shape::Strided { step } => self.strided(step, missing, distance),
        });
        windows
    }

    /// Records that of `window`, only the first `new_pages` pages were read.
    pub(super) fn record_short(&mut self, window: Window, new_pages: u32) {
        if self.omitted.is_none() {
            self.omitted = Some(window.start.0.saturating_add(new_pages.into()));
        }
    }

    /// Returns the first page that was not read ahead.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the degree.
    pub(super) fn degree(&self) -> u32 {
        self.degree
    }

    /// Counts a window, and records that the stream continues after its first or second window.
    fn count_window(&mut self, balance: &Balance) {
        match self.windows {
            1 => {
                balance.continued(self.start, 0);
                balance.started(self.start, 1);
            }
            2 => balance.continued(self.start, 1),
            _ => {}
        }
        self.windows = (self.windows + 1).min(4);
    }

    /// Returns true if one window can be read while another of the same size is consumed.
    fn has_memory_for_two(&self, degree: u32) -> bool {
        degree.saturating_mul(2) <= self.share.min(self.limit)
    }

    fn trigger_distance(&self) -> u32 {
        if self.has_memory_for_two(self.degree) {
            self.degree
        } else {
            self.distance.min(self.degree)
        }
    }

    /// Sets the degree of the next window.
    fn adapt(&mut self, request: u32, balance: &Balance) {
        let inserted = balance.inserted();
        if self.degree > 0 {
            let share =
                balance.share_pages(self.degree.into(), inserted.saturating_sub(self.inserted));
            self.share = match self.share {
                u32::MAX => share,
                before => before - before / 4 + share / 4,
            };
        }
        if self.has_waited && self.share != u32::MAX {
            self.share = self
                .share
                .saturating_add(balance.memory_pages() / GROWTH_DIVISOR);
        }
        self.inserted = inserted;
        self.omitted = None;
        let least = LEAST_PAGES.max(request);
        let reach = balance.reach_pages(self.consumed).max(least);
        let useful = self.useful_pages(balance);
        let wanted = self.wanted(request, useful, balance).min(useful).min(reach);
        self.adapt_distance(useful);
        let both = self.share.min(self.limit).max(least);
        self.degree = if self.has_memory_for_two(wanted) {
            wanted
        } else {
            self.distance = self.distance.min(both / 2);
            wanted.min(both - self.distance)
        };
        // The limit recovers, so that the stream is not limited forever.
        self.limit = self.limit.saturating_add((self.limit / 16).max(1));
    }

    /// Sets the trigger distance for the next window.
    fn adapt_distance(&mut self, useful: u32) {
        if self.is_busy {
            self.distance = (self.distance / 2).max(1);
            self.calm_windows = 0;
        } else if self.has_waited {
            if !self.has_memory_for_two(self.degree) {
                self.distance = self.distance.saturating_mul(2).min(useful);
            }
            self.calm_windows = 0;
        } else {
            self.calm_windows += 1;
            if self.calm_windows == CALM_WINDOWS {
                self.calm_windows = 0;
                self.distance = (self.distance - self.distance / 8).max(self.request_pages);
            }
        }
        (self.has_waited, self.is_busy) = (false, false);
    }

    fn useful_pages(&self, balance: &Balance) -> u32 {
        let useful = balance.useful_pages();
        match self.shape {
            Shape::Forward | Shape::Backward => useful,
            Shape::Strided { .. } => {
                useful.max(self.request_pages.saturating_mul(STRIDED_REQUESTS))
            }
        }
    }

    /// Returns the next larger degree.
    fn wanted(&self, request: u32, useful: u32, balance: &Balance) -> u32 {
        if self.degree > 0 {
            let factor = if self.has_waited { 4 } else { 2 };
            return self.degree.saturating_mul(factor);
        }
        let chance = match self.windows {
            0 | 1 => balance.chance(self.start, 0),
            2 | 3 => balance.chance(self.start, 1),
            _ => Chance::High,
        };
        match chance {
            Chance::Low => 0,
            // On a fast device, reading ahead is not worth the processor time.
            Chance::Medium if !balance.has_delay() => 0,
            Chance::Medium => request,
            Chance::High => (useful / 16).max(FIRST_PAGES).max(request),
        }
    }

    /// Returns the size of the next window of a forward stream, which starts at `next`, and advances `next`.
    fn take_forward(&mut self, file_pages: u64) -> u32 {
        let room = file_pages.saturating_sub(self.next);
        let pages = u32::try_from(room).map_or(self.degree, |room| self.degree.min(room));
        self.next += u64::from(pages);
        pages
    }

    /// Returns the next window of a backward stream, which ends at `next`. The marker is on page number `distance` of
    /// the window, counted from 1.
    fn backward(&mut self, missing: &Missing, distance: u32, balance: &Balance) -> Series {
        let end = self.next.min(missing.file_pages);
        let pages = u32::try_from(end).map_or(self.degree, |room| self.degree.min(room));
        self.next = end - u64::from(pages);
        let marked = self.next + u64::from(distance.clamp(1, pages.max(1)) - 1);
        self.marker = (pages > 0).then_some(marked);
        missing.series(self.next, pages, self.marker, balance)
    }

    /// Returns the next windows of a strided stream.
    fn strided(&mut self, step: i64, missing: &Missing, distance: u32) -> Series {
        let size = self.width.min(missing.max_pages);
        let requests = (self.degree / size).max(1);
        let marked = requests - (distance / size).clamp(1, requests);
        let series = Series::strided(self.next, step, size, requests, marked, missing.file_pages);
        self.next = series.end();
        self.marker = series.marker();
        series
    }
}
