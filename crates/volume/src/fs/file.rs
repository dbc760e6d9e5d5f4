//! A handle of an open regular file, with a position.
//!
//! Model: `struct file`. A read or write at the position holds a lock on the position, like
//! `f_pos_lock`, so that threads which share a handle do not read the same bytes twice. Reads and
//! writes at an offset do not use this lock. The volume determines the offset of an append.

use crate::{
    Advice, ChangedBy, Errno, Error, Ino, Metadata, OpenFile, SetAttributes, SetTime, Volume,
};
use parking_lot::Mutex;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The operations that a handle permits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) append: bool,
}

/// An open regular file, like [`std::fs::File`].
///
/// The file stays readable and writable after its last name is removed. It is deleted when its last
/// handle is dropped. Each handle has its own readahead. All methods take `&self`, and `Read`,
/// `Write` and `Seek` are implemented for `&File`, too. [`FileExt`] has further methods, such as
/// `read_exact_at`.
///
/// A drop does not make changes durable: call [`File::sync_all`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let image = dir.path().join("disk.img");
/// # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
/// use std::io::{Read, Seek, SeekFrom, Write};
///
/// let fs = larder::OpenOptions::new().read_write(true).open(&image)?;
/// let mut file = fs.create("/data")?;
/// file.write_all(b"0123456789")?;
/// file.sync_all()?;
///
/// let mut file = fs.open("/data")?;
/// fs.remove_file("/data")?;
/// file.seek(SeekFrom::Start(8))?;
/// let mut rest = String::new();
/// file.read_to_string(&mut rest)?;
/// assert_eq!(rest, "89");
///
/// let mut buf = [0; 2];
/// file.read_at(&mut buf, 3)?;
/// assert_eq!(&buf, b"34");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct File {
    // Dropped before `volume`: a file without names is then deleted while the volume is open.
    open: OpenFile,
    volume: Arc<Volume>,
    access: Access,
    position_bytes: Mutex<u64>,
}

impl File {
    pub(super) fn new(volume: &Arc<Volume>, open: OpenFile, access: Access) -> Self {
        Self {
            open,
            volume: Arc::clone(volume),
            access,
            position_bytes: Mutex::new(0),
        }
    }

    /// Returns the inode number.
    #[must_use]
    pub fn ino(&self) -> Ino {
        self.open.ino()
    }

    /// Returns the attributes of the file.
    ///
    /// # Errors
    /// An error of the image.
    pub fn metadata(&self) -> io::Result<Metadata> {
        Ok(self.volume.metadata(self.ino())?)
    }

