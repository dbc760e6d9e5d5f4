//! The cache as its users open it.

use super::directory::{Directory, ObjectInfo, Removed, Wait};
use super::error::Result;
use super::header::Header;
use super::identity::Identity;
use super::object::CachedObject;
use super::units::{Layout, Units};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The time that [`CacheDir::open`] sets as the limit for the lock of a directory.
const LOCK_TIMEOUT: Duration = Duration::from_mins(1);

/// A directory of cached objects, which several processes can use at once.
#[derive(Clone, Debug)]
pub struct CacheDir(Arc<Directory>);

impl CacheDir {
    /// Opens the directory at `path`. Creates it and the directories above it with mode 0700 if they do not
    /// exist. All cache files in it together may take `max_bytes` on the disk.
    ///
    /// # Errors
    /// - [`Error::OtherOwner`](super::Error::OtherOwner)
    /// - [`Error::WritableByOthers`](super::Error::WritableByOthers)
    /// - [`Error::Directory`](super::Error::Directory), for example if `path` is a symbolic link.
    pub fn open(path: &Path, max_bytes: u64) -> Result<Self> {
        Self::open_with_timeout(path, max_bytes, LOCK_TIMEOUT)
    }

    /// Opens the directory as [`CacheDir::open`] does. If another process holds the lock of the directory for
    /// `lock_timeout`, operations that need this lock fail with [`Error::Locked`](super::Error::Locked). With
    /// [`CacheDir::open`], this time is a minute.
    ///
    /// # Errors
    /// As [`CacheDir::open`].
    pub fn open_with_timeout(path: &Path, max_bytes: u64, lock_timeout: Duration) -> Result<Self> {
        let directory = Directory::open(path, max_bytes, lock_timeout)?;
        Ok(Self(Arc::new(directory)))
    }

    /// Opens the cached part of an object of `size_bytes`, which is empty if the object was never cached.
    /// `label` describes the object to users. It must not contain secrets.
    ///
    /// # Errors
    /// [`Error::File`](super::Error::File), [`Error::Directory`](super::Error::Directory).
    pub fn object(
        &self,
        identity: &Identity<'_>,
        size_bytes: u64,
        label: &str,
    ) -> Result<CachedObject> {
        let header = Header::new(identity.digest(size_bytes), size_bytes, label);
        let layout = Layout::new(size_bytes).ok_or_else(|| {
            self.0
                .file_error(&header.file_name(), io::ErrorKind::FileTooLarge.into())
        })?;
        let file = self.0.open_object(&header, layout.file_bytes())?;
        let units = Units::new(file, layout, &header.digest);
        Ok(CachedObject::new(units, Arc::clone(&self.0), identity))
    }

    /// Returns the version that a server has [confirmed](CachedObject::confirm) last, among the cached versions of an
    /// object. `location` and `credentials` are those of the object's [`Identity`]. Returns `None` if there is no such
    /// version.
    ///
    /// # Errors
    /// [`Error::Directory`](super::Error::Directory).
    pub fn last_version(&self, location: &str, credentials: &str) -> Result<Option<String>> {
        self.0.last_version(&Identity {
            location,
            version: "",
            credentials,
        })
    }

    /// Returns the cached objects, least recently used first.
    ///
    /// # Errors
    /// [`Error::Directory`](super::Error::Directory).
    pub fn list(&self) -> Result<Vec<ObjectInfo>> {
        self.0.list()
    }

    /// Removes objects that are not in use, least recently used first, until the others take at most
    /// `max_bytes`.
    ///
    /// # Errors
    /// [`Error::Directory`](super::Error::Directory), [`Error::File`](super::Error::File).
    pub fn prune(&self, max_bytes: u64) -> Result<Removed> {
        self.0.shrink(max_bytes, Wait::Block)
    }

    /// Removes all objects that are not in use.
    ///
    /// # Errors
    /// As [`CacheDir::prune`].
    pub fn clear(&self) -> Result<Removed> {
        self.prune(0)
    }
}

/// Returns the usual path of the cache: `$XDG_CACHE_HOME/larder`, or else `$HOME/.cache/larder`. Returns
/// `None` if neither variable is an absolute path.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    path_from(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

fn path_from(cache_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute =
        |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let cache_home = absolute(cache_home).or_else(|| Some(absolute(home)?.join(".cache")))?;
    Some(cache_home.join("larder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_path_follows_xdg_and_ignores_relative_paths() {
        let path = |cache_home: Option<&str>, home: Option<&str>| {
            path_from(cache_home.map(Into::into), home.map(Into::into))
        };
        assert_eq!(path(Some("/c"), Some("/h")), Some("/c/larder".into()));
        for cache_home in [None, Some(""), Some("c")] {
            let expected = Some("/h/.cache/larder".into());
            assert_eq!(path(cache_home, Some("/h")), expected);
            assert_eq!(path(cache_home, None), None);
        }
    }
}
