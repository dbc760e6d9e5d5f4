//! A device in a regular file or on a kernel block device, read past the kernel's page cache.
//!
//! Model: `O_DIRECT`. What is read is cached above, and nowhere else; the kernel reads nothing
//! ahead, so that what reaches the device is what was asked for. A small read costs a whole trip to
//! the device, which the page cache would have saved.
//!
//! Direct I/O wants offsets, lengths and memory on [`ALIGN_BYTES`]. Pages and buffers lie so;
//! whatever does not takes a way through memory that does.

use crate::{BlockDevice, FileDevice, FileRange, Result, check_range, total_bytes};
use std::io::IoSliceMut;
use std::path::Path;

/// Enough for every block device whose blocks Linux can cache.
const ALIGN_BYTES: usize = 4096;

/// A regular file or block device, or a part of one, read with `O_DIRECT`.
#[derive(Debug)]
pub struct DirectDevice {
    file: FileDevice,
}

impl DirectDevice {
    /// Opens the file or block device at `path`.
    ///
    /// # Errors
    /// As [`FileDevice::open`]; [`Error::Open`](crate::Error::Open) too where the file system has no direct I/O.
    pub fn open(path: &Path, range: FileRange) -> Result<Self> {
        Ok(Self {
            file: FileDevice::open_direct(path, range)?,
        })
    }

    /// Fills `bufs` by way of aligned memory.
    fn read_around(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        let len = usize::try_from(total_bytes(bufs)).unwrap_or(usize::MAX);
        let position_bytes = self.file.position_bytes(offset_bytes);
        let ahead = usize::try_from(position_bytes % ALIGN_BYTES as u64).unwrap_or(0);
        let aligned_len = (ahead + len).next_multiple_of(ALIGN_BYTES);
        let mut memory = vec![0; aligned_len + ALIGN_BYTES];
        let start = memory.as_ptr().align_offset(ALIGN_BYTES);
        let aligned = &mut memory[start..start + aligned_len];
        self.file.read_direct(aligned, ahead, len, offset_bytes)?;
        let mut rest = &aligned[ahead..ahead + len];
        for buf in bufs {
            let (part, behind) = rest.split_at(buf.len());
            buf.copy_from_slice(part);
            rest = behind;
        }
        Ok(())
    }
}

impl BlockDevice for DirectDevice {
    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.read_vectored_at(&mut [IoSliceMut::new(buf)], offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes(), offset_bytes, total_bytes(bufs))?;
        let position_bytes = self.file.position_bytes(offset_bytes);
        if position_bytes.is_multiple_of(ALIGN_BYTES as u64)
            && bufs.iter().all(|buf| is_aligned(buf))
        {
            self.file.read_vectored_at(bufs, offset_bytes)
        } else {
            self.read_around(bufs, offset_bytes)
        }
    }
}

fn is_aligned(buf: &[u8]) -> bool {
    buf.len().is_multiple_of(ALIGN_BYTES) && buf.as_ptr().align_offset(ALIGN_BYTES) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::io::Write;

    /// A file on the disk, where direct I/O is: not every folder for temporary files has it.
    fn device(len: usize, offset_bytes: u64) -> Option<(tempfile::NamedTempFile, DirectDevice)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
        let bytes: Vec<u8> = (0..len).map(byte).collect();
        file.write_all(&bytes).unwrap();
        file.as_file().sync_all().unwrap();
        let range = FileRange {
            offset_bytes,
            size_bytes: None,
        };
        match DirectDevice::open(file.path(), range) {
            Ok(device) => Some((file, device)),
            Err(error) => {
                eprintln!("skipped: {error}");
                None
            }
        }
    }

    fn byte(at: usize) -> u8 {
        u8::try_from(at % 251).unwrap()
    }

    #[test]
    fn direct_read_of_any_range_returns_its_bytes() {
        const LEN: usize = 3 * ALIGN_BYTES + 700;
        for start in [0, 512, 4096] {
            let Some((_file, device)) = device(LEN, start as u64) else {
                return;
            };
            let size = LEN - start;
            assert_eq!(device.size_bytes(), size as u64);
            for (offset, len) in [
                (0, 4096),
                (0, 1),
                (1, 4096),
                (4095, 2),
                (4096, 8192 - start),
                (size - 1, 1),
                (0, size),
                (size, 0),
            ] {
                let mut buf = vec![0; len];
                device.read_at(&mut buf, offset as u64).unwrap();
                let expected: Vec<u8> = (start + offset..start + offset + len).map(byte).collect();
                assert_eq!(buf, expected, "{len} bytes at {offset} from {start}");
            }
            let mut buf = [0; 2];
            assert!(matches!(
                device.read_at(&mut buf, size as u64 - 1),
                Err(Error::OutOfRange { .. })
            ));
        }
    }

    #[test]
    fn aligned_buffers_are_filled_one_after_the_other() {
        let Some((_file, device)) = device(4 * ALIGN_BYTES, 0) else {
            return;
        };
        let mut memory = vec![0; 3 * ALIGN_BYTES];
        let start = memory.as_ptr().align_offset(ALIGN_BYTES);
        let (one, other) = memory[start..start + 2 * ALIGN_BYTES].split_at_mut(ALIGN_BYTES);
        assert!(is_aligned(one) && is_aligned(other));
        let mut bufs = [IoSliceMut::new(other), IoSliceMut::new(one)];
        device.read_vectored_at(&mut bufs, 4096).unwrap();
        assert_eq!((other[0], one[0]), (byte(4096), byte(8192)));
    }

    #[test]
    fn file_cut_short_under_direct_reads_fails() {
        let Some((file, device)) = device(2 * ALIGN_BYTES, 0) else {
            return;
        };
        file.as_file().set_len(100).unwrap();
        let mut buf = [0; 100];
        device.read_at(&mut buf, 0).unwrap();
        assert!(matches!(device.read_at(&mut buf, 1), Err(Error::Io { .. })));
    }
}
