//! The directory of the cache files: their names, locks and total size. [`super`] describes the locks and
//! the limit.

use super::error::{Error, Result};
use super::header::{HEADER_BYTES, Header, is_file_name, is_obsolete_file_name};
use super::identity::Identity;
use super::record::{RECORD_BYTES, RECORD_OFFSET_BYTES, Record};
use super::units::{ALIGN_BYTES, Storage, UNIT_BYTES};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Statx, StatxFlags, Timespec, Timestamps,
};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The name of the file that is locked while files are opened, created, listed or removed, and while records are
/// written.
const LOCK_NAME: &str = "lock";

/// The pause between two attempts to lock a directory that another process has locked.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// The largest size that a stored unit adds to a file: the unit and a page of the map.
pub(super) const UNIT_COST_BYTES: u64 = (UNIT_BYTES + ALIGN_BYTES) as u64;

/// The limit divided by this number is the spare part, for which no allowance is given.
const SPARE_DIVISOR: u64 = 16;

/// The limit divided by this number is the largest allowance, but at least [`UNIT_COST_BYTES`] and at most
/// [`MAX_ALLOWANCE_BYTES`]. The spare part is enough for the allowances of 16 objects, unless the limit is so
/// small that each allowance is [`UNIT_COST_BYTES`].
const ALLOWANCE_DIVISOR: u64 = 256;

/// The largest allowance, however large the limit is.
const MAX_ALLOWANCE_BYTES: u64 = 16 << 20;

const OPEN_FLAGS: OFlags = OFlags::NOFOLLOW
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// A cache file as [`CacheDir::list`](super::CacheDir::list) reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectInfo {
    /// The label that the file was created with, without control characters. `None` if the header is
    /// damaged: the file will be replaced when its object is opened.
    pub label: Option<String>,
    /// The size of the object, or `None` if the header is damaged.
    pub size_bytes: Option<u64>,
    /// The size that the file takes on the disk, in bytes.
    pub stored_bytes: u64,
    /// When the file was last opened, written or closed.
    pub last_use: SystemTime,
    /// Whether the object is open. Its file is then not removed.
    pub is_in_use: bool,
}

impl ObjectInfo {
    /// Describes a file that is not in use, and whose header is damaged.
    #[must_use]
    pub const fn new(stored_bytes: u64, last_use: SystemTime) -> Self {
        Self {
            label: None,
            size_bytes: None,
            stored_bytes,
            last_use,
            is_in_use: false,
        }
    }
}

/// What was removed from a cache, and what is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// The number of removed files.
    pub files: u64,
    /// The size that they took on the disk, in bytes.
    pub bytes: u64,
    /// The size that the remaining files take, in bytes. It can exceed the requested maximum if files are in
    /// use.
    pub left_bytes: u64,
}

/// How to wait for a lock that another process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Wait until the lock is free, up to the limit of the directory.
    Block,
    /// Do not wait: skip the work that needs the lock.
    Skip,
}

/// An open directory of cache files.
#[derive(Debug)]
pub(super) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    max_bytes: u64,
    /// The maximum time to wait for the lock.
    lock_timeout: Duration,
}

/// A cache file that was found in the directory.
struct Found {
    last_use: SystemTime,
    name: String,
    stored_bytes: u64,
}

impl Directory {
    /// Opens the directory at `path`, and creates it if it does not exist. The last component of the path
    /// must not be a symbolic link.
    pub(super) fn open(path: &Path, max_bytes: u64, lock_timeout: Duration) -> Result<Self> {
        let failed = |source| Error::Directory {
            path: path.to_owned(),
            source,
        };
        // Remove a slash at the end: with it, open(2) would follow a symbolic link.
        let last: PathBuf = path.components().collect();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&last)
            .map_err(failed)?;
        let flags = OPEN_FLAGS | OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = rustix::fs::open(&last, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        let stat = status(&fd, "").map_err(|e| failed(e.into()))?;
        let path = path.to_owned();
        if stat.stx_uid != rustix::process::geteuid().as_raw() {
            let uid = stat.stx_uid;
            return Err(Error::OtherOwner { path, uid });
        }
        let mode = stat.stx_mode & 0o7777;
        if mode & 0o022 != 0 {
            return Err(Error::WritableByOthers { path, mode });
        }
        Ok(Self {
            fd,
            path,
            max_bytes,
            lock_timeout,
        })
    }

