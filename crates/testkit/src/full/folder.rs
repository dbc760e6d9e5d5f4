//! A mount, used through system calls as by other programs.

use super::target::SLACK_CLUSTERS;
use super::{FILES, FileNo, Limits, Target};
use crate::mount::{Access, LoopMount};
use larder::Fallocate;
use rustix::fs::{
    Advice, CWD, FallocateFlags, Mode, OFlags, copy_file_range, fadvise, fallocate, fstat, fsync,
    ftruncate, openat, statvfs, syncfs, unlink,
};
use rustix::io::{Errno, Result, pread, pwrite};
use std::fmt::Debug;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The alignment of addresses, offsets and lengths of direct writes.
const DIRECT_BYTES: usize = 4096;

/// The slack of the kernel's ext4. The kernel refuses a write if its first folio does not fit, and a folio
/// may be as large as the write.
const KERNEL_SLACK_BYTES: u64 = 3 << 19;

/// The time limit within which a removed file must be deleted. Allows for a loaded machine.
const DELETES_WITHIN: Duration = Duration::from_secs(20);

/// A mount that can be remounted.
pub trait Mount: Debug {
    /// As [`Target::slack_bytes`].
    fn slack_bytes(&self, cluster_bytes: u64) -> u64 {
        SLACK_CLUSTERS * cluster_bytes
    }

    /// Returns the root directory.
    fn path(&self) -> PathBuf;

    /// Unmounts, so that the image is clean, and mounts again.
    ///
    /// # Errors
    /// Returns the reason for a failure.
    fn remount(&mut self) -> std::result::Result<(), String>;
}

/// The kernel's own mount of an image.
#[derive(Debug)]
pub struct KernelMount {
    image: PathBuf,
    options: &'static [&'static str],
    mount: Option<LoopMount>,
}

impl KernelMount {
    /// Mounts `image` for writing. `limits` are the properties of the image. Without extents, delayed
    /// allocation is disabled, because the kernel reserves no space for indirect blocks: with delayed
    /// allocation, it would lose content that it has accepted.
    ///
    /// # Errors
    /// Returns the kernel's reason for a failure.
    pub fn new(image: &Path, limits: Limits) -> std::result::Result<Self, String> {
        let mut mount = Self {
            image: image.to_owned(),
            options: if limits.extents { &[] } else { &["nodelalloc"] },
            mount: None,
        };
        mount.remount()?;
        Ok(mount)
    }
}

impl Mount for KernelMount {
    fn slack_bytes(&self, _: u64) -> u64 {
        KERNEL_SLACK_BYTES
    }

    fn path(&self) -> PathBuf {
        self.mount.as_ref().map(LoopMount::path).unwrap_or_default()
    }

    fn remount(&mut self) -> std::result::Result<(), String> {
        if let Some(mount) = self.mount.take() {
            mount.sync().map_err(|error| error.to_string())?;
        }
        let mount = LoopMount::new(&self.image, Access::ReadWrite, self.options);
        self.mount = Some(mount.map_err(|error| error.to_string())?);
        Ok(())
    }
}

/// The files of a mount's root directory.
#[derive(Debug)]
pub struct Folder<M> {
    // Dropped in this order: open files keep a mount busy.
    files: [Option<File>; FILES.len()],
    mount: M,
}

impl<M: Mount> Folder<M> {
    /// Opens the existing files of the mount.
    ///
    /// # Errors
    /// Fails if one cannot be opened.
    pub fn new(mount: M) -> std::result::Result<Self, String> {
        let mut folder = Self {
            files: Default::default(),
            mount,
        };
        folder.open_all()?;
        Ok(folder)
    }

    fn open_all(&mut self) -> std::result::Result<(), String> {
        for file in FILES {
            match self.open(file, OFlags::RDWR) {
                Ok(open) => self.files[file.index()] = Some(open),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(format!("cannot open {file:?}: {error}")),
            }
        }
        Ok(())
    }

    fn path(&self, file: FileNo) -> PathBuf {
        self.mount.path().join(file.name())
    }

    fn open(&self, file: FileNo, flags: OFlags) -> Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        let open = openat(CWD, self.path(file), flags, Mode::from_raw_mode(0o644))?;
        Ok(open.into())
    }

    fn file(&self, file: FileNo) -> Result<&File> {
        self.files[file.index()].as_ref().ok_or(Errno::BADF)
    }
}

