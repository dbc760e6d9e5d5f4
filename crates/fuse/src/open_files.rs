//! The table of files that the kernel has opened with a request.
//!
//! Model: a file table whose numbers, called handles, are never reused. On most mounts the table is empty,
//! because the kernel opens files without a request and reads them by their node number.
//!
//! Locking: one lock guards the table. It is held to find, add or remove an entry, but not during a read.

use larder::OpenFile;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of an open file in the table, or [`Handle::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle(pub u64);

impl Handle {
    /// The handle of a file that is not in the table, because the kernel opened the file without a
    /// request, or because the mount is writable.
    pub(crate) const NONE: Self = Self(0);
}

/// The table of open files.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: RwLock<HashMap<Handle, Arc<OpenFile>>>,
    last: AtomicU64,
}

impl OpenFiles {
    /// Adds `file`, and returns its handle.
    pub(crate) fn add(&self, file: OpenFile) -> Handle {
        let handle = Handle(self.last.fetch_add(1, Relaxed) + 1);
        self.files.write().insert(handle, Arc::new(file));
        handle
    }

    /// Returns the file of `handle`, if it is open.
    pub(crate) fn get(&self, handle: Handle) -> Option<Arc<OpenFile>> {
        if handle == Handle::NONE {
            return None;
        }
        self.files.read().get(&handle).cloned()
    }

    /// Closes the file of `handle`.
    pub(crate) fn remove(&self, handle: Handle) {
        self.files.write().remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder::{OpenOptions, Volume};
    use larder_testkit::image::LargeFile;
    use larder_testkit::{Requirement, skip};

    #[test]
    fn handle_finds_its_file_until_closed_and_is_not_reused() {
        if skip(&["mke2fs", "debugfs"].map(Requirement::Tool)) {
            return;
        }
        let large = LargeFile::new(1).unwrap();
        let volume = Volume::open_device(large.device, &OpenOptions::default()).unwrap();
        let ino = volume.resolve(large.path.as_bytes()).unwrap();
        let files = OpenFiles::default();
        let [first, second] = [(); 2].map(|()| files.add(volume.open_file(ino).unwrap()));
        assert_ne!(first, second);
        files.remove(first);
        assert!(files.get(first).is_none());
        assert_eq!(files.get(second).map(|file| file.ino()), Some(ino));
        assert!(![first, second].contains(&files.add(volume.open_file(ino).unwrap())));
        assert!(files.get(Handle::NONE).is_none());
    }
}
