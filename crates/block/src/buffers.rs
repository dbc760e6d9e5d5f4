//! Buffers that a device may fill or read after the call that passed them has returned.
//!
//! A back end keeps pointers to the bytes while the kernel works on them. The traits are unsafe to
//! implement, because safe code cannot express that the bytes stay in place when their owner moves.
#![allow(unsafe_code, reason = "defines and implements unsafe traits")]

use std::io::{IoSlice, IoSliceMut};
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// The buffers of a read: one or more slices, filled in order.
///
/// # Safety
/// Each call returns the same slices: the same addresses and lengths, even if the value was moved in between.
/// The memory stays valid until the value is dropped, or for ever if the value is leaked. Only the owner of
/// the value accesses the memory.
pub unsafe trait ReadBuffers: Send + 'static {
    /// Returns the slices.
    fn slices_mut(&mut self) -> Vec<IoSliceMut<'_>>;

    /// Returns the total length of the slices, in bytes.
    fn len_bytes(&mut self) -> u64 {
        total_bytes(&self.slices_mut())
    }
}

/// The buffers of a write: one or more slices, written in order.
///
/// # Safety
/// As for [`ReadBuffers`], but other owners may read the memory too. Nothing writes to it until the value
/// is dropped.
pub unsafe trait WriteBuffers: Send + 'static {
    /// Returns the slices.
    fn slices(&self) -> Vec<IoSlice<'_>>;
}

// SAFETY: a vector owns its allocation, which moves only if the vector grows.
unsafe impl ReadBuffers for Vec<u8> {
    fn slices_mut(&mut self) -> Vec<IoSliceMut<'_>> {
        vec![IoSliceMut::new(self)]
    }
}

// SAFETY: as for reads. A request owns the vector, so nothing changes it.
unsafe impl WriteBuffers for Vec<u8> {
    fn slices(&self) -> Vec<IoSlice<'_>> {
        vec![IoSlice::new(self)]
    }
}

// SAFETY: the allocation of the bytes is shared and immutable while a reference to it exists.
unsafe impl WriteBuffers for Vec<Arc<[u8]>> {
    fn slices(&self) -> Vec<IoSlice<'_>> {
        self.iter().map(|bytes| IoSlice::new(bytes)).collect()
    }
}

/// Bytes whose address is a multiple of a power of two.
#[derive(Debug)]
pub struct AlignedBytes {
    memory: Vec<u8>,
    range: Range<usize>,
}

impl AlignedBytes {
    /// Returns `len` zeros at an address that is a multiple of `align`.
    ///
    /// # Panics
    /// If `align` is not a power of two.
    #[must_use]
    pub fn zeroed(len: usize, align: usize) -> Self {
        let memory = vec![0; len + align];
        let start = memory.as_ptr().align_offset(align);
        Self {
            memory,
            range: start..start + len,
        }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.range.clone()]
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.range.clone()]
    }
}

// SAFETY: as for a vector, which never grows here.
unsafe impl ReadBuffers for AlignedBytes {
    fn slices_mut(&mut self) -> Vec<IoSliceMut<'_>> {
        vec![IoSliceMut::new(self)]
    }
}

// SAFETY: as for a vector, which never grows here.
unsafe impl WriteBuffers for AlignedBytes {
    fn slices(&self) -> Vec<IoSlice<'_>> {
        vec![IoSlice::new(self)]
    }
}

/// Bytes of a read at an address that is a multiple of a power of two. They are allocated when the device starts the
/// read.
#[derive(Debug)]
pub(crate) struct LateBytes {
    len: usize,
    align: usize,
    bytes: Option<AlignedBytes>,
}

impl LateBytes {
    /// Returns `len` bytes at an address that is a multiple of `align`, which must be a power of two.
    pub(crate) fn new(len: usize, align: usize) -> Self {
        Self {
            len,
            align,
            bytes: None,
        }
    }
}

impl Deref for LateBytes {
    type Target = [u8];

    /// Returns the bytes, or an empty slice if they are not allocated.
    fn deref(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }
}

// SAFETY: the first call allocates the bytes, and each call returns all of them. For their memory, see
// `AlignedBytes`.
unsafe impl ReadBuffers for LateBytes {
    fn slices_mut(&mut self) -> Vec<IoSliceMut<'_>> {
        let (len, align) = (self.len, self.align);
        let bytes = self
            .bytes
            .get_or_insert_with(|| AlignedBytes::zeroed(len, align));
        vec![IoSliceMut::new(bytes)]
    }

    /// Does not allocate the bytes.
    fn len_bytes(&mut self) -> u64 {
        self.len as u64
    }
}

/// Returns the total length of `bufs`.
#[must_use]
pub fn gathered_bytes(bufs: &[IoSlice<'_>]) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

/// Returns the total length of `bufs`.
#[must_use]
pub fn total_bytes(bufs: &[IoSliceMut<'_>]) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

/// Copies `bytes` to `bufs`, in order. Skips the first `skip` bytes of `bufs`.
pub fn scatter(mut bytes: &[u8], bufs: &mut [IoSliceMut<'_>], mut skip: usize) {
    for buf in bufs {
        let skipped = skip.min(buf.len());
        skip -= skipped;
        let (part, rest) = bytes.split_at(bytes.len().min(buf.len() - skipped));
        buf[skipped..skipped + part.len()].copy_from_slice(part);
        bytes = rest;
    }
}

/// Fills `bytes` from `bufs`, in order. Skips the first `skip` bytes of `bufs`.
pub(crate) fn gather(bufs: &[IoSlice<'_>], mut skip: usize, mut bytes: &mut [u8]) {
    for buf in bufs {
        let skipped = skip.min(buf.len());
        skip -= skipped;
        let len = bytes.len().min(buf.len() - skipped);
        let (part, rest) = bytes.split_at_mut(len);
        part.copy_from_slice(&buf[skipped..skipped + len]);
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_bytes_are_allocated_once_when_a_device_requests_them() {
        let mut bytes = LateBytes::new(100, 64);
        assert_eq!(bytes.len_bytes(), 100);
        assert!(bytes.is_empty());
        let address = bytes.slices_mut()[0].as_ptr();
        assert!(address.align_offset(64) == 0 && bytes.len() == 100);
        assert_eq!(bytes.slices_mut()[0].as_ptr(), address);
    }
}
