//! A device on which the blocks of one file contain a pattern that is computed instead of stored.

use crate::seed::mix;
use larder_block::{BlockDevice, Result};
use std::ops::Range;
use std::sync::Arc;

/// Returns the eight bytes of the pattern at `offset_bytes` of the file, which must be a multiple of 8.
#[must_use]
pub fn pattern_at(offset_bytes: u64) -> [u8; 8] {
    mix(offset_bytes).to_le_bytes()
}

/// Fills `buf` with the content of the file from `offset_bytes`.
pub fn fill_pattern(buf: &mut [u8], offset_bytes: u64) {
    let skip = usize::try_from(offset_bytes % 8).unwrap_or(0);
    let mut at = offset_bytes - skip as u64;
    let mut rest = buf;
    if skip > 0 {
        let word = pattern_at(at);
        let len = rest.len().min(8 - skip);
        let (head, tail) = rest.split_at_mut(len);
        head.copy_from_slice(&word[skip..skip + len]);
        rest = tail;
        at += 8;
    }
    for chunk in rest.chunks_mut(8) {
        chunk.copy_from_slice(&pattern_at(at)[..chunk.len()]);
        at += 8;
    }
}

/// A device in which some ranges contain the content of one large file. The rest shows another device.
#[derive(Debug)]
pub struct PatternDevice {
    inner: Arc<dyn BlockDevice>,
    /// Ranges on the device, each with the offset in the file at which its content begins. They are sorted by
    /// their start. All offsets are multiples of 8.
    ranges: Vec<(Range<u64>, u64)>,
}

impl PatternDevice {
    /// Creates a device that shows `inner`, except for `ranges`. Each of them contains the content of the
    /// file, from the offset that is paired with it.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>, mut ranges: Vec<(Range<u64>, u64)>) -> Self {
        ranges.sort_by_key(|(range, _)| range.start);
        Self { inner, ranges }
    }
}

impl BlockDevice for PatternDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.inner.read_at(buf, offset_bytes)?;
        let end = offset_bytes + buf.len() as u64;
        let first = self
            .ranges
            .partition_point(|(range, _)| range.end <= offset_bytes);
        for (range, file_offset) in &self.ranges[first..] {
            if range.start >= end {
                break;
            }
            let from = range.start.max(offset_bytes);
            let to = range.end.min(end);
            let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let target = &mut buf[index(from - offset_bytes)..index(to - offset_bytes)];
            fill_pattern(target, file_offset + (from - range.start));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_block::MemoryDevice;

    #[test]
    fn read_over_a_range_edge_mixes_pattern_and_device() {
        let inner = Arc::new(MemoryDevice::new(vec![7; 100]));
        let device = PatternDevice::new(inner, vec![(16..48, 64)]);
        let mut buf = [0; 20];
        device.read_at(&mut buf, 10).unwrap();
        assert_eq!(buf[..6], [7; 6]);
        assert_eq!(buf[6..14], pattern_at(64));
        assert_eq!(buf[14..], pattern_at(72)[..6]);
        device.read_at(&mut buf, 43).unwrap();
        assert_eq!(buf[..5], pattern_at(88)[3..]);
        assert_eq!(buf[5..], [7; 15]);
    }
}
