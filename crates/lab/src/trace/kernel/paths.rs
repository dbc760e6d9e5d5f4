//! Finds the paths of the recorded files, in the directories of the mounted file systems.
//!
//! The kernel's events have no names. After the recording, the directories of each recorded file system are searched for
//! the inode numbers of the trace. A file that was removed meanwhile is not found.

use super::devices::kernel_number;
use larder_block::mounts::{self, MountEntry};
use larder_trace::{FilePath, Row};
use rustix::fs::makedev;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The files of a recording.
#[derive(Debug, Default)]
pub(super) struct Files {
    by_device: BTreeMap<u32, BTreeSet<u64>>,
    last: Option<(u32, u64)>,
}

/// The number of paths that were found, of all files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Number of files that the trace contains.
    pub files: u64,
    /// Number of these files whose path was found.
    pub found: u64,
}

impl Files {
    /// Adds the file of `row`, if it has one.
    pub(super) fn add(&mut self, row: &Row) {
        let file = match row {
            Row::Cache(event) if event.inode != 0 => (event.device, event.inode),
            Row::Read(read) => (read.device, read.inode),
            _ => return,
        };
        // Consecutive events are often of one file.
        if self.last.replace(file) != Some(file) {
            self.by_device.entry(file.0).or_default().insert(file.1);
        }
    }
}

/// A search for the paths of the files of a recording, which has ended.
#[derive(Debug)]
pub struct PathSearch {
    files: Files,
    time_ns: u64,
    /// The recorded file system, if it was chosen: its device, and a path on it.
    chosen: Option<(u32, PathBuf)>,
}

impl PathSearch {
    /// Creates a search for the paths of `files`, at `time_ns` of the recording. `chosen` is the device and a path of the
    /// recorded file system, if it was chosen.
    pub(super) fn new(files: Files, time_ns: u64, chosen: Option<(u32, PathBuf)>) -> Self {
        Self {
            files,
            time_ns,
            chosen,
        }
    }

    /// Returns the number of files.
    #[must_use]
    pub fn files(&self) -> u64 {
        let files = self.files.by_device.values();
        files.map(|inodes| inodes.len() as u64).sum()
    }

    /// Searches for the paths of all files, and calls `emit` with each. Ends early if `stop` returns true; it is called
    /// for each directory.
    ///
    /// # Errors
    /// Returns the first error of `emit`.
    pub fn run<E>(
        self,
        stop: &mut dyn FnMut() -> bool,
        emit: &mut dyn FnMut(FilePath) -> Result<(), E>,
    ) -> Result<PathCounts, E> {
        let mut counts = PathCounts {
            files: self.files(),
            found: 0,
        };
        let time_ns = self.time_ns;
        let mounts = mounts::list().unwrap_or_default();
        for (device, mut inodes) in self.files.by_device {
            let chosen = self.chosen.as_ref().filter(|chosen| chosen.0 == device);
            let root = mountpoint_of(device, &mounts);
            let Some(root) = root.or_else(|| chosen.map(|(_, path)| path.clone())) else {
                continue;
            };
            let wanted = inodes.len();
            let mut search = Search {
                device,
                inodes: &mut inodes,
                stop: &mut *stop,
                found: &mut |inode, path: &Path, file_bytes| {
                    emit(FilePath {
                        time_ns,
                        device,
                        inode,
                        file_bytes,
                        path: path.to_string_lossy().into(),
                    })
                },
            };
            search.run(root)?;
            counts.found += (wanted - inodes.len()) as u64;
        }
        Ok(counts)
    }
}

/// Returns where the file system of `device` is mounted: the shortest mount point.
fn mountpoint_of(device: u32, mounts: &[MountEntry]) -> Option<PathBuf> {
    let of_device = mounts
        .iter()
        .filter(|mount| kernel_number(makedev(mount.device_major, mount.device_minor)) == device);
    let shortest = of_device.min_by_key(|mount| mount.mountpoint.as_os_str().len());
    shortest.map(|mount| mount.mountpoint.clone())
}

/// A search in one file system.
struct Search<'s, E> {
    device: u32,
    /// The inodes whose paths are not known yet.
    inodes: &'s mut BTreeSet<u64>,
    stop: &'s mut dyn FnMut() -> bool,
    /// Receives the inode number, the path and the size of a file.
    found: &'s mut dyn FnMut(u64, &Path, u64) -> Result<(), E>,
}

impl<E> Search<'_, E> {
    /// Searches all directories below `root`, without those of other file systems.
    fn run(&mut self, root: PathBuf) -> Result<(), E> {
        if let Ok(metadata) = fs::symlink_metadata(&root) {
            self.check(&root, metadata.ino())?;
        }
        let mut open = vec![root];
        while let Some(directory) = open.pop() {
            if self.inodes.is_empty() || (self.stop)() {
                break;
            }
            let is_here = fs::symlink_metadata(&directory)
                .is_ok_and(|metadata| kernel_number(metadata.dev()) == self.device);
            if !is_here {
                continue;
            }
            // A directory that cannot be read or was removed is skipped.
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                self.check(&entry.path(), entry.ino())?;
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(entry.path());
                }
            }
        }
        Ok(())
    }

    /// Reports `path` if the path of `inode` is not known yet.
    fn check(&mut self, path: &Path, inode: u64) -> Result<(), E> {
        if !self.inodes.remove(&inode) {
            return Ok(());
        }
        let size = fs::symlink_metadata(path).map_or(0, |metadata| metadata.len());
        (self.found)(inode, path, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_trace::FileRead;

    fn read_of(device: u32, inode: u64) -> Row {
        Row::Read(FileRead {
            time_ns: 0,
            device,
            inode,
            offset_bytes: 0,
            len_bytes: 1,
            file_bytes: 0,
            stream: 0,
            thread: 1,
            duration_ns: 0,
            is_fault: false,
        })
    }

    #[test]
    fn search_finds_files_of_one_file_system_by_their_inodes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        fs::create_dir_all(&path).unwrap();
        let file = path.join("file");
        fs::write(&file, "content").unwrap();
        let metadata = fs::metadata(&file).unwrap();
        let device = kernel_number(metadata.dev());
        let mut inodes = BTreeSet::from([metadata.ino(), u64::MAX]);
        let mut found = Vec::new();
        let mut search = Search {
            device,
            inodes: &mut inodes,
            stop: &mut || false,
            found: &mut |inode, path: &Path, bytes| {
                found.push((inode, path.to_owned(), bytes));
                Ok::<_, ()>(())
            },
        };
        search.run(folder.path().to_owned()).unwrap();
        assert_eq!(found, [(metadata.ino(), file, 7)]);
        assert!(inodes.contains(&u64::MAX));
        // Nothing is found on another device.
        let mut none = Search {
            device: device + 1,
            inodes: &mut BTreeSet::from([metadata.ino()]),
            stop: &mut || false,
            found: &mut |_, _, _| Err(()),
        };
        none.run(folder.path().to_owned()).unwrap();
    }

    #[test]
    fn file_without_a_mounted_device_is_counted_but_not_found() {
        let mut files = Files::default();
        for inode in [12, 12, 13, 12] {
            files.add(&read_of(u32::MAX, inode));
        }
        let counts = PathSearch::new(files, 0, None).run(&mut || false, &mut |_| Err(()));
        let expected = PathCounts { files: 2, found: 0 };
        assert_eq!(counts, Ok(expected));
    }
}
