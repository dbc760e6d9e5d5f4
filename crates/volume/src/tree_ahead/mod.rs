//! Readahead of directory trees: reads metadata of the directories that a program will probably list next.
//!
//! # Model
//! The kernel reads a directory and an inode table ahead, but not the next directory. For a device with a long
//! latency, such as a server, a walk through a tree then takes two round trips for each directory. Here a thread
//! follows the walk ([`walk`]) and reads ahead:
//!
//! - when a listing begins, the inodes of its entries, because a program usually requests their attributes;
//! - when the listings form a walk, the next directories, several in one *batch*.
//!
//! A batch has three phases: the thread reads the inodes of the directories, then the blocks of the directories, and
//! then the inodes of the entries. The requests of a phase are in flight at once, so a phase takes one round trip for
//! any number of directories. The directory that a program begins to list is a batch of its own.
//!
//! The blocks that are read ahead are stored in the buffer cache. A volume that is open for writing, or was opened
//! without the option [`tree_readahead`](crate::OpenOptions::tree_readahead), has no such thread. While the device
//! does not [want readahead](BlockDevice::wants_readahead), the thread does not read the next directories.
//!
//! # Limits
//! The three phases of a batch together prefetch at most an eighth of the cache. Beyond this, the thread reads the
//! inodes and the blocks of the directories one after another, and does not read the inodes of the entries. A batch
//! examines at most [`MAX_ENTRIES`] entries. A directory is not read if it is larger than [`MAX_LISTED_BYTES`] or, if
//! no program has listed it yet, larger than [`MAX_AHEAD_BYTES`].
//!
//! # Locking
//! The lock of the queue is not held while anything is read.

mod walk;

use crate::live::Inodes;
use crate::stats::TreeReadaheadStats;
use larder_block::{BlockDevice, Priority};
use larder_ext4::{FileKind, Ino, Inode};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use walk::{Walk, Walks};

/// The maximum number of listings that wait for the thread. If there are more, the oldest is dropped.
const MAX_LISTINGS: usize = 1024;
/// The maximum number of entries whose inodes are read ahead in a batch.
const MAX_ENTRIES: usize = 1 << 16;
/// The maximum size of a directory that is read before a program lists it.
const MAX_AHEAD_BYTES: u64 = 1 << 20;
/// The maximum size of a directory that is read, with the inodes of its entries, when a program lists it.
const MAX_LISTED_BYTES: u64 = 16 << 20;

/// The readahead of directory trees of a volume. Dropping this value waits until the thread ends. The thread may have
/// to wait for the device first.
#[derive(Debug)]
pub(crate) struct TreeReadahead {
    shared: Arc<Shared>,
    /// `None` while this is dropped.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inodes: Arc<Inodes>,
    /// The device with the image.
    device: Arc<dyn BlockDevice>,
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
    pub fn start(inodes: &Arc<Inodes>, device: Arc<dyn BlockDevice>) -> crate::Result<Self> {
        let shared = Arc::new(Shared {
            inodes: Arc::clone(inodes),
            device,
            queue: Mutex::default(),
            changed: Condvar::new(),
            directories_ahead: AtomicU64::new(0),
            directories_used: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&shared);
        let run = move || {
            // `AssertUnwindSafe` is correct: a panic does not poison the locks, and only this thread uses the
            // walks.
            if catch_unwind(AssertUnwindSafe(|| of_thread.run())).is_err() {
                tracing::error!("the thread that reads directory trees ahead has panicked");
            }
        };
        let thread = thread::Builder::new()
            .name("larder-tree".to_owned())
            .spawn(run)
            .map_err(crate::Error::Thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Records that a program begins to list `dir`. Does not wait.
    pub fn listing(&self, dir: Ino) {
        let mut queue = self.shared.queue.lock();
        if queue.listings.len() == MAX_LISTINGS {
            queue.listings.pop_front();
        }
        queue.listings.push_back(dir);
        self.shared.changed.notify_one();
    }

    pub fn stats(&self) -> TreeReadaheadStats {
        TreeReadaheadStats {
            directories_ahead: self.shared.directories_ahead.load(Relaxed),
            directories_used: self.shared.directories_used.load(Relaxed),
        }
    }
}

impl Drop for TreeReadahead {
    fn drop(&mut self) {
        self.shared.queue.lock().is_ending = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut walks = Walks::default();
        while let Some(dir) = self.next_listing() {
            let (walk, was_ahead) = walks.listed(dir);
            if was_ahead {
                self.directories_used.fetch_add(1, Relaxed);
            }
            self.read(walk, &[dir], MAX_LISTED_BYTES);
            while self.device.wants_readahead() && !self.is_interrupted() {
                let dirs = walk.next();
                if dirs.is_empty() {
                    break;
                }
                self.directories_ahead.fetch_add(dirs.len() as u64, Relaxed);
                self.read(walk, &dirs, MAX_AHEAD_BYTES);
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

    /// Returns whether another listing is queued, or the readahead is ending.
    fn is_interrupted(&self) -> bool {
        let queue = self.queue.lock();
        queue.is_ending || !queue.listings.is_empty()
    }

    /// Reads the inodes of `dirs`, and the blocks of those directories that have at most `max_bytes`. Starts to read
    /// the inodes of the entries. Adds the subdirectories to `walk`.
    fn read(&self, walk: &mut Walk, dirs: &[Ino], max_bytes: u64) {
        let fs = &self.inodes.fs;
        let mut budget = fs.buffers().prefetch_budget();
        fs.start_reading_inodes(dirs.iter().copied(), Priority::Background, &mut budget);
        // An error is ignored here: a program that lists the directory gets the same error.
        let dirs = dirs.iter().filter_map(|&ino| self.inodes.inode(ino).ok());
        let dirs: Vec<Inode> = dirs.filter(|dir| dir.size_bytes() <= max_bytes).collect();
        for dir in &dirs {
            fs.start_reading_dir(dir, Priority::Background, &mut budget);
        }
        let mut entries = Vec::new();
        for dir in &dirs {
            if self.queue.lock().is_ending {
                return;
            }
            let subdirs = self.list(dir, &mut entries);
            walk.found(dir.ino(), &subdirs);
        }
        fs.start_reading_inodes(entries, Priority::Background, &mut budget);
    }

    /// Returns the subdirectories of `dir`, and adds the inode numbers of its entries to `entries`, up to
    /// [`MAX_ENTRIES`].
    fn list(&self, dir: &Inode, entries: &mut Vec<Ino>) -> Vec<Ino> {
        let mut subdirs = Vec::new();
        let listed = self.inodes.fs.read_dir(dir, 0, &mut |entry| {
            if entries.len() == MAX_ENTRIES {
                return ControlFlow::Break(());
            }
            if entry.name != b"." && entry.name != b".." {
                entries.push(entry.ino);
                if entry.file_type.kind() == Some(FileKind::Directory) {
                    subdirs.push(entry.ino);
                }
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = listed {
            tracing::debug!(ino = %dir.ino(), %error, "cannot read a directory ahead");
        }
        subdirs
    }
}
