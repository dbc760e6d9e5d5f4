//! A series: windows at equal distances, which one decision returns.
//!
//! ```text
//!        step          step          step
//!   |------------>|------------>|------------>|
//! --+----+--------+----+--------+----+--------+--+---> page index
//!   |size|        |size|        |size|        |last|
//! ```
//!
//! A strided stream needs a window for each of its next requests. A contiguous range is also a series, with a step
//! of `size`: on a device that serves requests in parallel, several requests are faster than a large one. At most one
//! page of a series carries the marker.
//!
//! The memory size of a [`Series`] does not depend on the number of windows, so a decision does not allocate.

use crate::window::{PageIndex, Window};

/// Windows of equal size at equal distances. The last window may be shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Series {
    start: u64,
    step: i64,
    size: u32,
    last_size: u32,
    /// The number of windows.
    pub(crate) windows: u32,
    /// The page that is to carry the marker.
    marker: Option<u64>,
}

impl Series {
    /// No window.
    pub(crate) const EMPTY: Self = Self {
        start: 0,
        step: 0,
        size: 0,
        last_size: 0,
        windows: 0,
        marker: None,
    };

    /// Returns the `pages` pages from `start` on, in windows of at most `most` pages.
    pub(crate) fn contiguous(start: u64, pages: u32, most: u32, marker: Option<u64>) -> Self {
        let size = most.max(1);
        let windows = pages.div_ceil(size);
        Self {
            start,
            step: size.into(),
            size,
            last_size: pages - windows.saturating_sub(1) * size,
            windows,
            marker,
        }
    }

    /// Returns those of the `windows` windows of `size` pages at `start`, `start + step` and so on that are
    /// completely inside a file of `file_pages` pages. The marker is on the first page of the window with the number
    /// `marked`, if there is such a window.
    pub(crate) fn strided(
        start: u64,
        step: i64,
        size: u32,
        windows: u32,
        marked: u32,
        file_pages: u64,
    ) -> Self {
        let distance = step.unsigned_abs();
        let room = file_pages
            .checked_sub(size.into())
            .filter(|last| start <= *last && distance > 0 && size > 0)
            .map(|last| if step > 0 { last - start } else { start });
        let most = room.map_or(0, |room| room / distance + 1);
        let windows = u32::try_from(most).map_or(windows, |most| windows.min(most));
        let at = |number: u32| start.wrapping_add_signed(step.wrapping_mul(number.into()));
        Self {
            start,
            step,
            size,
            last_size: size,
            windows,
            marker: (marked < windows).then(|| at(marked)),
        }
    }

    /// Returns the start of the window that would follow the last window.
    pub(crate) fn end(&self) -> u64 {
        let distance = self.step.wrapping_mul(self.windows.into());
        self.start.wrapping_add_signed(distance)
    }

    /// Returns the page that is to carry the marker.
    pub(crate) fn marker(&self) -> Option<u64> {
        self.marker
    }
}

impl IntoIterator for Series {
    type Item = Window;
    type IntoIter = SeriesIter;

    fn into_iter(self) -> SeriesIter {
        SeriesIter(self)
    }
}

/// The windows of a [`Series`], in the order in which they must be started.
#[derive(Clone, Debug)]
pub struct SeriesIter(Series);

impl Iterator for SeriesIter {
    type Item = Window;

    fn next(&mut self) -> Option<Window> {
        let series = &mut self.0;
        series.windows = series.windows.checked_sub(1)?;
        let size = match series.windows {
            0 => series.last_size,
            _ => series.size,
        };
        let window = Window::unmarked(PageIndex(series.start), size);
        series.start = series.start.wrapping_add_signed(series.step);
        let marker = series.marker.map(PageIndex);
        let marker = marker.filter(|page| window.contains(*page));
        let async_size = marker.map_or(0, |page| window.end().0 - page.0);
        Some(Window {
            // The difference is at most the size of the window.
            async_size: u32::try_from(async_size).unwrap_or(size),
            ..window
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(series: Series) -> Vec<(u64, u32, u32)> {
        series
            .into_iter()
            .map(|window| (window.start.0, window.size, window.async_size))
            .collect()
    }

    #[test]
    fn contiguous_series_has_all_pages_once_and_one_marker() {
        let series = Series::contiguous(100, 70, 32, Some(140));
        assert_eq!(windows(series), [(100, 32, 0), (132, 32, 24), (164, 6, 0)]);
        assert_eq!(windows(Series::contiguous(5, 32, 32, None)), [(5, 32, 0)]);
        assert_eq!(windows(Series::contiguous(5, 0, 32, None)), []);
        assert_eq!(windows(Series::contiguous(5, 2, 0, None)).len(), 2);
    }

    #[test]
    fn strided_series_stays_in_the_file_in_both_directions() {
        let up = Series::strided(10, 100, 4, 5, 1, 300);
        assert_eq!(windows(up), [(10, 4, 0), (110, 4, 4), (210, 4, 0)]);
        assert_eq!((up.end(), up.marker()), (310, Some(110)));
        let down = Series::strided(210, -100, 4, 5, 9, 300);
        assert_eq!(windows(down), [(210, 4, 0), (110, 4, 0), (10, 4, 0)]);
        assert_eq!(down.marker(), None);
        for (start, step, size) in [(297, 100, 4), (0, 0, 4), (0, 1, 0), (u64::MAX, -1, 4)] {
            assert_eq!(windows(Series::strided(start, step, size, 5, 0, 300)), []);
        }
    }
}