    /// Opens the file of `header`, of `file_bytes`, and marks it as in use. Creates it if it does not exist,
    /// and replaces a file that is damaged.
    pub(super) fn open_object(&self, header: &Header, file_bytes: u64) -> Result<File> {
        let name = header.file_name();
        let _lock = self.lock(Wait::Block)?;
        self.open_locked(header, &name, file_bytes)
            .map_err(|source| self.file_error(&name, source))
    }

    fn open_locked(&self, header: &Header, name: &str, file_bytes: u64) -> io::Result<File> {
        let file = match self.open_existing(header, name, file_bytes)? {
            Some(file) => file,
            None => self.create(header, name, file_bytes)?,
        };
        // Fails only if another program locks the file.
        lock_file(&file, FlockOperation::NonBlockingLockShared)?;
        mark_as_used(&file)?;
        Ok(file)
    }

    /// Returns the file of `header`, or `None` if it does not exist or is damaged.
    fn open_existing(
        &self,
        header: &Header,
        name: &str,
        file_bytes: u64,
    ) -> io::Result<Option<File>> {
        let file = match self.open_file(name) {
            Ok(file) => file,
            // A symbolic link is not followed.
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let stat = status(&file, "")?;
        let is_complete = file_type(&stat) == FileType::RegularFile && stat.stx_size == file_bytes;
        let is_valid = is_complete && read_header(&file).is_some_and(|found| found.is_for(header));
        Ok(is_valid.then_some(file))
    }

    /// Creates the file of `header` without units, in place of any other file.
    fn create(&self, header: &Header, name: &str, file_bytes: u64) -> io::Result<File> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OPEN_FLAGS | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = File::from(rustix::fs::openat(&self.fd, name, flags, mode)?);
        file.set_len(file_bytes)?;
        file.write_at(&header.to_bytes(), 0)?;
        Ok(file)
    }

    /// Returns the version that a server has confirmed last, among the cached versions of the object of
    /// `identity`. Ignores the version in `identity`.
    pub(super) fn last_version(&self, identity: &Identity<'_>) -> Result<Option<String>> {
        let _lock = self.lock(Wait::Block)?;
        let confirmed = |found: Found| {
            let file = self.open_file(&found.name).ok()?;
            let (header, record) = (read_header(&file)?, read_record(&file)?);
            let version = record.version_at(identity, header.size_bytes, &header.digest)?;
            Some((record.confirmed_ns, version.to_owned()))
        };
        let versions = self.scan()?.into_iter().filter_map(confirmed);
        let last = versions.filter(|(confirmed_ns, _)| *confirmed_ns > 0).max();
        Ok(last.map(|(_, version)| version))
    }

    /// Changes the record of `file`, the open cache file of `identity`.
    pub(super) fn change_record(
        &self,
        file: &File,
        identity: &Identity<'_>,
        change: impl FnOnce(&mut Record),
    ) -> Result<()> {
        let _lock = self.lock(Wait::Block)?;
        let existing = read_record(file).filter(|record| record.is_for(identity));
        let Some(mut record) = existing.or_else(|| Record::new(identity)) else {
            return Ok(());
        };
        change(&mut record);
        let written = file.write_at(&record.to_bytes(), RECORD_OFFSET_BYTES);
        written.map_err(|source| Error::Directory {
            path: self.path.clone(),
            source,
        })
    }

    /// Returns the part of the limit that can be allowed and that the files in use do not take.
    pub(super) fn room_bytes(&self) -> Result<u64> {
        let files = self.list()?.into_iter();
        let in_use = files.filter(|file| file.is_in_use);
        let in_use_bytes: u64 = in_use.map(|file| file.stored_bytes).sum();
        Ok(self.limit_bytes().saturating_sub(in_use_bytes))
    }

    /// Returns the part of the limit that can be allowed.
    fn limit_bytes(&self) -> u64 {
        self.max_bytes - self.max_bytes / SPARE_DIVISOR
    }

