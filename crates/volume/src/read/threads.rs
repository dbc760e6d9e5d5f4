//! The threads that read ahead.

use super::queue::Queue;
use crate::fill::PageFiller;
use crate::{Error, Result};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Closes the queue if its thread panics, so that no page waits for a thread that has ended.
/// Readers then work without readahead.
struct CloseOnPanic(Arc<Queue>);

impl Drop for CloseOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

/// The readahead threads, joined on drop.
#[derive(Debug)]
pub(super) struct ReadaheadThreads {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl ReadaheadThreads {
    /// Starts as many threads as `queue` is for.
    pub(super) fn start(queue: Queue, filler: &PageFiller) -> Result<Self> {
        let mut started = Self {
            queue: Arc::new(queue),
            threads: Vec::new(),
        };
        for index in 0..started.queue.threads() {
            let (queue, filler) = (Arc::clone(&started.queue), filler.clone());
            let thread = std::thread::Builder::new()
                .name(format!("readahead-{index}"))
                .spawn(move || {
                    let queue = CloseOnPanic(queue);
                    while let Some(job) = queue.0.pop() {
                        job.run(&filler);
                    }
                })
                .map_err(Error::Thread)?;
            started.threads.push(thread);
        }
        Ok(started)
    }

    /// Returns the queue of the threads.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }
}

impl Drop for ReadaheadThreads {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // A panic was reported by the thread; dropping a volume does not repeat it.
            let _ = thread.join();
        }
    }
}
