//! The memory of the frames: one mapping, divided into equal frames.

use crate::memory::{Pages, Region};
use std::io;
use std::ptr::NonNull;

/// The memory of all frames of a pool. It provides addresses, which [`super::bytes`] converts to slices.
#[derive(Debug)]
pub(super) struct FrameMemory {
    region: Region,
    frame_bytes: usize,
}

impl FrameMemory {
    pub(super) fn new(count: u32, frame_bytes: usize) -> io::Result<Self> {
        let len_bytes = frame_bytes
            .checked_mul(count as usize)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            region: Region::new(len_bytes, Pages::Huge)?,
            frame_bytes,
        })
    }

    #[inline]
    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    fn offset_bytes(&self, frame: u32) -> usize {
        let offset = self.frame_bytes * frame as usize;
        debug_assert!(offset + self.frame_bytes <= self.region.len_bytes());
        offset
    }

    /// Returns the address and the length of `frame`.
    #[inline]
    pub(super) fn bytes(&self, frame: u32) -> NonNull<[u8]> {
        let start = self.region.at(self.offset_bytes(frame));
        NonNull::slice_from_raw_parts(start, self.frame_bytes)
    }

    /// Returns the memory of `frame` to the kernel. The caller must own the frame.
    pub(super) fn discard(&self, frame: u32) {
        self.region
            .discard(self.offset_bytes(frame), self.frame_bytes);
    }
}
