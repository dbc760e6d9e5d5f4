//! The path of the file that is being copied.
//!
//! A copy has one such path, and remembers only its length for each level of directories. With a path
//! for each level, an image with many levels and long names would need gigabytes of memory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[derive(Debug, Default)]
pub(super) struct Trail(Vec<u8>);

impl Trail {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().to_vec())
    }

    /// Adds a name.
    pub(super) fn push(&mut self, name: &OsStr) {
        if !self.0.is_empty() && !self.0.ends_with(b"/") {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name.as_bytes());
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes the names that were added since the path had `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    pub(super) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_added_with_one_slash_and_removed() {
        for (path, expected) in [
            ("/", "/etc"),
            ("/a", "/a/etc"),
            ("a/.", "a/./etc"),
            ("", "etc"),
        ] {
            let mut trail = Trail::new(Path::new(path));
            let len = trail.len();
            trail.push(OsStr::new("etc"));
            assert_eq!(trail.as_path().as_os_str(), expected);
            trail.truncate(len);
            assert_eq!(trail.as_path().as_os_str(), path);
        }
    }
}
