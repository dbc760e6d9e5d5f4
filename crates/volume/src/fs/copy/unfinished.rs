//! Files on the host that get their final names when they are complete.
//!
//! A regular file has no name until then, so that nothing remains if the process is killed. Links, special files, and
//! regular files on a file system without `O_TMPFILE`, have a temporary name.

use super::descriptor;
use super::error::CopyError;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::BorrowedFd;

/// A file without its final name. Dropping this value removes it, unless it was renamed.
pub(super) struct Unfinished<'d> {
    pub(super) parent: BorrowedFd<'d>,
    /// A temporary name.
    pub(super) name: OsString,
    /// The open file, if it is a regular file.
    file: Option<File>,
    /// Whether `file` has no name yet.
    is_nameless: bool,
}

impl<'d> Unfinished<'d> {
    /// Chooses a temporary name that no file in `parent` has.
    pub(super) fn new(parent: BorrowedFd<'d>) -> Self {
        let process = std::process::id();
        let mut number = 0_u32;
        loop {
            let name = OsString::from(format!(".larder-{process}-{number}"));
            if statat(parent, &name, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                return Self {
                    parent,
                    name,
                    file: None,
                    is_nameless: false,
                };
            }
            number += 1;
        }
    }

    /// Creates the file as a regular file, and opens it for writing.
    pub(super) fn create(&mut self) -> Result<&File, Errno> {
        let access = OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match openat(self.parent, ".", access | OFlags::TMPFILE, mode) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let named = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                openat(self.parent, &self.name, named, mode)?
            }
            nameless => {
                self.is_nameless = true;
                nameless?
            }
        };
        Ok(self.file.insert(file.into()))
    }

    /// Gives the file its final name, and replaces an existing file of that name.
    pub(super) fn rename_to(self, name: &OsStr) -> Result<(), CopyError> {
        self.replace(name).map_err(|errno| match errno {
            Errno::ISDIR => CopyError::cannot_replace_directory(),
            errno => CopyError::copy(errno),
        })
    }

    fn replace(&self, name: &OsStr) -> Result<(), Errno> {
        if let Some(file) = self.file.as_ref().filter(|_| self.is_nameless) {
            match self.link(file, name) {
                // link(2) cannot replace a file, but rename(2) can.
                Err(Errno::EXIST) => self.link(file, &self.name)?,
                linked => return linked,
            }
        }
        renameat(self.parent, &self.name, self.parent, name)
    }

    fn link(&self, file: &File, name: &OsStr) -> Result<(), Errno> {
        let path = descriptor::path(file);
        match linkat(CWD, &path, self.parent, name, AtFlags::SYMLINK_FOLLOW) {
            // Without /proc, root can still link the file, and so can other users since Linux 6.10.
            Err(Errno::NOENT) => linkat(file, "", self.parent, name, AtFlags::EMPTY_PATH),
            linked => linked,
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // After a rename, the temporary name usually does not exist. But if both names were links to
        // the same file, rename(2) has no effect, and the temporary name must still be removed.
        let _ = unlinkat(self.parent, &self.name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn symbolic_link_is_replaced_and_its_target_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let link = dir.path().join("link");
        symlink(outside.path(), &link).unwrap();
        let parent = fs::File::open(dir.path()).unwrap();
        let unfinished = Unfinished::new(parent.as_fd());
        fs::write(dir.path().join(&unfinished.name), "whole").unwrap();
        unfinished.rename_to(OsStr::new("link")).unwrap();
        assert!(link.symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read(&link).unwrap(), b"whole");
        assert_eq!(fs::read(outside.path()).unwrap(), b"");
    }

    #[test]
    fn regular_file_has_no_name_until_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let parent = fs::File::open(dir.path()).unwrap();
        let count = || fs::read_dir(dir.path()).unwrap().count();
        for content in ["first", "second"] {
            let before = count();
            let mut unfinished = Unfinished::new(parent.as_fd());
            unfinished
                .create()
                .unwrap()
                .write_all(content.as_bytes())
                .unwrap();
            assert_eq!(count(), before, "{content}");
            unfinished.rename_to(OsStr::new("file")).unwrap();
            assert_eq!(count(), 1);
            assert_eq!(
                fs::read_to_string(dir.path().join("file")).unwrap(),
                content
            );
        }
        Unfinished::new(parent.as_fd()).create().unwrap();
        assert_eq!(count(), 1);
    }

    #[test]
    fn directory_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let parent = fs::File::open(dir.path()).unwrap();
        fs::create_dir(dir.path().join("name")).unwrap();
        let mut unfinished = Unfinished::new(parent.as_fd());
        unfinished.create().unwrap();
        assert!(unfinished.rename_to(OsStr::new("name")).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn unfinished_file_has_unique_name_and_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let parent = fs::File::open(dir.path()).unwrap();
        let first = Unfinished::new(parent.as_fd());
        fs::write(dir.path().join(&first.name), "").unwrap();
        let second = Unfinished::new(parent.as_fd());
        assert_ne!(first.name, second.name);
        drop((first, second));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
