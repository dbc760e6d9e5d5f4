//! The interface of both sides.

use larder::{FileKind, XattrMode};
use std::ffi::OsString;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The attributes that are compared.
#[derive(Debug)]
#[expect(dead_code, reason = "the fields are printed")]
pub(crate) struct Facts {
    pub(crate) kind: FileKind,
    pub(crate) permissions: u16,
    pub(crate) links: u64,
    pub(crate) owner: (u32, u32),
    /// The size of a file that is not a directory.
    pub(crate) size_bytes: Option<u64>,
    pub(crate) modified_seconds: Option<i64>,
}

/// Times before this second were set by an operation. Later times are those of the clock, which differ
/// between the sides.
pub(crate) const PAST: i64 = 1_000_000;

/// The entries of a directory.
pub(crate) type Entries = Box<dyn Iterator<Item = io::Result<(OsString, FileKind)>>>;

/// One of the two implementations.
pub(crate) trait Side {
    type File: Read + Write + Seek + FileExt;

    fn open(&self, path: &str, options: u8) -> io::Result<Self::File>;
    fn set_len(&self, file: &Self::File, size_bytes: u64) -> io::Result<()>;
    fn sync(&self, file: &Self::File, data_only: bool) -> io::Result<()>;
    fn set_file_permissions(&self, file: &Self::File, permissions: u16) -> io::Result<()>;
    /// Sets the times of the last access and of the last change. Returns those that were set.
    fn set_file_times(
        &self,
        file: &Self::File,
        accessed: Option<u64>,
        modified: Option<u64>,
    ) -> io::Result<[Option<i64>; 2]>;
    fn file_facts(&self, file: &Self::File) -> io::Result<Facts>;
    fn facts(&self, path: &str, follow: bool) -> io::Result<Facts>;
    fn exists(&self, path: &str) -> io::Result<bool>;
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    fn read_to_string(&self, path: &str) -> io::Result<String>;
    fn write(&self, path: &str, content: &[u8]) -> io::Result<()>;
    fn copy(&self, from: &str, to: &str) -> io::Result<u64>;
    fn entries(&self, path: &str) -> io::Result<Vec<(OsString, FileKind)>>;
    /// Returns an iterator that reads the entries while it is used. The directory may change meanwhile.
    fn listing(&self, path: &str) -> io::Result<Entries>;
    fn walk(&self, path: &str) -> io::Result<Vec<PathBuf>>;
    fn create_dir(&self, path: &str) -> io::Result<()>;
    fn create_dir_all(&self, path: &str) -> io::Result<()>;
    fn remove_file(&self, path: &str) -> io::Result<()>;
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    fn remove_dir_all(&self, path: &str) -> io::Result<()>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn hard_link(&self, original: &str, link: &str) -> io::Result<()>;
    fn symlink(&self, original: &str, link: &str) -> io::Result<()>;
    fn read_link(&self, path: &str) -> io::Result<PathBuf>;
    fn set_permissions(&self, path: &str, permissions: u16) -> io::Result<()>;
    fn chown(&self, path: &str, id: u32, follow: bool) -> io::Result<()>;
    fn set_modified(&self, path: &str, seconds: u64, follow: bool) -> io::Result<()>;
    fn xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<Option<Vec<u8>>>;
    fn xattrs(&self, path: &str, follow: bool) -> io::Result<Vec<OsString>>;
    fn set_xattr(
        &self,
        path: &str,
        name: &str,
        value: &[u8],
        mode: XattrMode,
        follow: bool,
    ) -> io::Result<()>;
    fn remove_xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<()>;
}