    /// Returns how many bytes may be written to `file` before this is called again. Evicts files if
    /// necessary. `wait` is for the lock of the directory, which is needed to evict a file.
    pub(super) fn allowance_bytes(&self, file: &File, wait: Wait) -> Result<u64> {
        let stat = status(file, "").map_err(|e| self.error(e))?;
        if stat.stx_nlink == 0 {
            let path = self.path.clone();
            return Err(Error::Unlinked { path });
        }
        let limit_bytes = self.limit_bytes();
        let step_bytes =
            (self.max_bytes / ALLOWANCE_DIVISOR).clamp(UNIT_COST_BYTES, MAX_ALLOWANCE_BYTES);
        let removed = self.shrink(limit_bytes.saturating_sub(step_bytes), wait)?;
        Ok(limit_bytes
            .saturating_sub(removed.left_bytes)
            .min(step_bytes))
    }

    /// Removes files that are not in use, least recently used first, until all files take at most
    /// `max_bytes`.
    pub(super) fn shrink(&self, max_bytes: u64, wait: Wait) -> Result<Removed> {
        let found = self.scan()?;
        let mut removed = Removed {
            left_bytes: found.iter().map(|file| file.stored_bytes).sum(),
            ..Removed::default()
        };
        for file in found {
            if removed.left_bytes <= max_bytes {
                break;
            }
            if self.remove(&file.name, wait)? {
                removed.files += 1;
                removed.bytes += file.stored_bytes;
                removed.left_bytes -= file.stored_bytes;
            }
        }
        Ok(removed)
    }

    /// Removes a file. Returns false if the file is in use or cannot be opened, or if the directory cannot be
    /// locked.
    fn remove(&self, name: &str, wait: Wait) -> Result<bool> {
        let Some(lock) = self.lock(wait)? else {
            return Ok(false);
        };
        let Ok(file) = self.open_file(name) else {
            return Ok(false);
        };
        if !is_idle(&file) {
            return Ok(false);
        }
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())
            .map_err(|errno| self.file_error(name, errno.into()))?;
        // Unlock the directory first: closing the file frees its blocks, which can take long.
        drop(lock);
        drop(file);
        Ok(true)
    }

    /// Returns what the directory contains, least recently used first.
    pub(super) fn list(&self) -> Result<Vec<ObjectInfo>> {
        let _lock = self.lock(Wait::Block)?;
        let info = |found: Found| {
            let file = self.open_file(&found.name).ok();
            let header = file.as_ref().and_then(read_header);
            ObjectInfo {
                size_bytes: header.as_ref().map(|header| header.size_bytes),
                label: header.map(Header::into_label),
                is_in_use: file.is_some_and(|file| !is_idle(&file)),
                ..ObjectInfo::new(found.stored_bytes, found.last_use)
            }
        };
        Ok(self.scan()?.into_iter().map(info).collect())
    }

    /// Returns the regular files with names of cache files, least recently used first. Removes the files that only
    /// earlier versions of Larder used.
    fn scan(&self) -> Result<Vec<Found>> {
        let mut files = Vec::new();
        let entries = rustix::fs::Dir::read_from(&self.fd).map_err(|e| self.error(e))?;
        for entry in entries {
            let entry = entry.map_err(|e| self.error(e))?;
            let name = entry.file_name();
            if is_obsolete_file_name(name.to_bytes()) {
                // If this fails, the next scan tries again.
                let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
            }
            if !is_file_name(name.to_bytes()) {
                continue;
            }
            let stat = match status(&self.fd, name) {
                Ok(stat) => stat,
                // Another process removed it.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(self.error(errno)),
            };
            if file_type(&stat) == FileType::RegularFile {
                files.push(Found {
                    last_use: modified(&stat),
                    name: name.to_string_lossy().into_owned(),
                    stored_bytes: stat.stx_blocks.saturating_mul(512),
                });
            }
        }
        files.sort_by(|a, b| (a.last_use, &a.name).cmp(&(b.last_use, &b.name)));
        Ok(files)
    }

    /// Locks the directory until the result is dropped. Returns `None` if another process holds the lock
    /// and `wait` is [`Wait::Skip`].
    pub(super) fn lock(&self, wait: Wait) -> Result<Option<Lock>> {
        let flags = OPEN_FLAGS | OFlags::RDWR | OFlags::CREATE;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = rustix::fs::openat(&self.fd, LOCK_NAME, flags, mode).map_err(|e| self.error(e))?;
        let start = Instant::now();
        loop {
            match lock_file(&fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Lock(fd))),
                Err(Errno::WOULDBLOCK) if wait == Wait::Skip => return Ok(None),
                Err(Errno::WOULDBLOCK) if start.elapsed() < self.lock_timeout => {
                    thread::sleep(LOCK_INTERVAL);
                }
                Err(Errno::WOULDBLOCK) => {
                    let path = self.path.join(LOCK_NAME);
                    return Err(Error::Locked { path });
                }
                Err(errno) => return Err(self.error(errno)),
            }
        }
    }

    fn open_file(&self, name: &str) -> rustix::io::Result<File> {
        let flags = OPEN_FLAGS | OFlags::RDWR;
        rustix::fs::openat(&self.fd, name, flags, Mode::empty()).map(File::from)
    }

    fn error(&self, errno: Errno) -> Error {
        Error::Directory {
            path: self.path.clone(),
            source: errno.into(),
        }
    }

    pub(super) fn file_error(&self, name: &str, source: io::Error) -> Error {
        Error::File {
            path: self.path.join(name),
            source,
        }
    }
}

