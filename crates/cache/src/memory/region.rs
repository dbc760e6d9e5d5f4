//! A region of anonymous private memory.
#![allow(unsafe_code, reason = "maps, advises and unmaps memory")]

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

/// How the kernel should back a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// As large as it can: fewer misses of the translation buffer. For memory
    /// that is accounted for as a whole.
    Huge,
    /// The smallest: for memory that is accounted for as it is touched.
    Small,
}

/// A mapped region, unmapped on drop. Zeroed at first, and again wherever it was
/// discarded; memory is resident only where it was touched.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: a region is an address range, mapped until drop whichever thread asks.
// It gives out no references of its own: who makes one from `start` answers for it.
unsafe impl Send for Region {}
// SAFETY: as for `Send`; its methods are system calls that any thread may make.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len_bytes` of zeroed memory, aligned to the machine's pages.
    ///
    /// # Errors
    /// The kernel's, for want of address space most likely.
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

    /// The byte at `offset_bytes`, which must lie inside the region.
    #[inline]
    pub(crate) fn at(&self, offset_bytes: usize) -> NonNull<u8> {
        assert!(offset_bytes < self.len_bytes, "address outside the region");
        // SAFETY: it lies inside the mapping, by the assertion.
        unsafe { self.start.add(offset_bytes) }
    }

    /// The region's length in bytes.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Gives the memory of a part back to the kernel; it reads as zeros after.
    ///
    /// The caller sees to it that nothing refers to the part meanwhile: this is
    /// a write of zeros. It is for frames, whose owner is exclusive.
    ///
    /// Only whole pages of the machine are given back: of less, the neighbours
    /// would be zeroed too.
    pub(crate) fn discard(&self, offset_bytes: usize, len_bytes: usize) {
        let page_bytes = rustix::param::page_size();
        if !(offset_bytes | len_bytes).is_multiple_of(page_bytes) {
            return;
        }
        // Or the kernel would some day make a huge page of what is around.
        let _ = self.advise(0, self.len_bytes, Advice::LinuxNoHugepage);
        // Left in place if the kernel refuses: then it stays resident, no more.
        let _ = self.advise(offset_bytes, len_bytes, Advice::LinuxDontNeed);
    }

    /// Gives the memory of the whole pages from `offset_bytes` on back to the kernel; it reads as
    /// zeros after. For regions of small pages. See [`Region::discard`] for what the caller sees to.
    #[cfg(not(shuttle))]
    pub(crate) fn discard_from(&self, offset_bytes: usize) {
        let start = offset_bytes.next_multiple_of(rustix::param::page_size());
        if start < self.len_bytes {
            // As there.
            let _ = self.advise(start, self.len_bytes - start, Advice::LinuxDontNeed);
        }
    }

    fn advise(&self, offset_bytes: usize, len_bytes: usize, advice: Advice) -> io::Result<()> {
        let end = offset_bytes.checked_add(len_bytes);
        assert!(
            end.is_some_and(|end| end <= self.len_bytes),
            "advice outside the region"
        );
        let at = self.at(offset_bytes);
        // SAFETY: the range lies inside this mapping, which is ours alone.
        unsafe { rustix::mm::madvise(at.as_ptr().cast::<c_void>(), len_bytes, advice) }?;
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and what borrows from the region
        // has ended. A failure leaves it mapped: harmless.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.len_bytes) };
    }
}
