//! Files that replace others when they are complete.
//!
//! A file has no name until then, so that nothing remains if the process is killed. On a file system without
//! `O_TMPFILE`, it has a temporary name.

use super::error::Result;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// A new file, which replaces the file at `path` when the new file is complete. Only its owner can access it.
#[derive(Debug)]
pub(super) struct Pending {
    path: PathBuf,
    /// A name that no other file has.
    temporary: PathBuf,
    file: File,
    /// Whether `file` has no name yet.
    is_nameless: bool,
}

impl Pending {
    /// Creates the file in the directory of `path`.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let random = RandomState::new().hash_one(std::process::id());
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".pending-{random:016x}"));
        let temporary = PathBuf::from(temporary);
        let (file, is_nameless) = open_new(path, &temporary).map_err(io::Error::from)?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            file: file.into(),
            is_nameless,
        })
    }

    /// Calls `write` to write the file, and gives it its path.
    pub(super) fn replace(&self, write: impl FnOnce(&File) -> Result<()>) -> Result<()> {
        write(&self.file)?;
        self.file.sync_all()?;
        Ok(self.rename()?)
    }

    fn rename(&self) -> io::Result<()> {
        if self.is_nameless {
            match self.link(&self.path) {
                // link(2) cannot replace a file, but rename(2) can.
                Err(Errno::EXIST) => self.link(&self.temporary)?,
                linked => return Ok(linked?),
            }
        }
        fs::rename(&self.temporary, &self.path)
    }

    fn link(&self, path: &Path) -> rustix::io::Result<()> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW) {
            // Without /proc, root can still link the file, and so can other users since Linux 6.10.
            Err(Errno::NOENT) => linkat(&self.file, "", CWD, path, AtFlags::EMPTY_PATH),
            linked => linked,
        }
    }
}

/// Creates a file in the directory of `path`. Returns it, and whether it has no name. Otherwise, its name is `temporary`.
fn open_new(path: &Path, temporary: &Path) -> rustix::io::Result<(OwnedFd, bool)> {
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    let access = OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let directory = parent.unwrap_or(Path::new("."));
    match rustix::fs::open(directory, access | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let named = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            Ok((rustix::fs::open(temporary, named, mode)?, false))
        }
        nameless => Ok((nameless?, true)),
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Fails if the file never had this name, or was moved.
        let _ = fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn file_has_no_name_until_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let files = || fs::read_dir(folder.path()).unwrap().count();
        for (number, content) in ["first", "second"].into_iter().enumerate() {
            // An unfinished file, as of a process that was killed, does not prevent the next.
            let killed = std::mem::ManuallyDrop::new(Pending::create(&path).unwrap());
            let pending = Pending::create(&path).unwrap();
            assert_eq!(files(), number);
            pending
                .replace(|mut file| Ok(file.write_all(content.as_bytes())?))
                .unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(files(), 1);
            assert!(killed.is_nameless);
        }
    }
}
