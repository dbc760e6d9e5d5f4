//! The flusher: the thread that writes back and commits what has waited long enough, and the limits
//! that say when there is too much of it.
//!
//! Model: `wb_workfn` and `balance_dirty_pages`, and jbd2's commit timer.
//!
//! # Tunables
//! | name | unit | default | Linux |
//! |---|---|---|---|
//! | background share | of the cache | a quarter | 10% of memory |
//! | share at which writers wait | of the cache | a half | 20% of memory |
//! | `commit_seconds` | seconds | 5 | 5; 30 for content |

use crate::read::Reader;
use crate::{Error, Result};
use larder_cache::Caches;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it looks whether the log has room.
const LOOK: Duration = Duration::from_secs(1);

/// How many blocks may be dirty.
#[derive(Debug)]
pub(crate) struct DirtyLimits {
    /// From here on the flusher works.
    background_blocks: u64,
    /// From here on those who write do.
    writer_blocks: u64,
}

impl DirtyLimits {
    pub(crate) fn of(caches: &Caches, block_size_bytes: usize, has_flusher: bool) -> Self {
        let frames = u64::from(caches.pages.frames().capacity());
        let per_page = caches.pages.page_bytes() / block_size_bytes.max(1);
        let blocks = frames * u64::try_from(per_page).unwrap_or(1).max(1);
        let background_blocks = blocks / 4;
        Self {
            background_blocks,
            writer_blocks: if has_flusher {
                blocks / 2
            } else {
                background_blocks
            },
        }
    }
}

/// Tells the flusher what it is wanted for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<Rung>,
    condvar: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rung {
    #[default]
    Silent,
    WriteBack,
    Stop,
}

impl Bell {
    fn ring(&self, what: Rung) {
        let mut rung = self.rung.lock();
        if *rung != Rung::Stop {
            *rung = what;
            self.condvar.notify_one();
        }
    }

    /// Waits until it rings, or until `deadline`; says which.
    fn wait(&self, deadline: Instant) -> Rung {
        let mut rung = self.rung.lock();
        while *rung == Rung::Silent {
            if self.condvar.wait_until(&mut rung, deadline).timed_out() {
                break;
            }
        }
        let heard = *rung;
        if heard == Rung::WriteBack {
            *rung = Rung::Silent;
        }
        heard
    }
}

impl Reader {
    /// Writes back if too much is dirty; who has written calls it, with no lock.
    pub(crate) fn balance_dirty(&self) {
        let dirty = self.dirty_files.blocks();
        if dirty > self.limits.writer_blocks {
            self.write_back_for_room();
        } else if dirty > self.limits.background_blocks {
            self.bell.ring(Rung::WriteBack);
        }
    }

    /// Writes back everything, of whichever files. What goes wrong is not the caller's, who only
    /// needs room: it stays dirty, and whoever syncs is told.
    pub(crate) fn write_back_for_room(&self) {
        if let Err(error) = self.write_back_all() {
            tracing::error!(%error, "writing back failed");
        }
    }

    /// Writes back all that is dirty, and commits, whichever file could not be written.
    pub(crate) fn write_back_and_commit(&self) -> Result<()> {
        let written = self.write_back_all();
        self.fs.commit(self.fs.running_tid()?)?;
        written
    }
}

/// The flusher of a volume: stopped and joined when this is dropped.
#[derive(Debug)]
pub(crate) struct Flusher {
    reader: Arc<Reader>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts one that commits every `commit_seconds`; 0 is taken as the default, as Linux does.
    pub(crate) fn start(reader: &Arc<Reader>, commit_seconds: u32) -> Result<Self> {
        let seconds = match commit_seconds {
            0 => 5,
            seconds => seconds,
        };
        let interval = Duration::from_secs(seconds.into());
        let theirs = Arc::clone(reader);
        let thread = std::thread::Builder::new()
            .name("flusher".to_owned())
            .spawn(move || run(&theirs, interval))
            .map_err(Error::Thread)?;
        Ok(Self {
            reader: Arc::clone(reader),
            thread: Some(thread),
        })
    }
}

fn run(reader: &Reader, interval: Duration) {
    let mut due = Instant::now() + interval;
    loop {
        let done = match reader.bell.wait(due.min(Instant::now() + LOOK)) {
            Rung::Stop => return,
            Rung::WriteBack => {
                reader.write_back_for_room();
                Ok(())
            }
            Rung::Silent if Instant::now() >= due => {
                due = Instant::now() + interval;
                reader.write_back_and_commit()
            }
            Rung::Silent => reader.fs.commit_if_old(interval).map_err(Error::from),
        };
        if let Err(error) = done {
            // Whoever syncs is told too.
            tracing::error!(%error, "writing back failed");
            if !reader.fs.is_writable() {
                return;
            }
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.reader.bell.ring(Rung::Stop);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}