    /// Reads from `offset_bytes` into `buf`. Returns the number of bytes read, which is less than
    /// the length of `buf` only at the end of the file.
    ///
    /// # Errors
    /// `EBADF` if the file is not open for reading, `EINVAL` if the offset is greater than `i64::MAX`, or an
    /// error of the image.
    #[inline]
    pub fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        if !self.access.read {
            return Err(Error::Errno(Errno::BADF).into());
        }
        if i64::try_from(offset_bytes).is_err() {
            return Err(Error::Errno(Errno::INVAL).into());
        }
        Ok(self.open.read_at(buf, offset_bytes)?)
    }

    /// Writes `buf` at `offset_bytes`, or at the end of the file if the handle appends. Returns the
    /// number of bytes written, which can be less than the length of `buf`.
    ///
    /// # Errors
    /// `EBADF` if the file is not open for writing, or an error of [`Volume::write_at`].
    pub fn write_at(&self, buf: &[u8], offset_bytes: u64) -> io::Result<usize> {
        self.write_from(buf, &mut { offset_bytes })
    }

    /// Writes `buf` at `position_bytes`, or at the end of the file if the handle appends. Moves
    /// `position_bytes` to the end of the write.
    fn write_from(&self, buf: &[u8], position_bytes: &mut u64) -> io::Result<usize> {
        if !self.access.write {
            return Err(Error::Errno(Errno::BADF).into());
        }
        if buf.is_empty() {
            return Ok(0);
        }
        let ino = self.ino();
        self.volume.remove_privileges(ino, ChangedBy::Privileged)?;
        let len = if self.access.append {
            let (offset_bytes, len) = self.volume.append(ino, buf)?;
            *position_bytes = offset_bytes;
            len
        } else {
            self.volume.write_at(ino, buf, *position_bytes)?
        };
        *position_bytes += len as u64;
        Ok(len)
    }

    fn read_from(&self, buf: &mut [u8], position_bytes: &mut u64) -> io::Result<usize> {
        let len = self.read_at(buf, *position_bytes)?;
        *position_bytes += len as u64;
        Ok(len)
    }

    fn seek_from(&self, to: SeekFrom, position_bytes: &mut u64) -> io::Result<u64> {
        let (base_bytes, distance) = match to {
            SeekFrom::Start(offset_bytes) => (offset_bytes, 0),
            SeekFrom::End(distance) => (self.open.size_bytes(), distance),
            SeekFrom::Current(distance) => (*position_bytes, distance),
        };
        let target = base_bytes.checked_add_signed(distance);
        let target = target.filter(|target| i64::try_from(*target).is_ok());
        *position_bytes = target.ok_or(Error::Errno(Errno::INVAL))?;
        Ok(*position_bytes)
    }

    /// Makes the content and the attributes durable, like fsync(2).
    ///
    /// # Errors
    /// The same as for [`Volume::sync_file`].
    pub fn sync_all(&self) -> io::Result<()> {
        Ok(self.volume.sync_file(self.ino(), false)?)
    }

    /// Makes the content durable, like fdatasync(2).
    ///
    /// # Errors
    /// The same as for [`Volume::sync_file`].
    pub fn sync_data(&self) -> io::Result<()> {
        Ok(self.volume.sync_file(self.ino(), true)?)
    }

    /// Sets the size in bytes. A part that is added reads as zeros.
    ///
    /// # Errors
    /// `InvalidInput` if the file is not open for writing, or an error of
    /// [`Volume::set_attributes`].
    pub fn set_len(&self, size_bytes: u64) -> io::Result<()> {
        if !self.access.write || i64::try_from(size_bytes).is_err() {
            return Err(Error::Errno(Errno::INVAL).into());
        }
        self.set(&SetAttributes {
            size_bytes: Some(size_bytes),
            ..SetAttributes::default()
        })
    }

    /// Sets the permission, set-id and sticky bits.
    ///
    /// # Errors
    /// An error of [`Volume::set_attributes`].
    pub fn set_permissions(&self, permissions: u16) -> io::Result<()> {
        self.set(&SetAttributes {
            permissions: Some(permissions),
            ..SetAttributes::default()
        })
    }

    /// Sets the times of the last access and of the last change of the content. `None` leaves a time
    /// unchanged.
    ///
    /// # Errors
    /// An error of [`Volume::set_attributes`].
    pub fn set_times(
        &self,
        accessed: Option<SetTime>,
        modified: Option<SetTime>,
    ) -> io::Result<()> {
        self.set(&SetAttributes {
            atime: accessed,
            mtime: modified,
            ..SetAttributes::default()
        })
    }

    fn set(&self, set: &SetAttributes) -> io::Result<()> {
        self.volume.set_attributes(self.ino(), set)?;
        Ok(())
    }

    /// Announces how the bytes of `range` will be used, like [`OpenFile::advise`].
    pub fn advise(&self, range: Range<u64>, advice: Advice) {
        self.open.advise(range, advice);
    }
}

impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        File::read_at(self, buf, offset_bytes)
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> io::Result<usize> {
        File::write_at(self, buf, offset_bytes)
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_from(buf, &mut self.position_bytes.lock())
    }
}

impl Write for &File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_from(buf, &mut self.position_bytes.lock())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.seek_from(to, &mut self.position_bytes.lock())
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}
