//! Readahead of directory trees: metadata of directories that a program will probably list next.
//!
//! # Model
//! The kernel reads a directory and an inode table ahead, but not the next directory. For a device with a long
//! latency, such as a server, a walk through a tree then takes two round trips for each directory. Here a thread
//! follows the walk ([`walk`]) and reads ahead:
//!
//! - when a listing begins, the inodes of its entries, because a program usually requests their attributes;
//! - when the listings form a walk, the next directories: first their inodes, then their blocks, then the inodes
//!   of their entries. The requests of a step are in flight at once, so a step takes one round trip for any number
//!   of directories.
//!
//! What is read ahead is stored in the buffer cache. Nothing is read ahead of a volume that is open for writing,
//! or without the option [`tree_readahead`](crate::OpenOptions::tree_readahead).
//!
//! # Locking
//! The lock of the queue is not held while anything is read. The thread has its own references to what it uses, so
//! it may outlive the volume until the device answers.

mod walk;

use crate::live::Inodes;
use crate::stats::TreeReadaheadStats;
use larder_block::Priority;
use larder_ext4::{FileKind, Ino, Inode};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use walk::Walk;

/// The maximum number of listings that wait for the thread. Older ones are dropped.
const MAX_LISTINGS: usize = 1024;
/// The maximum number of entries of a directory whose inodes are read ahead.
const MAX_ENTRIES: usize = 1 << 16;

/// The readahead of directory trees of a volume. Dropping it ends its thread, after the current read.
#[derive(Debug)]
pub(crate) struct TreeReadahead(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    inodes: Arc<Inodes>,
    queue: Mutex<Queue>,
    changed: Condvar,
    directories_ahead: AtomicU64,
    directories_used: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    /// The directories that a program began to list, the oldest first.
    listings: VecDeque<Ino>,
    is_ending: bool,
}

impl TreeReadahead {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::Thread`](crate::Error::Thread).
    pub fn start(inodes: &Arc<Inodes>) -> crate::Result<Self> {
        let shared = Arc::new(Shared {
            inodes: Arc::clone(inodes),
            queue: Mutex::default(),
            changed: Condvar::new(),
            directories_ahead: AtomicU64::new(0),
            directories_used: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("larder-tree".to_owned())
            .spawn(move || of_thread.run())
            .map_err(crate::Error::Thread)?;
        Ok(Self(shared))
    }

    /// Records that a program begins to list `dir`. Does not wait.
    pub fn listing(&self, dir: Ino) {
        let mut queue = self.0.queue.lock();
        if queue.listings.len() == MAX_LISTINGS {
            queue.listings.pop_front();
        }
        queue.listings.push_back(dir);
        self.0.changed.notify_one();
    }

    pub fn stats(&self) -> TreeReadaheadStats {
        TreeReadaheadStats {
            directories_ahead: self.0.directories_ahead.load(Relaxed),
            directories_used: self.0.directories_used.load(Relaxed),
        }
    }
}

impl Drop for TreeReadahead {
    fn drop(&mut self) {
        self.0.queue.lock().is_ending = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn run(&self) {
        let mut walk = Walk::default();
        while let Some(dir) = self.next_listing() {
            if walk.listed(dir) {
                self.directories_used.fetch_add(1, Relaxed);
            }
            self.read(&mut walk, &[dir], Priority::Demand);
            while !self.is_interrupted() {
                let dirs = walk.next();
                if dirs.is_empty() {
                    break;
                }
                self.directories_ahead.fetch_add(dirs.len() as u64, Relaxed);
                self.read(&mut walk, &dirs, Priority::Background);
            }
        }
    }

    /// Waits for a listing and returns its directory, or `None` at the end.
    fn next_listing(&self) -> Option<Ino> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_ending {
                return None;
            }
            if let Some(dir) = queue.listings.pop_front() {
                return Some(dir);
            }
            self.changed.wait(&mut queue);
        }
    }

    /// Returns whether a listing waits, or the end.
    fn is_interrupted(&self) -> bool {
        let queue = self.queue.lock();
        queue.is_ending || !queue.listings.is_empty()
    }

    /// Reads the inodes and the blocks of `dirs`, and starts to read the inodes of their entries. Adds their
    /// subdirectories to `walk`.
    fn read(&self, walk: &mut Walk, dirs: &[Ino], priority: Priority) {
        let fs = &self.inodes.fs;
        fs.start_reading_inodes(dirs.iter().copied(), priority);
        // A program that needs a damaged or unreadable directory gets the error.
        let dirs = dirs.iter().filter_map(|&ino| self.inodes.inode(ino).ok());
        let dirs: Vec<Inode> = dirs.collect();
        for dir in &dirs {
            fs.start_reading_dir(dir, priority);
        }
        let mut entries = Vec::new();
        for dir in &dirs {
            let mut subdirs = Vec::new();
            let mut left = MAX_ENTRIES;
            let listed = fs.read_dir(dir, 0, &mut |entry| {
                if entry.name != b"." && entry.name != b".." {
                    entries.push(entry.ino);
                    if entry.file_type.kind() == Some(FileKind::Directory) {
                        subdirs.push(entry.ino);
                    }
                }
                left -= 1;
                if left > 0 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            if let Err(error) = listed {
                tracing::debug!(ino = %dir.ino(), %error, "cannot read a directory ahead");
            }
            walk.found(dir.ino(), &subdirs);
        }
        fs.start_reading_inodes(entries, priority);
    }
}
