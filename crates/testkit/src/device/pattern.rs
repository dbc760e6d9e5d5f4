//! A device on which a file's blocks hold a pattern that nobody has to store.

use crate::seed::mix;
use larder_block::{BlockDevice, Result};
use std::ops::Range;
use std::sync::Arc;

/// The eight bytes of the pattern that begin at `offset_bytes` of the file, a multiple of 8.
#[must_use]
pub fn pattern_at(offset_bytes: u64) -> [u8; 8] {
    mix(offset_bytes).to_le_bytes()
}

/// Another device, in which some ranges hold the content of one large file.
#[derive(Debug)]
pub struct PatternDevice {
    inner: Arc<dyn BlockDevice>,
    /// Where a range lies on the device, and which offset of the file it
    /// starts at; sorted by the first, multiples of 8.
    ranges: Vec<(Range<u64>, u64)>,
}

impl PatternDevice {
    /// `inner`, in which each range on the device holds the file's content
    /// from the offset beside it on.
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
            let mut at = range.start.max(offset_bytes);
            let stop = range.end.min(end);
            while at < stop {
                let in_file = file_offset + (at - range.start);
                let skip = in_file % 8;
                let len = (8 - skip).min(stop - at);
                let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                let target = index(at - offset_bytes)..index(at + len - offset_bytes);
                let word = pattern_at(in_file - skip);
                buf[target].copy_from_slice(&word[index(skip)..index(skip + len)]);
                at += len;
            }
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
