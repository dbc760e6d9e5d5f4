//! Creates files, and records what could not be created.

use crate::error::{Context, Error, Result};
use crate::seed::{Random, Seed};
use rustix::fs::{CWD, Mode, XattrFlags, ftruncate, lsetxattr};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Counts of what a tree contains, and a list of what was left out.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Files, directories, links and attributes that were created.
    pub made: u64,
    /// Items that the file system or the user's rights did not allow, with the reason.
    pub left_out: Vec<String>,
}

/// The limits of the file system, for a writer that does not check them itself. The kernel only refuses an
/// attribute or link that does not fit, but mke2fs aborts at the first one that it finds. mke2fs also copies
/// times as 32 bits, and a hard link to a symbolic link as a separate symbolic link.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum size of all attributes of one file, as stored in a block.
    pub attributes_bytes: usize,
    /// The maximum length of the target of a symbolic link.
    pub target_bytes: usize,
    /// The latest time, in seconds since 1970.
    pub last_second: i64,
    /// The maximum size of a file, including holes.
    pub file_bytes: u64,
    /// Whether symbolic links may have several names.
    pub symlink_links: bool,
}

impl Limits {
    /// No limits: the kernel checks them itself.
    pub const NONE: Self = Self {
        attributes_bytes: usize::MAX,
        target_bytes: usize::MAX,
        last_second: i64::MAX,
        file_bytes: u64::MAX,
        symlink_links: true,
    };

    /// Returns the limits of mke2fs for blocks of this size, with or without extents.
    #[must_use]
    pub fn of_blocks(block_size_bytes: usize, extents: bool) -> Self {
        let block_bytes = block_size_bytes as u64;
        Self {
            attributes_bytes: block_size_bytes.saturating_sub(64),
            target_bytes: block_size_bytes.saturating_sub(1),
            last_second: 0x7fff_ffff,
            file_bytes: if extents {
                block_bytes << 31
            } else {
                // Three levels of blocks full of block numbers of 4 bytes.
                (block_bytes / 4).pow(3) * block_bytes
            },
            symlink_links: false,
        }
    }
}

/// The directory in which files are created.
pub(super) struct Builder {
    root: PathBuf,
    pub(super) random: Random,
    summary: Summary,
    pub(super) limits: Limits,
    attributes_bytes: HashMap<PathBuf, usize>,
}

impl Builder {
    pub(super) fn new(root: &Path, seed: Seed, limits: Limits) -> Self {
        Self {
            root: root.to_owned(),
            random: Random::new(seed),
            summary: Summary::default(),
            limits,
            attributes_bytes: HashMap::new(),
        }
    }

    pub(super) fn finish(self) -> Summary {
        self.summary
    }

    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the path of `name`, which may be any bytes, in `folder`.
    pub(super) fn path_bytes(&self, folder: &str, name: &[u8]) -> PathBuf {
        self.root.join(folder).join(OsStr::from_bytes(name))
    }

    pub(super) fn folder(&mut self, name: impl AsRef<Path>) -> Result<PathBuf> {
        let path = self.path(name);
        rustix::fs::mkdirat(CWD, &path, Mode::from_raw_mode(0o755)).context("create", &path)?;
        self.summary.made += 1;
        Ok(path)
    }

    pub(super) fn create(&mut self, path: &Path) -> Result<File> {
        self.summary.made += 1;
        File::create_new(path).context("create", path)
    }

    /// Creates a file of `len` random bytes.
    pub(super) fn file(&mut self, path: &Path, len: usize) -> Result<File> {
        let file = self.create(path)?;
        let bytes = self.random.bytes(len);
        file.write_all_at(&bytes, 0).context("write", path)?;
        Ok(file)
    }

    /// Writes `len` random bytes at `offset_bytes`.
    pub(super) fn write(
        &mut self,
        file: &File,
        path: &Path,
        len: usize,
        offset_bytes: u64,
    ) -> Result<()> {
        let bytes = self.random.bytes(len);
        file.write_all_at(&bytes, offset_bytes)
            .context("write", path)
    }

    pub(super) fn hard_link(&mut self, from: &Path, to: &Path) -> Result<()> {
        self.summary.made += 1;
        std::fs::hard_link(from, to).context("create the hard link", to)
    }

    /// Sets the size of a file, including holes. Returns whether the file can have that size.
    pub(super) fn size(&mut self, file: &File, path: &Path, len_bytes: u64) -> Result<bool> {
        let sized = if len_bytes > self.limits.file_bytes {
            Err(Errno::FBIG)
        } else {
            ftruncate(file, len_bytes)
        };
        self.attempt(&format!("{} with {len_bytes} bytes", path.display()), sized)
    }

    pub(super) fn symlink(&mut self, target: &[u8], path: &Path) -> Result<()> {
        let what = format!("symlink of {} bytes", target.len());
        let made = if target.len() > self.limits.target_bytes {
            Err(Errno::NAMETOOLONG)
        } else {
            rustix::fs::symlink(target, path)
        };
        self.attempt(&what, made)?;
        Ok(())
    }

    /// Sets an attribute, if it fits.
    pub(super) fn attribute(&mut self, path: &Path, name: &str, value: &[u8]) -> Result<()> {
        // An entry has 16 bytes; name and value follow, each padded to a multiple of 4.
        let entry_bytes = 16 + name.len().next_multiple_of(4) + value.len().next_multiple_of(4);
        let used = self.attributes_bytes.entry(path.to_owned()).or_default();
        let set = if *used + entry_bytes > self.limits.attributes_bytes {
            Err(Errno::NOSPC)
        } else {
            lsetxattr(path, name, value, XattrFlags::empty())
        };
        if set.is_ok() {
            *used += entry_bytes;
        }
        let what = format!("attribute {name} of {} bytes", value.len());
        self.attempt(&what, set)?;
        Ok(())
    }

    /// Records the result of an operation that may not be possible here. Returns whether it succeeded.
    pub(super) fn attempt(&mut self, what: &str, result: rustix::io::Result<()>) -> Result<bool> {
        match result {
            Ok(()) => {
                self.summary.made += 1;
                Ok(true)
            }
            Err(
                error @ (Errno::PERM
                | Errno::ACCESS
                | Errno::OPNOTSUPP
                | Errno::NOSPC
                | Errno::FBIG
                | Errno::RANGE
                | Errno::TOOBIG
                | Errno::INVAL
                | Errno::NAMETOOLONG),
            ) => {
                self.summary.left_out.push(format!("{what}: {error}"));
                Ok(false)
            }
            Err(error) => Err(Error::Io {
                what: what.to_owned(),
                source: error.into(),
            }),
        }
    }
}
