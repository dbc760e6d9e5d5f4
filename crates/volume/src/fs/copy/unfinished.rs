//! Files on the host that have a temporary name until they are complete.

use super::error::CopyError;
use rustix::fs::{AtFlags, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;

/// A file with a temporary name. Dropping this value removes the file, unless it was renamed.
pub(super) struct Unfinished<'d> {
    pub(super) parent: BorrowedFd<'d>,
    pub(super) name: OsString,
}

impl<'d> Unfinished<'d> {
    /// Chooses a temporary name that no file in `parent` has.
    pub(super) fn new(parent: BorrowedFd<'d>) -> Self {
        let process = std::process::id();
        let mut number = 0_u32;
        loop {
            let name = OsString::from(format!(".larder-{process}-{number}"));
            if statat(parent, &name, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                return Self { parent, name };
            }
            number += 1;
        }
    }

    /// Renames the file to its final name, and replaces an existing file of that name.
    pub(super) fn rename_to(self, name: &OsStr) -> Result<(), CopyError> {
        renameat(self.parent, &self.name, self.parent, name).map_err(|errno| match errno {
            Errno::ISDIR => CopyError::replaces_directory(),
            errno => CopyError::copy(errno),
        })
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