/// A locked file. Dropping this unlocks it.
///
/// Closing the file would not be enough: a child process that was just started shares the open file, and the
/// lock, until it executes its program.
#[derive(Debug)]
pub(super) struct Lock(OwnedFd);

impl Drop for Lock {
    fn drop(&mut self) {
        unlock(&self.0);
    }
}

/// Ends the use of a file that [`Directory::open_object`] returned.
pub(super) fn end_use(file: &File) {
    // A failure affects only the order of eviction.
    let _ = mark_as_used(file);
    unlock(file);
}

fn unlock(fd: impl AsFd) {
    // The file may be on a file system without locks.
    let _ = lock_file(fd, FlockOperation::Unlock);
}

/// Locks or unlocks a file. A file system without locks counts as success.
fn lock_file(fd: impl AsFd, operation: FlockOperation) -> rustix::io::Result<()> {
    let fd = fd.as_fd();
    match rustix::io::retry_on_intr(|| rustix::fs::flock(fd, operation)) {
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK) => Ok(()),
        result => result,
    }
}

/// Locks `file` exclusively until it is closed, if no object of `file` is open. Returns false if one is open.
fn is_idle(file: &File) -> bool {
    lock_file(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Returns whether no other object of `file` is open. Must be called under the lock of the directory, while an object
/// of `file` is open.
pub(super) fn is_only_user(file: &File) -> bool {
    // A file system without locks does not show other users.
    let locked = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    // A failed attempt has removed the lock of this object, too. No other process locks the file exclusively meanwhile,
    // because that needs the lock of the directory.
    let _ = lock_file(file, FlockOperation::NonBlockingLockShared);
    locked.is_ok()
}

/// Sets the time of the last use to now.
fn mark_as_used(file: &File) -> rustix::io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    rustix::fs::futimens(file, &times)
}

fn read_header(file: &File) -> Option<Header> {
    let mut bytes = [0; HEADER_BYTES];
    file.read_at(&mut bytes, 0).ok()?;
    Header::parse(&bytes)
}

/// Returns the record of an open file, unless it is damaged or was never written.
pub(super) fn read_record(file: &File) -> Option<Record> {
    let mut bytes = [0; RECORD_BYTES];
    file.read_at(&mut bytes, RECORD_OFFSET_BYTES).ok()?;
    Record::parse(&bytes)
}

/// Returns the status of `name` in a directory, or of an open file if `name` is empty.
fn status(fd: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::statx(fd, name, flags, StatxFlags::BASIC_STATS)
}

fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

fn modified(stat: &Statx) -> SystemTime {
    let seconds = u64::try_from(stat.stx_mtime.tv_sec).unwrap_or(0);
    let since_epoch = Duration::new(seconds, stat.stx_mtime.tv_nsec);
    SystemTime::UNIX_EPOCH
        .checked_add(since_epoch)
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
