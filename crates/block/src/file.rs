//! A device in a regular file or on a kernel block device.
//!
//! A device that is opened for reading may be on read-only storage. Its lock is shared, so other readers are
//! allowed and writers are not. A device that is opened for writing has an exclusive lock. A block device
//! that is mounted cannot be opened for writing.
//!
//! A range that is not inside the device is refused. Therefore a write never extends the file, unless the device was
//! opened by [`FileDevice::open_growing`].
//!
//! The kernel's own readahead on the file stays enabled. Larder's own readahead works within each file of the
//! image. Only the kernel can detect that small, adjacent files are read one after the other. When the
//! kernel's readahead was disabled (`POSIX_FADV_RANDOM`), a cold `tar` of 54,000 files took up to twice as
//! long.

use crate::calls::{FileCalls, write_error};
use crate::engine::{Calls, Engine};
use crate::lock::{Access, LockableFile};
use crate::loops;
use crate::retry::retry;
use crate::{
    BackEnd, BlockDevice, Error, Request, Result, accepted, check_range, gathered_bytes,
    total_bytes, waiting,
};
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A regular file or block device, or a part of one.
#[derive(Debug)]
pub struct FileDevice {
    calls: Arc<FileCalls>,
    engine: Engine<FileCalls>,
    access: Access,
    size_bytes: u64,
}

/// The part of a file that is the device: an image may be stored inside a larger file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRange {
    /// Offset of the image in the file.
    pub offset_bytes: u64,
    /// Length of the image. `None` means up to the end of the file.
    pub size_bytes: Option<u64>,
}

impl FileDevice {
    /// Opens the file or block device at `path` for reading.
    ///
    /// # Errors
    /// - [`Error::Open`] if it cannot be opened, or is neither a regular file nor a block device.
    /// - [`Error::Locked`] if another device, in this or another process, has it open for writing.
    /// - [`Error::OutOfRange`] if `range` is not inside it.
    pub fn open(path: &Path, range: FileRange) -> Result<Self> {
        Self::open_with(path, range, Access::Read, OFlags::empty(), true)
    }

    /// Opens the file or block device at `path` for reading, without a lock. Another process can write to it at the same
    /// time, so reads may return an outdated or inconsistent content.
    ///
    /// # Errors
    /// As [`FileDevice::open`], except [`Error::Locked`].
    pub fn open_unlocked(path: &Path, range: FileRange) -> Result<Self> {
        Self::open_with(path, range, Access::Read, OFlags::empty(), false)
    }

    /// Opens the file or block device at `path` for reading and writing, with exclusive access.
    ///
    /// # Errors
    /// As [`FileDevice::open`]; also [`Error::Locked`] if another device reads it or the system has
    /// mounted it, and [`Error::Attached`] if a loop device is attached to it.
    pub fn open_writable(path: &Path, range: FileRange) -> Result<Self> {
        Self::open_with(path, range, Access::Write, OFlags::empty(), true)
    }

    /// Opens the file at `path` for reading and writing, with exclusive access. The device has `size_bytes`, even if the file
    /// is shorter. A write after the end of the file extends it. Before that, the bytes there cannot be read.
    ///
    /// # Errors
    /// As [`FileDevice::open_writable`].
    pub fn open_growing(path: &Path, size_bytes: u64) -> Result<Self> {
        let mut device = Self::open_writable(path, FileRange::default())?;
        device.size_bytes = device.size_bytes.max(size_bytes);
        Ok(device)
    }

    /// Opens the file or block device for direct I/O, for [`DirectDevice`](crate::DirectDevice).
    pub(crate) fn open_direct(path: &Path, range: FileRange, access: Access) -> Result<Self> {
        Self::open_with(path, range, access, OFlags::DIRECT, true)
    }

