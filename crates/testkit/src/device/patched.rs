//! A device with changed bytes, which copies only the changed pages.

use larder_block::{BlockDevice, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE_BYTES: u64 = 4096;

/// A device that shows another device with patches.
#[derive(Debug)]
pub struct PatchedDevice {
    inner: Arc<dyn BlockDevice>,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl PatchedDevice {
    /// Creates a device that shows `inner` without patches.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self {
            inner,
            pages: BTreeMap::new(),
        }
    }

    /// Overwrites the bytes at `offset_bytes`. Bytes past the end of the device are dropped.
    ///
    /// # Errors
    /// Fails if the inner device cannot be read.
    pub fn patch(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        for (at, &byte) in (offset_bytes..self.inner.size_bytes()).zip(bytes) {
            let page = self.page(at / PAGE_BYTES)?;
            if let Some(target) = usize::try_from(at % PAGE_BYTES)
                .ok()
                .and_then(|at| page.get_mut(at))
            {
                *target = byte;
            }
        }
        Ok(())
    }

    fn page(&mut self, number: u64) -> Result<&mut Vec<u8>> {
        if !self.pages.contains_key(&number) {
            let start = number * PAGE_BYTES;
            let len = (self.inner.size_bytes() - start).min(PAGE_BYTES);
            let mut page = vec![0; usize::try_from(len).unwrap_or(0)];
            self.inner.read_at(&mut page, start)?;
            self.pages.insert(number, page);
        }
        Ok(self.pages.entry(number).or_default())
    }
}

impl BlockDevice for PatchedDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.inner.read_at(buf, offset_bytes)?;
        let end = offset_bytes + buf.len() as u64;
        let touched = offset_bytes / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        for (&number, page) in self.pages.range(touched) {
            let start = number * PAGE_BYTES;
            let from = start.max(offset_bytes);
            let to = (start + page.len() as u64).min(end);
            let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let source = page.get(index(from - start)..index(to - start));
            let target = buf.get_mut(index(from - offset_bytes)..index(to - offset_bytes));
            if let (Some(source), Some(target)) = (source, target) {
                target.copy_from_slice(source);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_block::MemoryDevice;

    fn numbered() -> Arc<MemoryDevice> {
        let bytes = (0..10_000_u32).map(|i| i.to_le_bytes()[0]).collect();
        Arc::new(MemoryDevice::new(bytes))
    }

    #[test]
    fn read_across_patches_returns_patches_and_base() {
        let mut device = PatchedDevice::new(numbered());
        device.patch(4090, &[99; 10]).unwrap();
        let mut buf = [0; 20];
        device.read_at(&mut buf, 4085).unwrap();
        let mut expected: Vec<u8> = (4085..4105_u32).map(|i| i.to_le_bytes()[0]).collect();
        expected[5..15].fill(99);
        assert_eq!(buf[..], expected);
    }
}
