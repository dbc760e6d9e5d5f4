//! The memory of the frames: one mapping, divided into equal frames.

use crate::memory::{Pages, Region};
use std::io;
use std::ptr::NonNull;

/// The memory of a number of frames. It returns addresses; [`super::bytes`] makes references of
/// them.
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

    /// Returns the bytes of `frame`.
    #[inline]
    pub(super) fn bytes(&self, frame: u32) -> NonNull<[u8]> {
        let start = self.region.at(self.offset_bytes(frame));
        NonNull::slice_from_raw_parts(start, self.frame_bytes)
    }

    /// Returns the memory of `frame`, which the caller owns, to the kernel.
    pub(super) fn discard(&self, frame: u32) {
        self.region
            .discard(self.offset_bytes(frame), self.frame_bytes);
    }
}
