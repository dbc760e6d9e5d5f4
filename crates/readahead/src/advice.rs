//! Advice on how a file will be used: `posix_fadvise(2)` and, for faults, `madvise(2)`.
//!
//! Model: the advice has the same effect as in Linux. `Normal`, `Sequential` and `Random` set a mode, which
//! the [`FileState`](crate::FileState) of the open file stores. `WillNeed` and `DontNeed` take effect at once
//! and do not change the state. For `WillNeed`, [`FileState::will_need`](crate::FileState::will_need) returns
//! the windows to read. For `DontNeed`, [`pages_inside`] returns the pages to drop.
//!
//! | advice | effect |
//! |---|---|
//! | `Normal` | windows of at most [`FileState::max_pages`](crate::FileState::max_pages) |
//! | `Sequential` | on a file: `max_pages` is doubled until `Normal` is advised; on a mapping: a fault reads as a sequential read does |
//! | `Random` | on a file: only the requested pages are read; on a mapping: a fault reads one page |
//! | `WillNeed` | the range is read at once, up to the largest window or the largest request of the device, whichever is more |
//! | `DontNeed` | the pages that are completely inside the range are dropped; so is a partial last page of the file, if the range reaches the end of the file |
//!
//! Only the policy `modern` follows advice on a mapping.

use std::ops::Range;

/// Advice on how a program will use a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Advice {
    /// No particular pattern.
    #[default]
    Normal,
    /// The file is read from lower to higher offsets.
    Sequential,
    /// The file is read in random order.
    Random,
    /// A range of the file will be needed soon.
    WillNeed,
    /// A range of the file will not be needed soon.
    DontNeed,
}

/// Returns the pages that contain at least one byte of a range, for `WillNeed`. If `len_bytes` is 0, the
/// range extends to the end of the file.
#[must_use]
pub fn pages_touched(offset_bytes: u64, len_bytes: u64, page_bytes: u64) -> Range<u64> {
    let page_bytes = page_bytes.max(1);
    let end = range_end(offset_bytes, len_bytes).div_ceil(page_bytes);
    offset_bytes / page_bytes..end
}

/// Returns the pages that are completely inside a range of bytes, for `DontNeed`. A partial last page of the
/// file is included if the range reaches the end of the file. If `len_bytes` is 0, the range extends to the
/// end of the file.
#[must_use]
pub fn pages_inside(
    offset_bytes: u64,
    len_bytes: u64,
    file_bytes: u64,
    page_bytes: u64,
) -> Range<u64> {
    let page_bytes = page_bytes.max(1);
    let end_bytes = range_end(offset_bytes, len_bytes);
    let end = if end_bytes >= file_bytes {
        file_bytes.div_ceil(page_bytes)
    } else {
        end_bytes / page_bytes
    };
    let start = offset_bytes.div_ceil(page_bytes);
    start..end.max(start)
}

fn range_end(offset_bytes: u64, len_bytes: u64) -> u64 {
    match len_bytes {
        0 => u64::MAX,
        _ => offset_bytes.saturating_add(len_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileState;

    #[test]
    fn limit_stays_doubled_until_normal_advice() {
        let mut state = FileState::new(32);
        let steps = [
            (Advice::Random, 32),
            (Advice::Sequential, 64),
            (Advice::DontNeed, 64),
            (Advice::Random, 64),
            (Advice::Normal, 32),
        ];
        for (advice, max_pages) in steps {
            state.advise(advice);
            assert_eq!(state.max_pages(), max_pages, "{advice:?}");
        }
    }

    #[test]
    fn range_of_bytes_gives_the_pages_it_touches_and_those_inside() {
        // (offset, length, touched, inside) in a file of 10 pages and 100 bytes.
        let cases = [
            (0, 4096, 0..1, 0..1),
            (0, 4095, 0..1, 0..0),
            (1, 4096, 0..2, 1..1),
            (1, 8191, 0..2, 1..2),
            (40960, 100, 10..11, 10..11),
            (40960, 99, 10..11, 10..10),
            (36864, 4196, 9..11, 9..11),
        ];
        for (offset, len, touched, inside) in cases {
            assert_eq!(pages_touched(offset, len, 4096), touched, "{offset}+{len}");
            let got = pages_inside(offset, len, 41060, 4096);
            assert_eq!(got, inside, "{offset}+{len}");
        }
        assert_eq!(pages_inside(4096, 0, 41060, 4096), 1..11);
        assert_eq!(pages_inside(u64::MAX, u64::MAX, 41060, 4096).count(), 0);
    }

    #[test]
    fn range_that_will_be_needed_is_read_by_large_windows_up_to_the_limit() {
        let mut state = FileState::new(32);
        state.set_io_pages(1280);
        let windows = |state: &FileState, pages, file_pages| -> Vec<(u64, u32)> {
            let windows = state.will_need(pages, file_pages);
            windows.map(|w| (w.start.0, w.size)).collect()
        };
        assert_eq!(windows(&state, 7..9, 100), [(7, 2)]);
        assert_eq!(windows(&state, 7..u64::MAX, 10), [(7, 3)]);
        let whole = [(100, 512), (612, 512), (1124, 256)];
        assert_eq!(windows(&state, 100..u64::MAX, 1 << 40), whole);
        assert_eq!(windows(&state, 50..60, 50), []);
        assert_eq!(windows(&state, u64::MAX - 1..u64::MAX, u64::MAX).len(), 1);
    }
}
