//! A device in a regular file or on a kernel block device.
//!
//! The file is opened for reading only, with a shared lock, so that it may lie
//! on read-only storage and two readers may share it, while whoever wants it
//! alone (and says so by an exclusive lock) is kept out.
//!
//! The kernel's own readahead on the file stays on. The page cache above reads
//! ahead in each file, but only the kernel sees that small files which lie side
//! by side are read one after the other: telling it that reads are random made
//! a cold `tar` of 54,000 files take up to twice as long.

use crate::{BlockDevice, Error, Result, check_range, total_bytes};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The most buffers that one vectored read takes.
const MAX_BUFFERS: usize = 1024;

/// No block of a device is smaller.
const SECTOR_BYTES: usize = 512;

/// A regular file or block device, or a part of one.
#[derive(Debug)]
pub struct FileDevice {
    file: OwnedFd,
    start_bytes: u64,
    size_bytes: u64,
}

/// Which part of a file is the device: an image may lie inside a larger file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRange {
    /// Where the image starts.
    pub offset_bytes: u64,
    /// How long the image is; up to the end of the file if not given.
    pub size_bytes: Option<u64>,
}

impl FileDevice {
    /// Opens the file or block device at `path`.
    ///
    /// # Errors
    /// [`Error::Open`] if it cannot be opened or is neither a regular file nor
    /// a block device, [`Error::Locked`] if another process has locked it for
    /// itself, [`Error::OutOfRange`] if `range` does not lie inside it.
    pub fn open(path: &Path, range: FileRange) -> Result<Self> {
        Self::open_with(path, range, OFlags::empty())
    }

    /// Opens it for direct I/O, for [`DirectDevice`](crate::DirectDevice).
    pub(crate) fn open_direct(path: &Path, range: FileRange) -> Result<Self> {
        Self::open_with(path, range, OFlags::DIRECT)
    }

    fn open_with(path: &Path, range: FileRange, more: OFlags) -> Result<Self> {
        let failed = |source: io::Error| Error::Open {
            path: path.to_owned(),
            source,
        };
        // Without NONBLOCK, opening a FIFO would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | more;
        let file = retry(|| rustix::fs::open(path, flags, Mode::empty()))
            .map_err(|errno| failed(errno.into()))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let file_bytes = match kind {
            FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
            FileType::BlockDevice => {
                rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|errno| failed(errno.into()))?
            }
            FileType::Directory => return Err(failed(Errno::ISDIR.into())),
            _ => {
                return Err(failed(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "neither a regular file nor a block device",
                )));
            }
        };
        match retry(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)) {
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::Locked {
                    path: path.to_owned(),
                });
            }
            // Some network and user-space file systems have no locks.
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        let size_bytes = match range.size_bytes {
            Some(size_bytes) => size_bytes,
            None => file_bytes.saturating_sub(range.offset_bytes),
        };
        check_range(file_bytes, range.offset_bytes, size_bytes)?;
        Ok(Self {
            file,
            start_bytes: range.offset_bytes,
            size_bytes,
        })
    }

    /// Where in the file `offset_bytes` of the device is.
    pub(crate) fn position_bytes(&self, offset_bytes: u64) -> u64 {
        self.start_bytes + offset_bytes
    }

    /// Reads `len` bytes from `offset_bytes` on into `buf`, to its byte `ahead`. What `buf` has
    /// before and behind makes it a direct read, and what lies behind the end of the file is left.
    pub(crate) fn read_direct(
        &self,
        buf: &mut [u8],
        ahead: usize,
        len: usize,
        offset_bytes: u64,
    ) -> Result<()> {
        let failed = |source| io_error(offset_bytes, len as u64, source);
        let at_bytes = self.position_bytes(offset_bytes) - ahead as u64;
        let mut done = 0;
        while done < ahead + len {
            let read =
                retry(|| rustix::io::pread(&self.file, &mut buf[done..], at_bytes + done as u64))
                    .map_err(|errno| failed(errno.into()))?;
            // Short of the end, only whole blocks are read.
            if read == 0 || (done + read < ahead + len && !read.is_multiple_of(SECTOR_BYTES)) {
                return Err(failed(shrunk()));
            }
            done += read;
        }
        Ok(())
    }

    fn read_exact(&self, mut buf: &mut [u8], mut offset_bytes: u64) -> Result<()> {
        while !buf.is_empty() {
            let len_bytes = buf.len() as u64;
            let at_bytes = self.start_bytes + offset_bytes;
            let read = retry(|| rustix::io::pread(&self.file, &mut *buf, at_bytes))
                .map_err(|errno| io_error(offset_bytes, len_bytes, errno.into()))?;
            if read == 0 {
                return Err(io_error(offset_bytes, len_bytes, shrunk()));
            }
            buf = &mut buf[read..];
            offset_bytes += read as u64;
        }
        Ok(())
    }

    /// Reads into at most [`MAX_BUFFERS`] buffers; what a short read leaves
    /// out, one by one.
    fn read_batch(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        let at_bytes = self.start_bytes + offset_bytes;
        let mut done = retry(|| rustix::io::preadv(&self.file, bufs, at_bytes))
            .map_err(|errno| io_error(offset_bytes, total_bytes(bufs), errno.into()))?;
        let mut buf_offset_bytes = offset_bytes;
        for buf in bufs {
            let filled = done.min(buf.len());
            done -= filled;
            self.read_exact(&mut buf[filled..], buf_offset_bytes + filled as u64)?;
            buf_offset_bytes += buf.len() as u64;
        }
        Ok(())
    }
}

