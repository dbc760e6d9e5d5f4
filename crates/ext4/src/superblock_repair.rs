//! A read-only device that returns a repaired superblock in place of a damaged one. The image does
//! not change.

use crate::ondisk::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET_BYTES, SuperblockRepair};
use larder_block::{BlockDevice, Request, Result, divided, perform_blocking};
use std::io::IoSliceMut;
use std::sync::Arc;

/// The start and the end of the superblock on the device, in bytes.
const START_BYTES: u64 = SUPERBLOCK_OFFSET_BYTES;
const END_BYTES: u64 = SUPERBLOCK_OFFSET_BYTES + SUPERBLOCK_BYTES as u64;

#[derive(Debug)]
struct RepairedDevice {
    inner: Arc<dyn BlockDevice>,
    repair: SuperblockRepair,
}

impl SuperblockRepair {
    /// Returns a read-only device with the contents of `device` after the repair.
    #[must_use]
    pub fn repaired_view(self, device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        Arc::new(RepairedDevice {
            inner: device,
            repair: self,
        })
    }
}

impl RepairedDevice {
    /// Replaces the bytes of the superblock in `buf` with the repaired bytes. `buf` was read at
    /// `offset_bytes`.
    fn patch(&self, buf: &mut [u8], offset_bytes: u64) {
        let end_bytes = offset_bytes.saturating_add(buf.len() as u64);
        let (from, to) = (offset_bytes.max(START_BYTES), end_bytes.min(END_BYTES));
        if from >= to {
            return;
        }
        let index = |at: u64, start: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
        let target = index(from, offset_bytes)..index(to, offset_bytes);
        let source = index(from, START_BYTES)..index(to, START_BYTES);
        buf[target].copy_from_slice(&self.repair.bytes()[source]);
    }
}

impl BlockDevice for RepairedDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.inner)
    }

    fn submit(&self, requests: Vec<Request>) {
        let (first, others) = divided(requests, |at, _| at < END_BYTES);
        self.inner.submit(others);
        perform_blocking(self, first);
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.inner.read_at(buf, offset_bytes)?;
        self.patch(buf, offset_bytes);
        Ok(())
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.inner.read_vectored_at(bufs, offset_bytes)?;
        let mut at_bytes = offset_bytes;
        for buf in bufs {
            self.patch(buf, at_bytes);
            at_bytes += buf.len() as u64;
        }
        Ok(())
    }
}