    fn open_with(
        path: &Path,
        range: FileRange,
        access: Access,
        more: OFlags,
        locks: bool,
    ) -> Result<Self> {
        let failed = |source: io::Error| Error::Open {
            path: path.to_owned(),
            source,
        };
        let (file, stat) = open_file(path, access, more)?;
        let file_bytes = match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice => {
                rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|errno| failed(errno.into()))?
            }
            _ => u64::try_from(stat.st_size).unwrap_or(0),
        };
        let file = Arc::new(LockableFile::from(file));
        if locks {
            file.lock(path, access)?;
        }
        if access == Access::Write
            && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && let Some(device) = loops::attached_to(&stat)
        {
            return Err(Error::Attached {
                path: path.to_owned(),
                device,
            });
        }
        let size_bytes = match range.size_bytes {
            Some(size_bytes) => size_bytes,
            None => file_bytes.saturating_sub(range.offset_bytes),
        };
        check_range(file_bytes, range.offset_bytes, size_bytes)?;
        let has_page_cache = !more.contains(OFlags::DIRECT);
        Ok(Self::new(
            &file,
            access,
            range.offset_bytes,
            size_bytes,
            has_page_cache,
        ))
    }

    fn new(
        file: &Arc<LockableFile>,
        access: Access,
        start_bytes: u64,
        size_bytes: u64,
        has_page_cache: bool,
    ) -> Self {
        let calls = Arc::new(FileCalls {
            fd: Arc::clone(file),
            start_bytes,
        });
        Self {
            engine: Engine::new(Arc::clone(&calls), file, has_page_cache, None),
            calls,
            access,
            size_bytes,
        }
    }

    /// Selects the back end that performs requests. Without this call, it is `io_uring` if the kernel allows
    /// it, and threads otherwise. Threads are also used if `back_end` is [`BackEnd::Calls`], which a file device
    /// does not have, or if `io_uring` is not available.
    #[must_use]
    pub fn with_back_end(mut self, back_end: BackEnd) -> Self {
        let (calls, fd) = (Arc::clone(&self.calls), Arc::clone(&self.calls.fd));
        let has_page_cache = self.engine.has_page_cache();
        self.engine = Engine::new(calls, &fd, has_page_cache, Some(back_end));
        self
    }

    /// Opens the same device again, without direct I/O and without a lock of its own.
    pub(crate) fn reopen_buffered(&self) -> Result<FileCalls> {
        let path = format!("/proc/self/fd/{}", self.calls.fd.as_raw_fd());
        let (file, _) = open_file(Path::new(&path), self.access, OFlags::empty())?;
        Ok(FileCalls {
            fd: Arc::new(file.into()),
            start_bytes: self.calls.start_bytes,
        })
    }

    pub(crate) fn check_write(&self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        match self.access {
            Access::Read => Err(Error::ReadOnly),
            Access::Write => check_range(self.size_bytes, offset_bytes, len_bytes),
        }
    }

    /// Returns the system calls on the file.
    pub(crate) fn calls(&self) -> &Arc<FileCalls> {
        &self.calls
    }

    /// Checks that a request is inside the device, and that a write is to a writable device.
    pub(crate) fn check_request(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        is_write: bool,
    ) -> Result<()> {
        if is_write {
            self.check_write(offset_bytes, len_bytes)
        } else {
            check_range(self.size_bytes, offset_bytes, len_bytes)
        }
    }

    /// Returns the engine that performs requests.
    pub(crate) fn engine(&self) -> &Engine<FileCalls> {
        &self.engine
    }
}

impl BlockDevice for FileDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        waiting::check();
        check_range(self.size_bytes, offset_bytes, buf.len() as u64)?;
        self.calls.read_exact(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        waiting::check();
        check_range(self.size_bytes, offset_bytes, total_bytes(bufs))?;
        self.calls.read_vectored(bufs, offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        let requests = accepted(requests, |at, len, write| {
            self.check_request(at, len, write)
        });
        self.engine.submit(requests);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        waiting::check();
        let requests = accepted(requests, |at, len, write| {
            self.check_request(at, len, write)
        });
        self.engine.perform(requests, timeout)
    }

    fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        self.engine.expedite(offset_bytes, len_bytes);
    }

    fn cancel_in_flight(&self) {
        self.engine.complete_cancelled();
    }

    fn back_end(&self) -> BackEnd {
        self.engine.back_end()
    }

    /// The size and the time of modification of a regular file.
    fn content_version(&self) -> Option<String> {
        let stat = rustix::fs::fstat(&self.calls.fd).ok()?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_regular.then(|| {
            format!(
                "{} bytes, modified {}.{:09}",
                stat.st_size, stat.st_mtime, stat.st_mtime_nsec
            )
        })
    }

    fn caches_writes(&self) -> bool {
        self.engine.has_page_cache()
    }

    fn is_stored_in(&self, device: u64, ino: u64) -> bool {
        rustix::fs::fstat(&self.calls.fd)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (device, ino))
    }

    fn is_writable(&self) -> bool {
        self.access == Access::Write
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        waiting::check();
        self.check_write(offset_bytes, buf.len() as u64)?;
        self.calls.write_exact(buf, offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        waiting::check();
        self.check_write(offset_bytes, gathered_bytes(bufs))?;
        self.calls.write_vectored(bufs, offset_bytes)
    }

    fn flush(&self) -> Result<()> {
        waiting::check();
        match self.access {
            Access::Read => Ok(()),
            Access::Write => retry(|| rustix::fs::fdatasync(&self.calls.fd))
                .map_err(|errno| Error::Flush(errno.into())),
        }
    }

    /// Punches a hole. Block devices support this too.
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        waiting::check();
        self.check_write(offset_bytes, len_bytes)?;
        if len_bytes == 0 {
            return Ok(true);
        }
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let at_bytes = self.calls.position_bytes(offset_bytes);
        match retry(|| rustix::fs::fallocate(&self.calls.fd, mode, at_bytes, len_bytes)) {
            Ok(()) => Ok(true),
            // EINVAL: the range is not aligned to the device's logical blocks.
            Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => Ok(false),
            Err(errno) => Err(write_error(offset_bytes, len_bytes, errno)),
        }
    }
}

