//! A device on which some blocks are read from elsewhere: what a journal's
//! replay would have written, without writing it.
//!
//! Model: jbd2 copies a block from the journal to its home when it recovers.
//! Here the home is redirected to the copy in the journal instead, so that the
//! image can stay read-only. Where the journal had to blank the first four
//! bytes of a block (they looked like one of its own), the redirection carries
//! them.
//!
//! Invariants: redirects are sorted by home, each home once; homes and sources
//! lie inside the device. A source is read as it is, even if it is itself the
//! home of another redirect: there are no chains.
//!
//! Cost: 24 bytes a redirect; a read without one inside costs one binary
//! search and is passed on whole.

use crate::{BlockDevice, Result, check_range, total_bytes};
use std::io::IoSliceMut;
use std::num::NonZeroU32;
use std::sync::Arc;

/// A block that is read from another block of the same device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The block asked for.
    pub home: u64,
    /// The block read instead.
    pub source: u64,
    /// The block's first four bytes, if they differ from the source's.
    pub first_bytes: Option<[u8; 4]>,
}

/// A device with some blocks redirected.
#[derive(Debug)]
pub struct RemapDevice {
    inner: Arc<dyn BlockDevice>,
    block_size_bytes: u64,
    redirects: Vec<Redirect>,
}

/// A piece of a read that one read of the inner device serves.
struct Piece {
    len_bytes: usize,
    inner_offset_bytes: u64,
    patches: std::ops::Range<usize>,
}

impl RemapDevice {
    /// Redirects blocks of `inner`. If a home is there several times, the last
    /// of them holds.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] if a source does not lie inside `inner`.
    pub fn new(
        inner: Arc<dyn BlockDevice>,
        block_size_bytes: NonZeroU32,
        mut redirects: Vec<Redirect>,
    ) -> Result<Self> {
        let block_size_bytes = u64::from(block_size_bytes.get());
        for redirect in &redirects {
            let offset_bytes = redirect.source.saturating_mul(block_size_bytes);
            check_range(inner.size_bytes(), offset_bytes, block_size_bytes)?;
        }
        redirects.reverse();
        redirects.sort_by_key(|redirect| redirect.home);
        redirects.dedup_by_key(|redirect| redirect.home);
        Ok(Self {
            inner,
            block_size_bytes,
            redirects,
        })
    }

    /// The redirects whose home touches the bytes of a read, as a range of indices.
    fn touched(&self, offset_bytes: u64, len_bytes: u64) -> std::ops::Range<usize> {
        let first_block = offset_bytes / self.block_size_bytes;
        let end_block = offset_bytes
            .saturating_add(len_bytes)
            .div_ceil(self.block_size_bytes);
        let start = self
            .redirects
            .partition_point(|redirect| redirect.home < first_block);
        let count = self.redirects[start..].partition_point(|redirect| redirect.home < end_block);
        start..start + count
    }

    /// The first piece of a read of `len` bytes: up to the next redirected
    /// block, or a run of redirected blocks whose sources adjoin.
    fn piece(&self, offset_bytes: u64, len: usize, touched: std::ops::Range<usize>) -> Piece {
        let block = offset_bytes / self.block_size_bytes;
        let within_bytes = offset_bytes % self.block_size_bytes;
        let clamp = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX).min(len);
        let start = touched.start
            + self.redirects[touched.clone()].partition_point(|redirect| redirect.home < block);
        let first = self.redirects[..touched.end].get(start);
        match first {
            Some(first) if first.home == block => {
                let run = self.redirects[start..touched.end]
                    .iter()
                    .zip(0_u64..)
                    .take_while(|(redirect, step)| {
                        first.home.checked_add(*step) == Some(redirect.home)
                            && first.source.checked_add(*step) == Some(redirect.source)
                    })
                    .count();
                Piece {
                    len_bytes: clamp(run as u64 * self.block_size_bytes - within_bytes),
                    inner_offset_bytes: first.source * self.block_size_bytes + within_bytes,
                    patches: start..start + run,
                }
            }
            next => Piece {
                len_bytes: next.map_or(len, |next| {
                    clamp(next.home * self.block_size_bytes - offset_bytes)
                }),
                inner_offset_bytes: offset_bytes,
                patches: start..start,
            },
        }
    }

    /// Puts the first bytes of redirected blocks where `buf`, which was read
    /// for `offset_bytes`, covers them.
    fn patch(&self, buf: &mut [u8], offset_bytes: u64, patches: std::ops::Range<usize>) {
        for redirect in &self.redirects[patches] {
            let Some(first_bytes) = redirect.first_bytes else {
                continue;
            };
            let home_bytes = redirect.home * self.block_size_bytes;
            for (byte, at_bytes) in first_bytes.iter().zip(home_bytes..) {
                let index = at_bytes
                    .checked_sub(offset_bytes)
                    .and_then(|index| usize::try_from(index).ok());
                if let Some(target) = index.and_then(|index| buf.get_mut(index)) {
                    *target = *byte;
                }
            }
        }
    }
}

