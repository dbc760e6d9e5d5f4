//! The threads that read ahead.

use crate::queue::Queue;
use crate::read::Reader;
use crate::{Error, Result};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Closes the queue if its thread panics, so that no page waits for a thread
/// that is gone: readers then do without readahead.
struct CloseOnPanic<'a>(&'a Queue);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

/// The readahead threads: joined when this is dropped.
#[derive(Debug)]
pub(crate) struct Readers {
    reader: Arc<Reader>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(reader: &Arc<Reader>, threads: usize) -> Result<Self> {
        let mut readers = Self {
            reader: Arc::clone(reader),
            threads: Vec::new(),
        };
        for index in 0..threads {
            let reader = Arc::clone(reader);
            let thread = std::thread::Builder::new()
                .name(format!("readahead-{index}"))
                .spawn(move || {
                    let _closes = CloseOnPanic(&reader.queue);
                    while let Some(job) = reader.queue.pop() {
                        reader.run(job);
                    }
                })
                .map_err(Error::Thread)?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// What the threads read for.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.reader.queue.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; dropping a volume does not repeat it.
            let _ = thread.join();
        }
    }
}
