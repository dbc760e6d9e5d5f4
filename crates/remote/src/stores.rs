//! The units that wait to be stored in the disk cache.
//!
//! # Model
//! The queue has only the numbers of the units: a unit is taken from memory when it is stored. So the queue needs no
//! memory for content. Units are stored one after the other, by a thread that may block. The thread starts when a unit
//! is added to an empty queue, and ends when the queue is empty. If the disk is slower than the server, units can be
//! dropped from memory before they are stored; these are not stored. A task that fetches many units in advance can
//! [wait](Stores::wait) so that this does not happen.

use crate::disk_cache::{CachedObject, Error};
use crate::known::Known;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;
use tokio::sync::watch;

/// Where the bytes of a unit are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Image,
    Pack,
}

/// The disk cache of an object, and the units that wait to be stored in it.
#[derive(Debug)]
pub(crate) struct Stores {
    disk: Arc<CachedObject>,
    known: Arc<Known>,
    /// The number of units in the queue, including the one that is being stored.
    waiting: watch::Sender<usize>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    units: VecDeque<(u64, Origin)>,
    /// Whether a thread stores the units.
    is_running: bool,
    /// Whether no more units are added.
    is_closed: bool,
}

impl Stores {
    pub(crate) fn new(disk: Arc<CachedObject>, known: Arc<Known>) -> Self {
        Self {
            disk,
            known,
            waiting: watch::Sender::new(0),
            queue: Mutex::default(),
        }
    }

    /// Adds a unit to memory and, unless the queue is closed, to the queue. Must be called on a thread of the runtime.
    pub(crate) fn keep(self: &Arc<Self>, number: u64, bytes: Bytes, origin: Origin) {
        let mut queue = self.queue.lock();
        if queue.is_closed {
            return self.known.insert(number, bytes);
        }
        // A reader that finds the unit in memory may drop the device, which waits until all units are stored.
        self.waiting.send_modify(|waiting| *waiting += 1);
        self.known.insert(number, bytes);
        queue.units.push_back((number, origin));
        if !std::mem::replace(&mut queue.is_running, true) {
            let stores = Arc::clone(self);
            tokio::task::spawn_blocking(move || stores.run());
        }
    }

    /// Stores all units in the queue.
    fn run(&self) {
        while let Some((number, origin)) = self.next() {
            if let Some([bytes]) = self.known.in_memory(iter::once(number)).as_deref() {
                let stored = match origin {
                    Origin::Image => self.disk.write_unit(number, bytes),
                    Origin::Pack => self.disk.write_pack_unit(number, bytes),
                };
                match stored {
                    Ok(()) => {}
                    Err(error @ Error::Locked { .. }) => {
                        tracing::warn!("the rest of the pack is not cached on disk: {error}");
                    }
                    Err(error) => {
                        tracing::warn!(
                            "data that is read from now on is not cached on disk: {error}"
                        );
                    }
                }
            }
            self.waiting.send_modify(|waiting| *waiting -= 1);
        }
    }

    fn next(&self) -> Option<(u64, Origin)> {
        let mut queue = self.queue.lock();
        let unit = queue.units.pop_front();
        queue.is_running = unit.is_some();
        unit
    }

    /// Closes the queue: units that are delivered from now on are not stored.
    pub(crate) fn close(&self) {
        self.queue.lock().is_closed = true;
    }

    /// Waits until at most `max_units` are in the queue.
    pub(crate) async fn wait(&self, max_units: usize) {
        // The sender exists as long as this value, so the wait cannot fail.
        let mut waiting = self.waiting.subscribe();
        drop(waiting.wait_for(|waiting| *waiting <= max_units).await);
    }
}
