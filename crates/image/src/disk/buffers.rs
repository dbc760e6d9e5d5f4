//! Parts of the buffers of a request.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

/// Sets all bytes of `bufs` to zero.
pub(super) fn clear(bufs: &mut [IoSliceMut<'_>]) {
    for buf in bufs {
        buf.fill(0);
    }
}

/// Returns the `len` bytes of `bufs` that follow the first `skip` bytes.
pub(super) fn part<'b>(bufs: &'b [IoSlice<'_>], skip: usize, len: usize) -> Vec<IoSlice<'b>> {
    let ranges = ranges(bufs.iter().map(|buf| buf.len()), skip, len);
    let parts = bufs
        .iter()
        .zip(ranges)
        .filter(|(_, range)| !range.is_empty());
    parts
        .map(|(buf, range)| IoSlice::new(&buf[range]))
        .collect()
}

/// Does the same as [`part`] for buffers that are filled.
pub(super) fn part_mut<'b>(
    bufs: &'b mut [IoSliceMut<'_>],
    skip: usize,
    len: usize,
) -> Vec<IoSliceMut<'b>> {
    let ranges: Vec<_> = ranges(bufs.iter().map(|buf| buf.len()), skip, len).collect();
    let parts = bufs
        .iter_mut()
        .zip(ranges)
        .filter(|(_, range)| !range.is_empty());
    parts
        .map(|(buf, range)| IoSliceMut::new(&mut buf[range]))
        .collect()
}

/// Returns the range of each buffer that belongs to the `len` bytes after the first `skip` bytes. `lens` are the lengths of the
/// buffers.
fn ranges(
    lens: impl Iterator<Item = usize>,
    mut skip: usize,
    mut len: usize,
) -> impl Iterator<Item = Range<usize>> {
    lens.map(move |buf_len| {
        let start = skip.min(buf_len);
        let end = start + len.min(buf_len - start);
        skip -= start;
        len -= end - start;
        start..end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_can_begin_and_end_within_buffers() {
        let bufs = [&[0, 1, 2][..], &[], &[3], &[4, 5]].map(IoSlice::new);
        for skip in 0..6_u8 {
            for end in skip..=6 {
                let part = part(&bufs, skip.into(), (end - skip).into());
                assert!(part.iter().all(|buf| !buf.is_empty()));
                let bytes: Vec<u8> = part.iter().flat_map(|buf| buf.to_vec()).collect();
                assert_eq!(bytes, (skip..end).collect::<Vec<u8>>());
            }
        }
    }
}
