//! Listings that stay open while the directory changes. POSIX specifies the result only for the entries that are not
//! added, removed or renamed meanwhile: each of them is returned once.

use crate::kernel::Kernel;
use crate::shown;
use crate::side::{Entries, Side};
use larder::{FileKind, Fs};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirEntryExt;

/// A listing of the same directory on both sides.
pub(crate) struct Listing {
    /// Those of the kernel, then those of the image.
    entries: [Entries; 2],
    seen: [Vec<(OsString, FileKind)>; 2],
    /// The directory on the kernel's mount.
    directory: fs::File,
    /// The names that no operation has changed, and their inode numbers on the kernel's mount.
    unchanged: BTreeMap<OsString, u64>,
}

impl Listing {
    /// Begins to list the directory at `path`. Returns `None` if neither side can list it.
    pub(crate) fn begin(
        kernel: &Kernel,
        image: &Fs,
        path: &str,
    ) -> Result<Option<Self>, TestCaseError> {
        let entries = match (kernel.listing(path), image.listing(path)) {
            (Ok(expected), Ok(found)) => [expected, found],
            (expected, found) => {
                let [expected, found] = [expected, found].map(|listed| shown(listed.map(|_| ())));
                prop_assert_eq!(found, expected, "listing of {:?}", path);
                return Ok(None);
            }
        };
        let directory = fs::File::open(kernel.path(path)).unwrap();
        let unchanged = present(&directory);
        Ok(Some(Self {
            entries,
            seen: [Vec::new(), Vec::new()],
            directory,
            unchanged,
        }))
    }

    /// Reads the next `count` entries.
    pub(crate) fn read(&mut self, count: usize) -> Result<(), TestCaseError> {
        for (entries, seen) in self.entries.iter_mut().zip(&mut self.seen) {
            for entry in entries.take(count) {
                match entry {
                    Ok(entry) => seen.push(entry),
                    // The kernel does not list a directory that was removed.
                    Err(error) if error.kind() == ErrorKind::NotFound => break,
                    Err(error) => return Err(TestCaseError::fail(error.to_string())),
                }
            }
        }
        Ok(())
    }

    /// Notes which entries an operation has changed.
    pub(crate) fn note_changes(&mut self) {
        let present = present(&self.directory);
        self.unchanged
            .retain(|name, ino| present.get(name) == Some(ino));
    }

    /// Reads all further entries, and compares those that were not changed.
    pub(crate) fn end(mut self) -> Result<(), TestCaseError> {
        self.read(usize::MAX)?;
        let Self {
            seen, unchanged, ..
        } = self;
        let [expected, found] = seen.map(|seen| entries_named(&seen, &unchanged));
        let names: Vec<_> = expected.iter().map(|(name, _)| name).collect();
        prop_assert_eq!(names, unchanged.keys().collect::<Vec<_>>());
        prop_assert_eq!(found, expected);
        Ok(())
    }
}

/// Returns the entries of `seen` that `unchanged` contains, sorted by name.
fn entries_named(
    seen: &[(OsString, FileKind)],
    unchanged: &BTreeMap<OsString, u64>,
) -> Vec<(OsString, FileKind)> {
    let mut entries: Vec<_> = seen
        .iter()
        .filter(|(name, _)| unchanged.contains_key(name))
        .cloned()
        .collect();
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    entries
}

/// Returns the names in `directory`, which may have another path now, and their inode numbers.
fn present(directory: &fs::File) -> BTreeMap<OsString, u64> {
    let entries = fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    // A directory that was removed cannot be listed.
    let entries = entries.into_iter().flatten().flatten();
    entries
        .map(|entry| (entry.file_name(), entry.ino()))
        .collect()
}
