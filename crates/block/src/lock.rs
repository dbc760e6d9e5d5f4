//! Locks on images, which prevent one process from changing an image while another uses it.
//!
//! Model: flock(2) on the image, shared for reading and exclusive for writing. The lock ends when the device
//! that owns it is dropped and none of its requests is in flight, or when the process ends in any way. The lock is
//! advisory: losetup, the kernel's mount, e2fsck and qemu ignore it.

use crate::retry::retry;
use crate::{Error, Result};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use std::fs;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The smallest block size of any device.
pub(crate) const SECTOR_BYTES: usize = 512;

/// The kind of access for which an image is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading. Other readers are allowed.
    Read,
    /// Reading and writing, with exclusive access.
    Write,
}

/// A process that has locked a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// Its process ID.
    pub pid: u32,
    /// The name of its program, or empty if unknown.
    pub name: String,
}

impl LockHolder {
    /// Describes the process with the ID `pid`, whose program has the name `name`.
    #[must_use]
    pub const fn new(pid: u32, name: String) -> Self {
        Self { pid, name }
    }
}

/// An open file, which may be locked. Dropping this unlocks it.
///
/// The requests in flight share this file with their device. Otherwise, a write that is late could change an image
/// after another process has locked it.
///
/// Closing the file would not be enough: a child process that was just started shares the open file, and the
/// lock, until it executes its program.
#[derive(Debug)]
pub(crate) struct LockableFile(OwnedFd);

impl LockableFile {
    /// Returns whether a read that returned `len` bytes, which are fewer than requested, has reached the end of the
    /// file. Then the read must not be continued: direct I/O requires an aligned position. Without direct I/O, the next
    /// read finds the end, so this returns false.
    pub(crate) fn ends_after(&self, len: usize) -> bool {
        // Before the end of the file, direct I/O returns only whole sectors.
        !len.is_multiple_of(SECTOR_BYTES)
            && rustix::fs::fcntl_getfl(self).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
    }

    /// Locks the file, which was opened at `path`.
    pub(crate) fn lock(&self, path: &Path, access: Access) -> Result<()> {
        let operation = match access {
            Access::Read => FlockOperation::NonBlockingLockShared,
            Access::Write => FlockOperation::NonBlockingLockExclusive,
        };
        match retry(|| rustix::fs::flock(self, operation)) {
            Err(Errno::WOULDBLOCK) => {
                let holder = lock_holder(path);
                Err(Error::Locked {
                    path: path.to_owned(),
                    is_own: holder.is_some_and(|holder| holder.pid == std::process::id()),
                })
            }
            // Some network and user-space file systems do not support locks.
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK) => Ok(()),
            Err(errno) => Err(Error::Open {
                path: path.to_owned(),
                source: errno.into(),
            }),
        }
    }
}

impl From<OwnedFd> for LockableFile {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Deref for LockableFile {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.0
    }
}

impl AsFd for LockableFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for LockableFile {
    fn drop(&mut self) {
        // This fails if the file is on a file system without locks.
        let _ = retry(|| rustix::fs::flock(&self.0, FlockOperation::Unlock));
    }
}

/// Returns a process that has locked the file at `path`, or `None` if `/proc/locks` shows none.
#[must_use]
pub fn lock_holder(path: &Path) -> Option<LockHolder> {
    let metadata = fs::metadata(path).ok()?;
    let device = (
        rustix::fs::major(metadata.dev()),
        rustix::fs::minor(metadata.dev()),
    );
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locks
        .lines()
        .find_map(|line| holder_in(line, device, metadata.ino()))?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = command.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = program
        .rsplit(|&byte| byte == b'/')
        .next()
        .unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    Some(LockHolder::new(pid, name))
}

/// Parses a line of `/proc/locks`, such as `7: FLOCK ADVISORY WRITE 1234 08:02:131 0 EOF`. The device number
/// in it is hexadecimal. Returns the process ID if the line is about the file `ino` on `device`. Returns
/// `None` if the ID is 0, which means that the process is in another PID namespace.
fn holder_in(line: &str, device: (u32, u32), ino: u64) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    if fields.next()? != "FLOCK" {
        return None;
    }
    let pid = fields.nth(2)?.parse().ok()?;
    let mut place = fields.next()?.split(':');
    let mut hexadecimal = || u32::from_str_radix(place.next()?, 16).ok();
    let is_same = (hexadecimal()?, hexadecimal()?) == device && place.next()?.parse() == Ok(ino);
    (is_same && pid > 0).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileDevice, FileRange};

    #[test]
    fn line_about_another_file_has_no_holder() {
        let line = "7: FLOCK  ADVISORY  WRITE 1234 fd:0a:131 0 EOF";
        assert_eq!(holder_in(line, (0xfd, 10), 131), Some(1234));
        assert_eq!(holder_in(line, (0xfd, 10), 132), None);
        assert_eq!(holder_in(line, (0xfd, 11), 131), None);
        for other in [
            "7: POSIX  ADVISORY  WRITE 1234 fd:0a:131 0 EOF",
            "7: -> FLOCK  ADVISORY  WRITE 1234 fd:0a:131 0 EOF",
            "7: FLOCK  ADVISORY  WRITE 0 fd:0a:131 0 EOF",
            "7: FLOCK  ADVISORY  WRITE 1234 x:0a:131",
            "",
        ] {
            assert_eq!(holder_in(other, (0xfd, 10), 131), None, "{other:?}");
        }
    }

    #[test]
    fn process_that_writes_an_image_is_its_holder() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let device = FileDevice::open_writable(file.path(), FileRange::default()).unwrap();
        let refused = FileDevice::open(file.path(), FileRange::default()).unwrap_err();
        // On some file systems, the device number from stat(2) differs from that in `/proc/locks`.
        if let Some(holder) = lock_holder(file.path()) {
            assert_eq!(holder.pid, std::process::id());
            let refused = refused.to_string();
            assert!(
                refused.ends_with("is already open in this process"),
                "{refused}"
            );
        }
        drop(device);
        assert_eq!(lock_holder(file.path()), None);
    }
}
