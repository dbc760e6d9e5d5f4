//! A page fault on purpose.
#![allow(
    unsafe_code,
    reason = "maps a page of a file, touches it and unmaps it"
)]

use super::PAGE_BYTES;
use larder_readahead::Advice;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io;

/// Length of the mapping.
const LEN_BYTES: usize = 4096;
const _: () = assert!(LEN_BYTES as u64 == PAGE_BYTES);

/// Maps one page of `file`, advises on the mapping and reads a byte of it.
///
/// A mapping of this page alone keeps the kernel from mapping cached neighbours at the same
/// fault: then each fault is about one page.
pub(super) fn fault(file: &File, page: u64, advice: Advice) -> io::Result<()> {
    let flags = MapFlags::SHARED;
    // SAFETY: the kernel chooses an address that nothing else uses.
    let start = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            LEN_BYTES,
            ProtFlags::READ,
            flags,
            file,
            page * PAGE_BYTES,
        )
    }?;
    let advised = match advice {
        Advice::Sequential => Some(rustix::mm::Advice::Sequential),
        Advice::Random => Some(rustix::mm::Advice::Random),
        _ => None,
    };
    if let Some(advice) = advised {
        // SAFETY: the range is the mapping made above; the advice only changes readahead.
        unsafe { rustix::mm::madvise(start, LEN_BYTES, advice) }?;
    }
    // SAFETY: the mapping is readable, and the recorder's file is never shorter than a page that
    // a pattern faults on (`Recorder` checks).
    unsafe { start.cast::<u8>().read_volatile() };
    // SAFETY: nothing points into the mapping any more.
    unsafe { rustix::mm::munmap(start, LEN_BYTES) }?;
    Ok(())
}
