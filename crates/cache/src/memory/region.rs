//! A region of anonymous private memory.
#![allow(unsafe_code, reason = "maps, advises and unmaps memory")]

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

/// The size of the memory pages with which the kernel backs a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Huge pages where possible, which cause fewer TLB misses. For memory that is accounted for as a
    /// whole.
    Huge,
    /// Pages of the smallest size. For memory that is accounted for in parts.
    Small,
}

/// A mapped region, which is unmapped on drop. Parts that were never written, or that were discarded,
/// read as zeros. Only pages that were touched are resident.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: a region is an address range that is mapped until drop, for all threads. It provides addresses
// and no references.
unsafe impl Send for Region {}
// SAFETY: the methods return addresses, or make system calls that any thread may make.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len_bytes` bytes of zeroed memory, aligned to the machine's pages.
    ///
    /// # Errors
    /// Returns the kernel's error, most likely because there is not enough address space.
    pub(crate) fn new(len_bytes: usize, pages: Pages) -> io::Result<Self> {
        let len_bytes = len_bytes.max(1);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps
        // nothing that exists.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let region = Self { start, len_bytes };
        // An old kernel may not know the advice; the region works without it.
        let _ = region.advise(
            0,
            len_bytes,
            match pages {
                Pages::Huge => Advice::LinuxHugepage,
                Pages::Small => Advice::LinuxNoHugepage,
            },
        );
        Ok(region)
    }

    /// Returns the address of the byte at `offset_bytes`, which must be inside the region.
    #[inline]
    pub(crate) fn at(&self, offset_bytes: usize) -> NonNull<u8> {
        assert!(
            offset_bytes < self.len_bytes,
            "the address is outside the region"
        );
        // SAFETY: by the assertion, the byte is inside the mapping.
        unsafe { self.start.add(offset_bytes) }
    }

    /// Returns the region's length in bytes.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Returns the memory of a part of the region to the kernel. The part then reads as zeros.
    ///
    /// No reference to the part may exist during the call, since the call has the effect of writing
    /// zeros. The owner of a frame has exclusive access to the frame, and so may discard it.
    ///
    /// If the part does not consist of whole pages of the machine, the call does nothing, because the
    /// kernel would also zero bytes next to the part.
    pub(crate) fn discard(&self, offset_bytes: usize, len_bytes: usize) {
        let page_bytes = rustix::param::page_size();
        if !(offset_bytes | len_bytes).is_multiple_of(page_bytes) {
            return;
        }
        // Without this advice, the kernel could later back the part and its neighbours with a huge page.
        let _ = self.advise(0, self.len_bytes, Advice::LinuxNoHugepage);
        // If the call fails, the only effect is that the memory stays resident.
        let _ = self.advise(offset_bytes, len_bytes, Advice::LinuxDontNeed);
    }

    /// Returns the memory of all whole pages at or after `offset_bytes` to the kernel. These pages then
    /// read as zeros. This is for regions with [`Pages::Small`]. Other threads may read the pages during
    /// the call only if the pages contain zeros already.
    #[cfg(not(shuttle))]
    pub(crate) fn discard_from(&self, offset_bytes: usize) {
        let start = offset_bytes.next_multiple_of(rustix::param::page_size());
        if start < self.len_bytes {
            // If the call fails, the only effect is that the memory stays resident.
            let _ = self.advise(start, self.len_bytes - start, Advice::LinuxDontNeed);
        }
    }

    fn advise(&self, offset_bytes: usize, len_bytes: usize, advice: Advice) -> io::Result<()> {
        let end = offset_bytes.checked_add(len_bytes);
        assert!(
            end.is_some_and(|end| end <= self.len_bytes),
            "the advised range is outside the region"
        );
        let at = self.at(offset_bytes);
        // SAFETY: the range is inside this mapping, which no other code uses.
        unsafe { rustix::mm::madvise(at.as_ptr().cast::<c_void>(), len_bytes, advice) }?;
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and no borrow of the region exists any more. If the call
        // fails, the range stays mapped, which is harmless.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.len_bytes) };
    }
}
