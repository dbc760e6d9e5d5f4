//! Converts ranges of bytes to the pages of a file, or the blocks of a device, that contain them.

use super::event::{EventSink, lookup};
use super::lines::{Line, Lines};
use super::skipped::Skipped;
use crate::trace::Error;
use larder_cache::tape::CacheKind;
use std::io::BufRead;
use std::ops::Range;

/// The size of a page, and the assumed block size of devices.
pub(super) const PAGE_BYTES: u64 = 4096;

/// The maximum length of one request, which is the limit of read(2).
const SPAN_BYTES: u64 = 1 << 31;

/// The reason for skipping a range that is too long.
pub(super) const TOO_LONG: &str = "a range of more than 2 GiB";

/// Returns the pages of `length` bytes from `offset`; empty if `length` is 0.
pub(super) fn of_span(offset: u64, length: u64) -> Result<Range<u64>, &'static str> {
    if length > SPAN_BYTES {
        return Err(TOO_LONG);
    }
    let end = offset.checked_add(length).ok_or("a range past 16 EiB")?;
    let first = offset / PAGE_BYTES;
    Ok(first..if length == 0 {
        first
    } else {
        end.div_ceil(PAGE_BYTES)
    })
}

/// The range of bytes that a line requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub time_ns: u64,
    /// Pages of a file, or blocks of a device.
    pub cache: CacheKind,
    /// The inode, or the device.
    pub object: u64,
    pub offset: u64,
    pub length: u64,
}

/// Imports a text. `parse` converts each line to a span, or returns the reason to skip it.
pub(super) fn import(
    reader: impl BufRead,
    emit: &mut EventSink<'_>,
    mut parse: impl FnMut(Line<'_>) -> Result<Span, &'static str>,
) -> Result<Skipped, Error> {
    let mut lines = Lines::new(reader);
    let mut skipped = Skipped::default();
    while let Some(line) = lines.next()? {
        let parsed = parse(line).and_then(|span| {
            let pages = of_span(span.offset, span.length)?;
            Ok((span, pages))
        });
        match parsed {
            Ok((span, pages)) => {
                for page in pages {
                    emit(lookup(span.time_ns, span.cache, span.object, page))?;
                }
            }
            Err(reason) => skipped.line(reason, line),
        }
    }
    Ok(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_covers_every_page_that_it_touches() {
        let pages = |offset, length| of_span(offset, length).map(Iterator::collect::<Vec<_>>);
        assert_eq!(pages(4095, 2), Ok(vec![0, 1]));
        assert_eq!(pages(4096, 4096), Ok(vec![1]));
        assert_eq!(pages(5, 0), Ok(vec![]));
        assert_eq!(pages(u64::MAX - 1, 1), Ok(vec![u64::MAX / PAGE_BYTES]));
        assert_eq!(pages(u64::MAX, 2), Err("a range past 16 EiB"));
        assert_eq!(pages(0, SPAN_BYTES + 1), Err(TOO_LONG));
    }
}
