//! Making files, and noting what could not be made.

use crate::error::{Context, Error, Result};
use crate::seed::{Random, Seed};
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What a population made, and what was left out.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Files, directories, links and attributes made.
    pub made: u64,
    /// What the file system or the user's rights did not allow, with the reason.
    pub left_out: Vec<String>,
}

/// A directory that is being filled.
pub(super) struct Builder {
    root: PathBuf,
    pub(super) random: Random,
    summary: Summary,
}

impl Builder {
    pub(super) fn new(root: &Path, seed: Seed) -> Self {
        Self {
            root: root.to_owned(),
            random: Random::new(seed),
            summary: Summary::default(),
        }
    }

    pub(super) fn finish(self) -> Summary {
        self.summary
    }

    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// The path of `name`, any bytes, in `folder`.
    pub(super) fn path_bytes(&self, folder: &str, name: &[u8]) -> PathBuf {
        self.root.join(folder).join(OsStr::from_bytes(name))
    }

    pub(super) fn folder(&mut self, name: impl AsRef<Path>) -> Result<PathBuf> {
        let path = self.path(name);
        rustix::fs::mkdirat(CWD, &path, Mode::from_raw_mode(0o755)).context("mkdir", &path)?;
        self.summary.made += 1;
        Ok(path)
    }

    pub(super) fn create(&mut self, path: &Path) -> Result<File> {
        self.summary.made += 1;
        File::create_new(path).context("create", path)
    }

    /// A file of `len` random bytes.
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
        std::fs::hard_link(from, to).context("link to", to)
    }

    /// Notes the result of something that may not be possible here; true if it was.
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
