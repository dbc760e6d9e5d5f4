//! A device that redirects reads of some blocks. It shows an image as it would be after a journal
//! replay, without writing to the image.
//!
//! Model: when jbd2 recovers, it copies a block from the journal to its home. Here the home is
//! redirected to the copy in the journal instead, so the image can stay read-only. If a block begins with the journal's
//! magic number, the journal stores the block with the first four bytes zeroed. The redirect then records the original
//! bytes.
//!
//! Invariants: redirects are sorted by home, and each home occurs once. Sources are inside the
//! device. A source is read without translation, even if it is the home of another redirect: there
//! are no chains.
//!
//! Cost: 24 bytes for each redirect. A read that contains no redirected block costs two binary
//! searches and is passed on whole. Other requests are performed by threads.

use crate::{
    BlockDevice, Priority, Request, Result, ThreadedDevice, check_range, divided, total_bytes,
};
use std::io::IoSliceMut;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// A block whose content is read from another block of the same device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The requested block.
    pub home: u64,
    /// The block that is read instead.
    pub source: u64,
    /// The block's first four bytes, if they differ from those of the source.
    pub first_bytes: Option<[u8; 4]>,
}

/// A device that redirects reads of some blocks.
#[derive(Debug)]
pub struct RemapDevice {
    remap: Arc<Remap>,
    /// Performs requests that touch redirected blocks.
    threads: ThreadedDevice,
}

/// The blocking reads of a [`RemapDevice`].
#[derive(Debug)]
struct Remap {
    inner: Arc<dyn BlockDevice>,
    block_size_bytes: u64,
    redirects: Vec<Redirect>,
}

/// A part of a read that one read of the inner device serves.
struct Piece {
    len_bytes: usize,
    inner_offset_bytes: u64,
    /// The indices of the piece's redirects.
    patches: std::ops::Range<usize>,
}

impl RemapDevice {
    /// Redirects blocks of `inner`. If a home occurs several times, the last redirect applies.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] if a source is not inside `inner`.
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
        let remap = Arc::new(Remap {
            inner,
            block_size_bytes,
            redirects,
        });
        Ok(Self {
            threads: ThreadedDevice::new(Arc::clone(&remap) as _),
            remap,
        })
    }

    /// Divides `requests` into those that touch redirected blocks, and the others.
    fn divided(&self, requests: Vec<Request>) -> (Vec<Request>, Vec<Request>) {
        divided(requests, |at, len| !self.remap.touched(at, len).is_empty())
    }
}

impl Remap {
    /// Returns the redirects whose homes overlap the bytes of a read, as a range of indices.
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

    /// Returns the first piece of a read of `len` bytes at `offset_bytes`, with the redirects `touched`.
    /// If the first block is redirected, the piece is the run of redirects whose homes and sources are
    /// both consecutive. Otherwise it ends before the next redirected block. It never exceeds the read.
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

    /// Calls `run` for each piece of a range, with its offset on the inner device and its length, both in bytes.
    fn each_piece(&self, offset_bytes: u64, len_bytes: u64, mut run: impl FnMut(u64, u64)) {
        let touched = self.touched(offset_bytes, len_bytes);
        let (mut at_bytes, end_bytes) = (offset_bytes, offset_bytes.saturating_add(len_bytes));
        while at_bytes < end_bytes {
            let left = usize::try_from(end_bytes - at_bytes).unwrap_or(usize::MAX);
            let piece = self.piece(at_bytes, left, touched.clone());
            let piece_bytes = piece.len_bytes as u64;
            run(piece.inner_offset_bytes, piece_bytes);
            at_bytes += piece_bytes;
        }
    }

    /// For each redirect in the index range `patches`, stores its [`Redirect::first_bytes`] in `buf`,
    /// which was read at `offset_bytes`. Bytes outside `buf` are skipped.
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

impl BlockDevice for Remap {
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

impl BlockDevice for RemapDevice {
    fn size_bytes(&self) -> u64 {
        self.remap.size_bytes()
    }

    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.remap.inner)
    }

    fn submit(&self, requests: Vec<Request>) {
        let (redirected, others) = self.divided(requests);
        self.remap.inner.submit(others);
        self.threads.submit(redirected);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        let (redirected, others) = self.divided(requests);
        self.threads.perform(redirected, timeout)?;
        self.remap.inner.perform(others, timeout)
    }

    fn cancel_in_flight(&self) {
        self.threads.cancel_in_flight();
        self.remap.inner.cancel_in_flight();
    }

    fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        self.threads.expedite(offset_bytes, len_bytes);
        self.remap
            .each_piece(offset_bytes, len_bytes, |at_bytes, len_bytes| {
                self.remap.inner.expedite(at_bytes, len_bytes);
            });
    }

    fn announce(&self, offset_bytes: u64, len_bytes: u64, priority: Priority) {
        self.remap
            .each_piece(offset_bytes, len_bytes, |at_bytes, len_bytes| {
                self.remap.inner.announce(at_bytes, len_bytes, priority);
            });
    }

    /// The content of a redirected block may differ from that of the base.
    fn unchanged_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        let Remap {
            inner,
            block_size_bytes,
            redirects,
        } = &*self.remap;
        let touched = self.remap.touched(offset_bytes, len_bytes);
        let before_bytes = match redirects[touched].first() {
            Some(first) => (first.home * block_size_bytes).saturating_sub(offset_bytes),
            None => len_bytes,
        };
        if before_bytes == 0 {
            return 0;
        }
        inner.unchanged_bytes(offset_bytes, before_bytes)
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.remap.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.remap.read_vectored_at(bufs, offset_bytes)
    }
}
