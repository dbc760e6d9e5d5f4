//! A device in memory whose content is a shared base and private copies of the written pages.

use larder_block::{BlockDevice, Result, check_range};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;

/// The size of a page of an [`OverlayDevice`].
pub const OVERLAY_PAGE_BYTES: usize = 4096;

/// The content of a page of an [`OverlayDevice`].
pub type OverlayPage = Arc<[u8; OVERLAY_PAGE_BYTES]>;

/// A writable device in memory. A page contains the bytes of `base` until it is written.
///
/// A clone copies only the table of written pages, so that many states of a large image fit in memory.
#[derive(Debug)]
pub struct OverlayDevice {
    /// The initial content of the device, from offset 0. The device is zero after the end of `base`.
    base: Arc<[u8]>,
    size_bytes: u64,
    pages: RwLock<HashMap<u64, OverlayPage>>,
}

impl OverlayDevice {
    /// Creates a device with the size and the content of `base`.
    #[must_use]
    pub fn new(base: Arc<[u8]>) -> Self {
        Self {
            size_bytes: base.len() as u64,
            base,
            pages: RwLock::new(HashMap::new()),
        }
    }

    /// Creates a device of `size_bytes` zeros. Only written pages take memory.
    #[must_use]
    pub fn zeros(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            ..Self::new(Arc::new([]))
        }
    }

    /// Returns the written pages by number. A page that two devices share is one allocation.
    #[must_use]
    pub fn pages(&self) -> HashMap<u64, OverlayPage> {
        self.pages.read().clone()
    }

    /// Returns the content of page `number` in the base. The result is shorter than a page at the end of the
    /// base, and empty after the end.
    #[must_use]
    pub fn base_page(&self, number: u64) -> &[u8] {
        let start = usize::try_from(number)
            .ok()
            .and_then(|number| number.checked_mul(OVERLAY_PAGE_BYTES))
            .map_or(self.base.len(), |start| start.min(self.base.len()));
        let end = (start + OVERLAY_PAGE_BYTES).min(self.base.len());
        &self.base[start..end]
    }

    /// Calls `visit` for each page that a range of the device overlaps. The arguments are the page number,
    /// the overlapping range within the page, and the corresponding range of a buffer for the whole range.
    fn each_page(
        offset_bytes: u64,
        len_bytes: usize,
        mut visit: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>),
    ) {
        let page_bytes = OVERLAY_PAGE_BYTES as u64;
        let mut done = 0;
        while done < len_bytes {
            let at = offset_bytes + done as u64;
            let inside = usize::try_from(at % page_bytes).expect("below the page size");
            let len = (OVERLAY_PAGE_BYTES - inside).min(len_bytes - done);
            visit(at / page_bytes, inside..inside + len, done..done + len);
            done += len;
        }
    }
}

impl Clone for OverlayDevice {
    fn clone(&self) -> Self {
        Self {
            base: Arc::clone(&self.base),
            size_bytes: self.size_bytes,
            pages: RwLock::new(self.pages()),
        }
    }
}

impl BlockDevice for OverlayDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes(), offset_bytes, buf.len() as u64)?;
        let pages = self.pages.read();
        Self::each_page(offset_bytes, buf.len(), |number, inside, part| {
            let part = &mut buf[part];
            let source = if let Some(page) = pages.get(&number) {
                &page[inside]
            } else {
                let base = self.base_page(number);
                let end = inside.end.min(base.len());
                base.get(inside.start..end).unwrap_or_default()
            };
            let (held, zeros) = part.split_at_mut(source.len());
            held.copy_from_slice(source);
            zeros.fill(0);
        });
        Ok(())
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes(), offset_bytes, buf.len() as u64)?;
        let mut pages = self.pages.write();
        Self::each_page(offset_bytes, buf.len(), |number, inside, part| {
            let page = pages.entry(number).or_insert_with(|| {
                let mut page = [0; OVERLAY_PAGE_BYTES];
                let base = self.base_page(number);
                page[..base.len()].copy_from_slice(base);
                Arc::new(page)
            });
            Arc::make_mut(page)[inside].copy_from_slice(&buf[part]);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_block::Error;

    fn read(device: &OverlayDevice, offset_bytes: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0; len];
        device.read_at(&mut buf, offset_bytes).unwrap();
        buf
    }

    #[test]
    fn write_across_pages_is_read_back_and_leaves_the_base_unchanged() {
        let base: Arc<[u8]> = vec![1; 10_000].into();
        let device = OverlayDevice::new(Arc::clone(&base));
        device.write_at(&[7; 5000], 4000).unwrap();
        assert_eq!(read(&device, 3999, 5002), {
            let mut expected = vec![7; 5002];
            (expected[0], expected[5001]) = (1, 1);
            expected
        });
        assert!(base.iter().all(|&byte| byte == 1));
        assert_eq!(device.pages().len(), 3);
    }

    #[test]
    fn zero_device_returns_written_bytes_and_zeros_elsewhere() {
        let device = OverlayDevice::zeros(1 << 40);
        device.write_at(&[7; 2], 4095).unwrap();
        let mut around = [1; 5000];
        device.read_at(&mut around, 2048).unwrap();
        assert!((around.iter().enumerate()).all(|(at, byte)| match at {
            2047 | 2048 => *byte == 7,
            _ => *byte == 0,
        }));
        assert_eq!(device.clone().size_bytes(), 1 << 40);
        assert_eq!(device.pages().len(), 2);
        assert!(device.read_at(&mut around, (1 << 40) - 4999).is_err());
    }

    #[test]
    fn write_to_a_clone_leaves_the_original_unchanged() {
        let device = OverlayDevice::new(vec![1; 10_000].into());
        device.write_at(&[7], 5).unwrap();
        let copy = device.clone();
        copy.write_at(&[8], 5).unwrap();
        copy.write_at(&[8], 9_999).unwrap();
        assert_eq!(read(&device, 5, 1), [7]);
        assert_eq!(read(&device, 9_999, 1), [1]);
        assert_eq!(read(&copy, 5, 1), [8]);
        assert!(matches!(
            copy.write_at(&[8, 8], 9_999),
            Err(Error::OutOfRange { .. })
        ));
    }
}