impl BlockDevice for RemapDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes(), offset_bytes, buf.len() as u64)?;
        let touched = self.touched(offset_bytes, buf.len() as u64);
        if touched.is_empty() {
            return self.inner.read_at(buf, offset_bytes);
        }
        let mut rest = buf;
        let mut at_bytes = offset_bytes;
        while !rest.is_empty() {
            let piece = self.piece(at_bytes, rest.len(), touched.clone());
            let (now, later) = rest.split_at_mut(piece.len_bytes);
            self.inner.read_at(now, piece.inner_offset_bytes)?;
            self.patch(now, at_bytes, piece.patches);
            at_bytes += piece.len_bytes as u64;
            rest = later;
        }
        Ok(())
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        let len_bytes = total_bytes(bufs);
        check_range(self.size_bytes(), offset_bytes, len_bytes)?;
        if self.touched(offset_bytes, len_bytes).is_empty() {
            return self.inner.read_vectored_at(bufs, offset_bytes);
        }
        let mut at_bytes = offset_bytes;
        for buf in bufs {
            self.read_at(buf, at_bytes)?;
            at_bytes += buf.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, MemoryDevice, RecordingDevice};

    const BLOCK: NonZeroU32 = NonZeroU32::new(16).unwrap();

    fn redirect(home: u64, source: u64) -> Redirect {
        Redirect {
            home,
            source,
            first_bytes: None,
        }
    }

    /// Every byte of block n is n.
    fn numbered(blocks: u8) -> Vec<u8> {
        (0..blocks).flat_map(|block| [block; 16]).collect()
    }

    fn device(redirects: Vec<Redirect>) -> (Arc<RecordingDevice>, RemapDevice) {
        let inner = Arc::new(RecordingDevice::new(Arc::new(MemoryDevice::new(numbered(
            32,
        )))));
        let remap = RemapDevice::new(inner.clone(), BLOCK, redirects).unwrap();
        (inner, remap)
    }

    #[test]
    fn every_range_read_matches_replayed_copy() {
        let redirects = vec![
            redirect(3, 20),
            redirect(4, 21),
            redirect(5, 25),
            Redirect {
                home: 6,
                source: 26,
                first_bytes: Some(*b"jbd2"),
            },
            redirect(20, 31),
            redirect(0, 30),
        ];
        let mut replayed = numbered(32);
        for redirect in &redirects {
            let home = usize::try_from(redirect.home).unwrap() * 16;
            replayed[home..home + 16].fill(u8::try_from(redirect.source).unwrap());
            if let Some(bytes) = redirect.first_bytes {
                replayed[home..home + 4].copy_from_slice(&bytes);
            }
        }
        let (_, device) = device(redirects);
        for start in 0..replayed.len() {
            for len in [0, 1, 3, 15, 16, 17, 40, 200, 512] {
                let Some(expected) = replayed.get(start..start + len) else {
                    continue;
                };
                let mut buf = vec![0xff; len];
                device.read_at(&mut buf, start as u64).unwrap();
                assert_eq!(buf, expected, "{len} bytes at {start}");
                let (left, right) = buf.split_at_mut(len / 3);
                left.fill(0xee);
                device
                    .read_vectored_at(
                        &mut [IoSliceMut::new(left), IoSliceMut::new(right)],
                        start as u64,
                    )
                    .unwrap();
                assert_eq!(buf, expected, "{len} bytes at {start}, vectored");
            }
        }
    }

    #[test]
    fn read_without_redirect_is_one_inner_read() {
        let (inner, device) = device(vec![redirect(1, 9), redirect(30, 9)]);
        device.read_at(&mut [0; 320], 48).unwrap();
        let (mut a, mut b) = ([0; 16], [0; 32]);
        device
            .read_vectored_at(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)], 32)
            .unwrap();
        let log = inner.take_log();
        assert_eq!(log.len(), 2);
        assert_eq!((log[0].offset_bytes, log[0].len_bytes), (48, 320));
        assert_eq!((log[1].len_bytes, log[1].buffers), (48, 2));
    }

    #[test]
    fn adjoining_sources_are_one_inner_read() {
        let (inner, device) = device(vec![redirect(4, 20), redirect(5, 21), redirect(6, 22)]);
        device.read_at(&mut [0; 128], 32).unwrap();
        let reads: Vec<_> = inner
            .take_log()
            .iter()
            .map(|read| (read.offset_bytes, read.len_bytes))
            .collect();
        assert_eq!(reads, [(32, 32), (320, 48), (112, 48)]);
    }

    #[test]
    fn home_twice_last_holds() {
        let (_, device) = device(vec![redirect(4, 20), redirect(4, 21)]);
        let mut buf = [0; 1];
        device.read_at(&mut buf, 64).unwrap();
        assert_eq!(buf, [21]);
    }

    #[test]
    fn source_past_end_is_refused() {
        let inner = Arc::new(MemoryDevice::new(numbered(4)));
        for source in [4, u64::MAX] {
            assert!(matches!(
                RemapDevice::new(inner.clone(), BLOCK, vec![redirect(0, source)]),
                Err(Error::OutOfRange { .. })
            ));
        }
    }
}
