//! Buffers for the content of new files, which are shared with a [`ContentQueue`](crate::ContentQueue) for a time.

use std::sync::Arc;

/// A pool of buffers of the same length. Memory that was used before is faster than new memory, which the kernel must
/// allocate and clear.
#[derive(Debug)]
pub struct ContentBuffers {
    len: usize,
    kept: Vec<Arc<Vec<u8>>>,
}

impl ContentBuffers {
    /// Returns an empty pool of buffers of `len` bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self {
            len,
            kept: Vec::new(),
        }
    }

    /// Returns a buffer that is not shared, and whose content is unspecified. Reuses a kept buffer if one is no longer
    /// shared.
    pub fn take(&mut self) -> Arc<Vec<u8>> {
        let unshared = |buffer: &mut Arc<Vec<u8>>| Arc::get_mut(buffer).is_some();
        match self.kept.iter_mut().position(unshared) {
            Some(at) => self.kept.swap_remove(at),
            None => Arc::new(vec![0; self.len]),
        }
    }

    /// Keeps `buffer`, which can still be shared, so that it can be reused later. Drops a buffer of another length.
    pub fn keep(&mut self, buffer: Arc<Vec<u8>>) {
        if buffer.len() == self.len {
            self.kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_reused_when_it_is_not_shared() {
        let mut buffers = ContentBuffers::new(8);
        let first = buffers.take();
        let place = first.as_ptr();
        let shared = Arc::clone(&first);
        buffers.keep(first);
        let second = buffers.take();
        assert_ne!(second.as_ptr(), place);
        assert_eq!(second.len(), 8);
        drop(shared);
        buffers.keep(Arc::default());
        assert_eq!(buffers.take().as_ptr(), place);
    }
}
