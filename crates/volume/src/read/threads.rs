//! The threads that read ahead.

use super::queue::Queue;
use crate::fill::PageFiller;
use crate::{Error, Result};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Closes the queue if the thread that owns this guard panics. Otherwise, queued pages could wait
/// for a thread that has ended. Readers then continue without readahead.
struct CloseOnPanic(Arc<Queue>);

impl Drop for CloseOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

/// The readahead threads. Dropping this closes the queue and waits for the threads.
#[derive(Debug)]
pub(super) struct ReadaheadThreads {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl ReadaheadThreads {
    /// Starts the number of threads that `queue` specifies.
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
            // The thread has already reported its panic. Dropping a volume must not panic again.
            let _ = thread.join();
        }
    }
}