/// Opens a regular file or block device.
fn open_file(path: &Path, access: Access, more: OFlags) -> Result<(OwnedFd, Stat)> {
    let failed = |source: io::Error| Error::Open {
        path: path.to_owned(),
        source,
    };
    let direction = match access {
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::RDWR,
    };
    // Without `O_NONBLOCK`, opening a FIFO would wait for a writer.
    let flags = direction | OFlags::CLOEXEC | OFlags::NONBLOCK | more;
    let open = |flags| retry(|| rustix::fs::open(path, flags, Mode::empty()));
    let file = open(flags).map_err(|errno| failed(errno.into()))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
    let (file, stat) = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice if access == Access::Write && is_read_only(stat.st_rdev) => {
            Err(failed(Errno::ROFS.into()))
        }
        // `O_EXCL` without `O_CREAT` is defined for block devices only. It makes open(2) fail if the device
        // is mounted.
        FileType::BlockDevice if access == Access::Write => match open(flags | OFlags::EXCL) {
            Ok(file) => Ok((file, stat)),
            Err(Errno::BUSY) => Err(Error::Locked {
                path: path.to_owned(),
                is_own: false,
            }),
            Err(errno) => Err(failed(errno.into())),
        },
        FileType::RegularFile | FileType::BlockDevice => Ok((file, stat)),
        FileType::Directory => Err(failed(Errno::ISDIR.into())),
        _ => Err(failed(io::Error::new(
            io::ErrorKind::InvalidInput,
            "neither a regular file nor a block device",
        ))),
    }?;
    // Clears `O_NONBLOCK`: with it, io_uring fails with `EAGAIN` on a file system that has to block.
    rustix::fs::fcntl_setfl(&file, more).map_err(|errno| failed(errno.into()))?;
    Ok((file, stat))
}

