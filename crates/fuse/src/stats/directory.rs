//! Where the sockets are: a directory of the user's own.
//!
//! `/run/larder` for root, `$XDG_RUNTIME_DIR/larder` for others, and
//! `/tmp/larder-UID` where those cannot be had. The last lies where everyone can
//! write, so that each use checks owner, mode, and that it is no symbolic link.

use crate::{Error, MountEntry, Result};
use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Directories in which a server of user `uid` may have its socket, best first.
pub(super) fn candidates(uid: u32) -> Vec<PathBuf> {
    if uid == 0 {
        // XDG_RUNTIME_DIR may be that of the user who called sudo.
        return ["/run/larder", "/tmp/larder-0"].map(PathBuf::from).into();
    }
    let mut directories = Vec::with_capacity(3);
    if uid == rustix::process::geteuid().as_raw() {
        let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        directories.extend(
            runtime
                .filter(|path| path.is_absolute())
                .map(|path| path.join("larder")),
        );
    }
    directories.push(PathBuf::from(format!("/run/user/{uid}/larder")));
    directories.push(PathBuf::from(format!("/tmp/larder-{uid}")));
    directories.dedup();
    directories
}

/// The first candidate that exists or can be made, and is safe.
pub(super) fn make(uid: u32) -> Result<PathBuf> {
    let mut failure = None;
    for directory in candidates(uid) {
        match make_one(&directory, uid) {
            Ok(()) => return Ok(directory),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| Error::SocketDirectory {
        directory: env::temp_dir(),
        what: "no candidate".to_owned(),
    }))
}

/// The name of the socket of a mount.
pub(super) fn socket_name(entry: &MountEntry) -> String {
    format!("{}-{}.sock", entry.device_major, entry.device_minor)
}

fn make_one(directory: &Path, uid: u32) -> Result<()> {
    let failed = |source: io::Error| Error::SocketDirectory {
        directory: directory.to_owned(),
        what: source.to_string(),
    };
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    check(directory, uid)
}

/// Checks that nobody but `uid` can have put anything into `directory`.
pub(super) fn check(directory: &Path, uid: u32) -> Result<()> {
    let refused = |what: String| Error::SocketDirectory {
        directory: directory.to_owned(),
        what,
    };
    let metadata = fs::symlink_metadata(directory).map_err(|error| refused(error.to_string()))?;
    if !metadata.is_dir() {
        return Err(refused("it is not a directory".to_owned()));
    }
    if metadata.uid() != uid {
        return Err(refused(format!("it belongs to user {}", metadata.uid())));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(refused(format!(
            "others have access (mode {:o})",
            metadata.mode() & 0o7777
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn root_has_directories_that_no_environment_names() {
        let expected = ["/run/larder", "/tmp/larder-0"].map(PathBuf::from);
        assert_eq!(candidates(0), expected);
    }

    #[test]
    fn directory_is_made_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("larder");
        make_one(&path, uid()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        make_one(&path, uid()).unwrap();
    }

    #[test]
    fn directory_open_to_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("larder");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let error = check(&path, uid()).unwrap_err();
        assert!(error.to_string().contains("mode 755"), "{error}");
    }

    #[test]
    fn directory_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = check(dir.path(), uid().wrapping_add(1)).unwrap_err();
        assert!(error.to_string().contains("belongs to"), "{error}");
    }

    #[test]
    fn symbolic_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        symlink(dir.path(), &path).unwrap();
        let error = check(&path, uid()).unwrap_err();
        assert!(error.to_string().contains("not a directory"), "{error}");
    }
}
