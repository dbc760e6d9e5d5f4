//! A device that fails as planned, or at random from a seed.

use crate::{BlockDevice, Error, Result, check_range};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device that passes reads on, except those that its plan fails with `EIO`.
///
/// The plan is fixed when the device is made, and the reads are numbered from 0
/// in the order of their arrival, so that one thread's run repeats exactly.
#[derive(Debug)]
pub struct FaultyDevice {
    inner: Arc<dyn BlockDevice>,
    size_bytes: u64,
    bad_ranges: Vec<Range<u64>>,
    bad_reads: Vec<u64>,
    random: Option<Random>,
    reads: AtomicU64,
}

#[derive(Debug)]
struct Random {
    seed: u64,
    one_in: u64,
}

impl FaultyDevice {
    /// Passes everything on to `inner`, until a fault is added.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self {
            size_bytes: inner.size_bytes(),
            inner,
            bad_ranges: Vec::new(),
            bad_reads: Vec::new(),
            random: None,
            reads: AtomicU64::new(0),
        }
    }

    /// Fails each read that touches one of these bytes.
    #[must_use]
    pub fn fail_range(mut self, bytes: Range<u64>) -> Self {
        self.bad_ranges.push(bytes);
        self
    }

    /// Fails the read with this number, counted from 0.
    #[must_use]
    pub fn fail_read(mut self, number: u64) -> Self {
        self.bad_reads.push(number);
        self
    }

    /// Fails about one read in `one_in` (none if that is 0), chosen by `seed`.
    #[must_use]
    pub fn fail_randomly(mut self, seed: u64, one_in: u64) -> Self {
        self.random = Some(Random { seed, one_in });
        self
    }

    /// Ends the device after `size_bytes`, as if it had been cut short.
    #[must_use]
    pub fn shorten_to(mut self, size_bytes: u64) -> Self {
        self.size_bytes = size_bytes.min(self.size_bytes);
        self
    }

    fn fails(&self, number: u64, bytes: &Range<u64>) -> bool {
        let random = self.random.as_ref().is_some_and(|random| {
            random.one_in != 0 && split_mix(random.seed ^ number).is_multiple_of(random.one_in)
        });
        random
            || self.bad_reads.contains(&number)
            || self
                .bad_ranges
                .iter()
                .any(|bad| bad.start < bytes.end && bytes.start < bad.end)
    }
}

impl BlockDevice for FaultyDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        let number = self.reads.fetch_add(1, Ordering::Relaxed);
        let len_bytes = buf.len() as u64;
        check_range(self.size_bytes, offset_bytes, len_bytes)?;
        if self.fails(number, &(offset_bytes..offset_bytes + len_bytes)) {
            return Err(Error::Io {
                offset_bytes,
                len_bytes,
                source: io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()),
            });
        }
        self.inner.read_at(buf, offset_bytes)
    }
}

/// One output of the `SplitMix64` generator.
fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    fn device() -> FaultyDevice {
        FaultyDevice::new(Arc::new(MemoryDevice::new(vec![5; 4096])))
    }

    #[test]
    fn range_touched_fails_and_neighbours_pass() {
        let device = device().fail_range(1024..2048);
        let read = |len: usize, at| device.read_at(&mut vec![0; len], at).is_ok();
        assert!(read(1024, 0));
        assert!(!read(1025, 0));
        assert!(!read(1, 2047));
        assert!(read(1, 2048));
    }

    #[test]
    fn numbered_read_fails_once() {
        let device = device().fail_read(1);
        let outcomes: Vec<bool> = (0..3)
            .map(|_| device.read_at(&mut [0; 8], 0).is_ok())
            .collect();
        assert_eq!(outcomes, [true, false, true]);
    }

    #[test]
    fn seed_repeated_fails_same_reads() {
        let run = || -> Vec<bool> {
            let device = device().fail_randomly(42, 4);
            (0..400)
                .map(|_| device.read_at(&mut [0; 8], 0).is_ok())
                .collect()
        };
        let failed = run().iter().filter(|ok| !**ok).count();
        assert!((50..150).contains(&failed), "{failed} of 400 failed");
        assert_eq!(run(), run());
    }

    #[test]
    fn shortened_device_past_end_is_out_of_range() {
        let device = device().shorten_to(1000);
        assert_eq!(device.size_bytes(), 1000);
        assert!(matches!(
            device.read_at(&mut [0; 2], 999),
            Err(Error::OutOfRange {
                size_bytes: 1000,
                ..
            })
        ));
    }
}