impl<M: Mount> Target for Folder<M> {
    fn slack_bytes(&self, cluster_bytes: u64) -> u64 {
        self.mount.slack_bytes(cluster_bytes)
    }

    fn create(&mut self, file: FileNo) -> Result<()> {
        let made = self.open(file, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        self.files[file.index()] = Some(made);
        Ok(())
    }

    /// Waits until the file is deleted. On a FUSE mount, the server deletes a file when it receives the
    /// kernel's FORGET, which can be after later requests.
    fn remove(&mut self, file: FileNo) -> Result<()> {
        let free_inodes = |mount: &M| statvfs(mount.path()).map(|space| space.f_ffree);
        let before = free_inodes(&self.mount)?;
        self.files[file.index()] = None;
        unlink(self.path(file))?;
        let start = Instant::now();
        while free_inodes(&self.mount)? <= before {
            if start.elapsed() >= DELETES_WITHIN {
                return Err(Errno::TIMEDOUT);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn write(&self, file: FileNo, buf: &[u8], offset_bytes: u64, direct: bool) -> Result<usize> {
        if !direct {
            return pwrite(self.file(file)?, buf, offset_bytes);
        }
        let past_cache = self.open(file, OFlags::WRONLY | OFlags::DIRECT)?;
        let mut room = vec![0; buf.len() + DIRECT_BYTES];
        let start = room.as_ptr().align_offset(DIRECT_BYTES);
        let aligned = &mut room[start..start + buf.len()];
        aligned.copy_from_slice(buf);
        pwrite(past_cache, aligned, offset_bytes)
    }

    fn truncate(&self, file: FileNo, size_bytes: u64) -> Result<()> {
        ftruncate(self.file(file)?, size_bytes)
    }

    fn range(&self, file: FileNo, mode: Fallocate, offset_bytes: u64, len: u64) -> Result<()> {
        let keep = |keep_size| {
            if keep_size {
                FallocateFlags::KEEP_SIZE
            } else {
                FallocateFlags::empty()
            }
        };
        let flags = match mode {
            Fallocate::Allocate { keep_size } => keep(keep_size),
            Fallocate::PunchHole => FallocateFlags::PUNCH_HOLE | keep(true),
            Fallocate::ZeroRange { keep_size } => FallocateFlags::ZERO_RANGE | keep(keep_size),
            Fallocate::Collapse => FallocateFlags::COLLAPSE_RANGE,
            Fallocate::Insert => FallocateFlags::INSERT_RANGE,
        };
        fallocate(self.file(file)?, flags, offset_bytes, len)
    }

    fn copy(&self, from: (FileNo, u64), to: (FileNo, u64), len_bytes: u64) -> Result<u64> {
        let (mut from_bytes, mut to_bytes) = (from.1, to.1);
        let len = usize::try_from(len_bytes).map_err(|_| Errno::INVAL)?;
        let copied = copy_file_range(
            self.file(from.0)?,
            Some(&mut from_bytes),
            self.file(to.0)?,
            Some(&mut to_bytes),
            len,
        )?;
        Ok(copied as u64)
    }

    fn sync(&self, file: FileNo) -> Result<()> {
        fsync(self.file(file)?)
    }

    fn sync_all(&self) -> Result<()> {
        syncfs(self.file(FILES[0])?)
    }

    fn content(&self, file: FileNo) -> Result<Vec<u8>> {
        let open = self.file(file)?;
        let size_bytes = fstat(open)?.st_size;
        let mut bytes = vec![0; usize::try_from(size_bytes).map_err(|_| Errno::FBIG)?];
        let mut read = 0;
        while read < bytes.len() {
            match pread(open, &mut bytes[read..], read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    fn available_bytes(&self) -> Result<u64> {
        let space = statvfs(self.mount.path())?;
        Ok(space.f_bavail * space.f_frsize)
    }

    fn evict(&self, file: FileNo) -> Result<()> {
        fadvise(self.file(file)?, 0, None, Advice::DontNeed)
    }

    fn remount(&mut self) -> std::result::Result<(), String> {
        self.files = Default::default();
        self.mount.remount()?;
        self.open_all()
    }
}
