//! The directory that contains the statistics sockets of a user's mounts. It must belong to the user.
//!
//! For root, the directory is `/run/larder`. For other users, it is `$XDG_RUNTIME_DIR/larder` or
//! `/run/user/UID/larder`. If these are not available, it is `/tmp/larder-UID`. Everyone can create files
//! in `/tmp`. Therefore each use of the directory checks its owner and its mode, and that it is not a
//! symbolic link.

use crate::{Error, Result};
use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The identity of a mount, from which the path of its statistics socket is derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount point. It is used only in messages.
    pub mountpoint: PathBuf,
    /// The major and minor device number of the mount. The name of the socket consists of both numbers.
    pub device: (u32, u32),
    /// The ID of the user who mounted the image.
    pub owner: u32,
}

impl Mount {
    fn socket_name(&self) -> String {
        let (major, minor) = self.device;
        format!("{major}-{minor}.sock")
    }

    /// Returns the path at which a server that runs as the user of this process must create its socket.
    /// Creates the directory if necessary.
    pub(super) fn own_socket(&self) -> Result<PathBuf> {
        let directory = make(rustix::process::geteuid().as_raw())?;
        Ok(directory.join(self.socket_name()))
    }

    /// Returns the paths at which the mount may have its socket, in directories that are safe to use.
    pub(super) fn sockets(&self) -> impl Iterator<Item = PathBuf> {
        let safe = |directory: &PathBuf| check(directory, self.owner).is_ok();
        let directories = candidates(self.owner).into_iter().filter(safe);
        directories.map(|directory| directory.join(self.socket_name()))
    }
}

/// Returns the directories in which a server of user `uid` may have its socket, in order of preference.
fn candidates(uid: u32) -> Vec<PathBuf> {
    if uid == 0 {
        // `XDG_RUNTIME_DIR` is not used, because it may belong to the user who called sudo.
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

/// Returns the first candidate that is safe to use. A candidate that does not exist is created.
fn make(uid: u32) -> Result<PathBuf> {
    let mut made = Err(refused(&env::temp_dir(), "no directory is available"));
    for directory in candidates(uid) {
        made = make_one(&directory, uid).map(|()| directory);
        if made.is_ok() {
            break;
        }
    }
    made
}

fn make_one(directory: &Path, uid: u32) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(refused(directory, error.to_string()))
        }
        _ => check(directory, uid),
    }
}

/// Fails unless `directory` is a directory that belongs to `uid` and to which no other user has access.
fn check(directory: &Path, uid: u32) -> Result<()> {
    let metadata =
        fs::symlink_metadata(directory).map_err(|error| refused(directory, error.to_string()))?;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if !metadata.is_dir() {
        Err(refused(directory, "it is not a directory"))
    } else if owner != uid {
        Err(refused(directory, format!("it belongs to user {owner}")))
    } else if mode & 0o077 != 0 {
        Err(refused(
            directory,
            format!("other users have access (mode {mode:o})"),
        ))
    } else {
        Ok(())
    }
}

fn refused(directory: &Path, what: impl Into<String>) -> Error {
    Error::SocketDirectory {
        directory: directory.to_owned(),
        what: what.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn root_has_directories_independent_of_the_environment() {
        let expected = ["/run/larder", "/tmp/larder-0"].map(PathBuf::from);
        assert_eq!(candidates(0), expected);
    }

    #[test]
    fn directory_is_created_for_its_owner_only() {
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
