//! The units that wait to be stored in the disk cache.
//!
//! # Model
//! Units are stored one after the other, by a thread that may block. The thread starts when a unit is added to
//! an empty queue, and ends when the queue is empty. If the queue is full, the disk is slower than the server,
//! and further units are not stored.

use crate::disk_cache::CachedObject;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The maximum number of units that wait. They take 32 MiB.
const MAX_UNITS: u32 = 512;

/// The disk cache of an object, and the units that wait to be stored in it.
#[derive(Debug)]
pub(crate) struct Stores {
    disk: Arc<CachedObject>,
    /// A permit for each unit that may wait.
    room: Arc<Semaphore>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    units: VecDeque<Waiting>,
    /// Whether a thread stores the units.
    is_running: bool,
}

/// A unit that waits. Its permit is returned when it is stored.
#[derive(Debug)]
struct Waiting {
    number: u64,
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl Stores {
    pub(crate) fn new(disk: Arc<CachedObject>) -> Self {
        Self {
            disk,
            room: Arc::new(Semaphore::new(MAX_UNITS as usize)),
            queue: Mutex::default(),
        }
    }

    /// Adds a unit to the queue, if there is room. Must be called on a thread of the runtime.
    pub(crate) fn push(self: &Arc<Self>, number: u64, bytes: Bytes) {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return;
        };
        let mut queue = self.queue.lock();
        queue.units.push_back(Waiting {
            number,
            bytes,
            _permit: permit,
        });
        if !std::mem::replace(&mut queue.is_running, true) {
            let stores = Arc::clone(self);
            tokio::task::spawn_blocking(move || stores.run());
        }
    }

    /// Stores all units in the queue.
    fn run(&self) {
        while let Some(unit) = self.next() {
            if let Err(error) = self.disk.write_unit(unit.number, &unit.bytes) {
                tracing::warn!("data that is read from now on is not cached on disk: {error}");
            }
        }
    }

    fn next(&self) -> Option<Waiting> {
        let mut queue = self.queue.lock();
        let unit = queue.units.pop_front();
        queue.is_running = unit.is_some();
        unit
    }

    /// Waits until the queue is empty, and all units are stored.
    pub(crate) async fn finish(&self) {
        // The semaphore is never closed.
        drop(self.room.acquire_many(MAX_UNITS).await);
    }
}