/// Returns true if the block device is read-only. The kernel may still allow opening it for writing.
fn is_read_only(device: rustix::fs::Dev) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let read_only = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
    read_only.is_ok_and(|text| text.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::MAX_BUFFERS;
    use larder_testkit::report_skipped;
    use rustix::fs::FlockOperation;
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

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
    fn read_of_truncated_file_fails() {
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
    fn file_locked_by_another_is_refused() {
        let file = file(10);
        let other = File::open(file.path()).unwrap();
        rustix::fs::flock(&other, FlockOperation::LockExclusive).unwrap();
        assert!(matches!(
            FileDevice::open(file.path(), FileRange::default()),
            Err(Error::Locked { .. })
        ));
        // A device without a lock neither needs nor changes the lock of another.
        let unlocked = FileDevice::open_unlocked(file.path(), FileRange::default()).unwrap();
        unlocked.read_at(&mut [0; 10], 0).unwrap();
        drop(unlocked);
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
    fn path_of_neither_file_nor_device_is_refused() {
        for path in ["/", "/dev/null", "/no/such/file"] {
            assert!(matches!(
                FileDevice::open(Path::new(path), FileRange::default()),
                Err(Error::Open { .. })
            ));
        }
    }

    fn writable(file: &tempfile::NamedTempFile, offset_bytes: u64) -> FileDevice {
        let range = FileRange {
            offset_bytes,
            size_bytes: None,
        };
        FileDevice::open_writable(file.path(), range).unwrap()
    }

    #[test]
    fn write_inside_part_of_file_changes_only_its_bytes() {
        let file = file(1000);
        let mut expected = std::fs::read(file.path()).unwrap();
        let device = writable(&file, 100);
        assert!(device.is_writable());
        device.write_at(&[7; 50], 20).unwrap();
        device.flush().unwrap();
        expected[120..170].fill(7);
        assert_eq!(std::fs::read(file.path()).unwrap(), expected);
        let mut buf = [0; 2];
        device.read_at(&mut buf, 69).unwrap();
        assert_eq!(buf, [7, 170]);
    }

    #[test]
    fn vectored_write_of_many_buffers_writes_all() {
        let file = file(10_000);
        let device = writable(&file, 0);
        let bytes: Vec<u8> = (0..9_000).map(|at| u8::try_from(at % 7).unwrap()).collect();
        let bufs: Vec<_> = bytes.chunks(3).map(IoSlice::new).collect();
        assert!(bufs.len() > MAX_BUFFERS);
        device.write_vectored_at(&bufs, 1_000).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap()[1_000..], bytes);
    }

    #[test]
    fn write_past_the_end_is_refused_and_file_keeps_its_size() {
        let file = file(1000);
        let device = writable(&file, 0);
        for offset_bytes in [999, 1000, u64::MAX] {
            assert!(matches!(
                device.write_at(&[1; 2], offset_bytes),
                Err(Error::OutOfRange { .. })
            ));
            assert!(matches!(
                device.discard(offset_bytes, 2),
                Err(Error::OutOfRange { .. })
            ));
        }
        assert_eq!(std::fs::metadata(file.path()).unwrap().len(), 1000);
    }

    #[test]
    fn write_after_the_end_of_a_growing_file_extends_it() {
        let file = file(1000);
        let device = FileDevice::open_growing(file.path(), 5000).unwrap();
        assert_eq!(device.size_bytes(), 5000);
        let mut buf = [1; 10];
        assert!(matches!(
            device.read_at(&mut buf, 995),
            Err(Error::Io { .. })
        ));
        device.write_at(&[7; 5], 2000).unwrap();
        device.read_at(&mut buf, 1995).unwrap();
        assert_eq!(buf, [0, 0, 0, 0, 0, 7, 7, 7, 7, 7]);
        assert_eq!(std::fs::metadata(file.path()).unwrap().len(), 2005);
        assert!(matches!(
            device.write_at(&[1; 2], 4999),
            Err(Error::OutOfRange { .. })
        ));
    }

    #[test]
    fn version_changes_with_the_size_or_the_time_of_modification() {
        let file = file(10);
        let version = || {
            let device = FileDevice::open(file.path(), FileRange::default()).unwrap();
            device.content_version().unwrap()
        };
        let first = version();
        assert_eq!(version(), first);
        let time = file.as_file().metadata().unwrap().modified().unwrap();
        file.as_file()
            .set_modified(time + Duration::from_nanos(1))
            .unwrap();
        let second = version();
        assert_ne!(second, first);
        file.as_file().set_len(11).unwrap();
        file.as_file().set_modified(time).unwrap();
        assert!(![first, second].contains(&version()));
    }

    #[test]
    fn device_opened_for_reading_refuses_writes() {
        let file = file(1000);
        let device = FileDevice::open(file.path(), FileRange::default()).unwrap();
        assert!(!device.is_writable());
        assert!(matches!(device.write_at(&[1], 0), Err(Error::ReadOnly)));
        let bufs = [IoSlice::new(&[1])];
        assert!(matches!(
            device.write_vectored_at(&bufs, 0),
            Err(Error::ReadOnly)
        ));
        assert!(matches!(device.discard(0, 1), Err(Error::ReadOnly)));
        device.flush().unwrap();
    }

    #[test]
    fn writer_excludes_readers_and_writers_until_closed() {
        let file = file(10);
        let open = || FileDevice::open_writable(file.path(), FileRange::default());
        let read = || FileDevice::open(file.path(), FileRange::default());
        let first = open().unwrap();
        assert!(matches!(open(), Err(Error::Locked { .. })));
        assert!(matches!(read(), Err(Error::Locked { .. })));
        drop(first);
        let reader = read().unwrap();
        assert!(matches!(open(), Err(Error::Locked { .. })));
        drop(reader);
        open().unwrap();
    }

    #[test]
    fn lock_ends_with_the_device_although_a_child_process_shares_the_file() {
        let file = file(10);
        let open = || FileDevice::open_writable(file.path(), FileRange::default());
        let device = open().unwrap();
        // As after fork(2), a second descriptor refers to the same open file.
        let shared = device.calls.fd.try_clone().unwrap();
        drop(device);
        open().unwrap();
        drop(shared);
    }

    #[test]
    fn failed_write_of_host_is_a_write_error() {
        let Ok(full) = File::options().write(true).open("/dev/full") else {
            return report_skipped("no /dev/full");
        };
        let file = Arc::new(OwnedFd::from(full).into());
        let device = FileDevice::new(&file, Access::Write, 0, 1 << 20, true);
        let error = device.write_at(&[1; 512], 4096).unwrap_err();
        let Error::Write {
            offset_bytes: 4096,
            len_bytes: 512,
            source,
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn discard_frees_space_and_keeps_the_size() {
        let file = file(1 << 20);
        file.as_file().sync_all().unwrap();
        let before = file.as_file().metadata().unwrap().blocks();
        let device = writable(&file, 0);
        if !device.discard(4096, (1 << 20) - 8192).unwrap() {
            return report_skipped("the file system cannot punch holes");
        }
        let metadata = file.as_file().metadata().unwrap();
        assert_eq!(metadata.len(), 1 << 20);
        assert!(metadata.blocks() < before);
        let mut buf = [1; 2];
        device.read_at(&mut buf, 4095).unwrap();
        assert_eq!(buf, [u8::try_from(4095 % 251).unwrap(), 0]);
    }
}
