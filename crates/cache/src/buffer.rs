//! The buffer cache: metadata blocks, found by device and block number.

use larder_block::BlockDevice;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// Interim: a locked map, with the interface that the real cache keeps.
#[derive(Debug)]
pub struct BufferCache {
    device: Arc<dyn BlockDevice>,
    block_size_bytes: usize,
    blocks: Mutex<HashMap<u64, Arc<[u8]>>>,
}

/// A block's contents, pinned while this lives. Exactly one file-system block long.
#[derive(Debug)]
pub struct Buffer<'a> {
    bytes: Arc<[u8]>,
    cache: PhantomData<&'a BufferCache>,
}

impl Deref for Buffer<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BufferCache {
    /// A cache of its own for `device`, as large as a handful of blocks: what
    /// reading the journal needs before the real caches exist.
    #[must_use]
    pub fn small(device: Arc<dyn BlockDevice>, block_size_bytes: usize) -> Self {
        Self {
            device,
            block_size_bytes,
            blocks: Mutex::new(HashMap::new()),
        }
    }

    /// Size of a block in bytes.
    #[must_use]
    pub fn block_size_bytes(&self) -> usize {
        self.block_size_bytes
    }

    /// The contents of `block`, read from the device if not cached.
    ///
    /// `verify` checks the contents (a checksum, say) and runs until it has
    /// once succeeded for this block since it was read; a block that failed
    /// is checked again, and so fails again, at each later call.
    ///
    /// # Errors
    /// The device's error, or `verify`'s.
    pub fn read<E: From<larder_block::Error>>(
        &self,
        block: u64,
        verify: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Buffer<'_>, E> {
        if let Some(bytes) = self.blocks.lock().get(&block) {
            return Ok(Buffer {
                bytes: bytes.clone(),
                cache: PhantomData,
            });
        }
        let mut bytes = vec![0; self.block_size_bytes];
        self.device.read_at(
            &mut bytes,
            block.saturating_mul(self.block_size_bytes as u64),
        )?;
        verify(&bytes)?;
        let bytes: Arc<[u8]> = bytes.into();
        self.blocks.lock().insert(block, bytes.clone());
        Ok(Buffer {
            bytes,
            cache: PhantomData,
        })
    }

    /// Hints that `count` blocks from `block` on will be read soon: they are
    /// read from the device together if they are not cached. Errors are left
    /// for [`BufferCache::read`] to find.
    pub fn prefetch(&self, _block: u64, _count: u32) {}
}