impl BlockDevice for FileDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes, offset_bytes, buf.len() as u64)?;
        self.read_exact(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes, offset_bytes, total_bytes(bufs))?;
        let mut at_bytes = offset_bytes;
        for batch in bufs.chunks_mut(MAX_BUFFERS) {
            self.read_batch(batch, at_bytes)?;
            at_bytes += total_bytes(batch);
        }
        Ok(())
    }
}

/// Calls again as long as a signal interrupts.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

fn io_error(offset_bytes: u64, len_bytes: u64, source: io::Error) -> Error {
    Error::Io {
        offset_bytes,
        len_bytes,
        source,
    }
}

/// Why a read inside the device found the end of the file.
fn shrunk() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the file has been cut short since it was opened",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    fn file(len: usize) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
        file.write_all(&bytes).unwrap();
        file
    }

    #[test]
    fn part_of_file_reads_from_its_offset() {
        let file = file(1000);
        let range = FileRange {
            offset_bytes: 100,
            size_bytes: Some(50),
        };
        let device = FileDevice::open(file.path(), range).unwrap();
        assert_eq!(device.size_bytes(), 50);
        let mut buf = [0; 4];
        device.read_at(&mut buf, 46).unwrap();
        assert_eq!(buf, [146, 147, 148, 149]);
        assert!(matches!(
            device.read_at(&mut buf, 47),
            Err(Error::OutOfRange { size_bytes: 50, .. })
        ));
        let rest = FileRange {
            offset_bytes: 990,
            size_bytes: None,
        };
        assert_eq!(
            FileDevice::open(file.path(), rest).unwrap().size_bytes(),
            10
        );
    }

    #[test]
    fn range_past_end_of_file_is_refused() {
        let file = file(1000);
        for (offset_bytes, size_bytes) in [(900, Some(101)), (1001, None), (u64::MAX, Some(1))] {
            let range = FileRange {
                offset_bytes,
                size_bytes,
            };
            assert!(matches!(
                FileDevice::open(file.path(), range),
                Err(Error::OutOfRange { .. })
            ));
        }
    }

    #[test]
    fn vectored_read_of_many_buffers_fills_all() {
        let file = file(10_000);
        let device = FileDevice::open(file.path(), FileRange::default()).unwrap();
        let mut bytes = vec![0; 9_000];
        let mut bufs: Vec<_> = bytes.chunks_mut(3).map(IoSliceMut::new).collect();
        assert!(bufs.len() > MAX_BUFFERS);
        device.read_vectored_at(&mut bufs, 1_000).unwrap();
        let mut expected = vec![0; 9_000];
        device.read_at(&mut expected, 1_000).unwrap();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn file_cut_short_while_open_fails() {
        let file = file(10_000);
        let device = FileDevice::open(file.path(), FileRange::default()).unwrap();
        file.as_file().set_len(5_000).unwrap();
        let mut buf = [0; 2_000];
        assert!(matches!(
            device.read_at(&mut buf, 4_000),
            Err(Error::Io { .. })
        ));
        let (left, right) = buf.split_at_mut(700);
        let bufs = &mut [IoSliceMut::new(left), IoSliceMut::new(right)];
        assert!(matches!(
            device.read_vectored_at(bufs, 4_000),
            Err(Error::Io { .. })
        ));
        device.read_vectored_at(bufs, 3_000).unwrap();
    }

    #[test]
    fn exclusive_lock_elsewhere_is_locked() {
        let file = file(10);
        let other = File::open(file.path()).unwrap();
        rustix::fs::flock(&other, FlockOperation::LockExclusive).unwrap();
        assert!(matches!(
            FileDevice::open(file.path(), FileRange::default()),
            Err(Error::Locked { .. })
        ));
        drop(other);
        let first = FileDevice::open(file.path(), FileRange::default()).unwrap();
        FileDevice::open(file.path(), FileRange::default()).unwrap();
        drop(first);
    }

    #[test]
    fn neither_file_nor_device_is_refused() {
        for path in ["/", "/dev/null", "/no/such/file"] {
            assert!(matches!(
                FileDevice::open(Path::new(path), FileRange::default()),
                Err(Error::Open { .. })
            ));
        }
    }
}
