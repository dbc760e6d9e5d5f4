//! Deliberate page faults.
#![allow(
    unsafe_code,
    reason = "maps a page of a file, advises on it, touches it and unmaps it"
)]

use super::PAGE_BYTES;
use larder_readahead::Advice;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::fs::File;
use std::io;

/// The length of a mapping.
const LEN_BYTES: usize = 4096;
const _: () = assert!(LEN_BYTES as u64 == PAGE_BYTES);

/// Maps one page of `file`, gives advice on the mapping, and reads a byte of it.
///
/// A mapping of a single page prevents the kernel from mapping cached neighbours in the same fault, so
/// that each fault concerns one page.
pub(super) fn fault(file: &File, page: u64, advice: Advice) -> io::Result<()> {
    let mapping = Mapping::new(file, page)?;
    match advice {
        Advice::Sequential => mapping.advise(rustix::mm::Advice::Sequential)?,
        Advice::Random => mapping.advise(rustix::mm::Advice::Random)?,
        _ => {}
    }
    mapping.touch();
    Ok(())
}

/// One page of a file, mapped for reading. It is unmapped on drop.
struct Mapping {
    start: *mut c_void,
}

impl Mapping {
    fn new(file: &File, page: u64) -> io::Result<Self> {
        let flags = MapFlags::SHARED;
        // SAFETY: the kernel chooses an address range that is not in use.
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
        Ok(Self { start })
    }

    fn advise(&self, advice: rustix::mm::Advice) -> io::Result<()> {
        // SAFETY: the range is this mapping; the advice only changes readahead.
        unsafe { rustix::mm::madvise(self.start, LEN_BYTES, advice) }?;
        Ok(())
    }

    fn touch(&self) {
        // SAFETY: the mapping is readable, and the recorder's file is never shorter than a page that a
        // pattern faults on (`Recorder` checks this).
        unsafe { self.start.cast::<u8>().read_volatile() };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and no pointer into it remains. The call fails only for a
        // range that is not a mapping.
        let _ = unsafe { rustix::mm::munmap(self.start, LEN_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_mapping_is_unmapped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(PAGE_BYTES).unwrap();
        let name = file.path().to_str().unwrap();
        let is_mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.contains(name)
        };
        let mapping = Mapping::new(file.as_file(), 0).unwrap();
        mapping.advise(rustix::mm::Advice::Random).unwrap();
        mapping.touch();
        assert!(is_mapped());
        drop(mapping);
        assert!(!is_mapped());
    }
}
