//! A device in memory.

use crate::{BlockDevice, Result, check_range, waiting};
use parking_lot::RwLock;

/// A writable device whose content is a vector of bytes. A flush does nothing.
#[derive(Debug, Default)]
pub struct MemoryDevice {
    size_bytes: u64,
    bytes: RwLock<Vec<u8>>,
}

impl MemoryDevice {
    /// Creates a device that contains `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            size_bytes: bytes.len() as u64,
            bytes: RwLock::new(bytes),
        }
    }

    /// Returns a copy of the content.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.read().clone()
    }
}

/// Returns `offset_bytes`, which must be inside the vector, as an index.
fn index(offset_bytes: u64) -> usize {
    usize::try_from(offset_bytes).expect("the offset is inside the vector")
}

impl BlockDevice for MemoryDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        waiting::check();
        check_range(self.size_bytes(), offset_bytes, buf.len() as u64)?;
        let start = index(offset_bytes);
        buf.copy_from_slice(&self.bytes.read()[start..start + buf.len()]);
        Ok(())
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        waiting::check();
        check_range(self.size_bytes(), offset_bytes, buf.len() as u64)?;
        let start = index(offset_bytes);
        self.bytes.write()[start..start + buf.len()].copy_from_slice(buf);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn write_changes_only_its_bytes() {
        let device = MemoryDevice::new(vec![1; 10]);
        device.write_at(&[7, 8], 4).unwrap();
        assert_eq!(device.to_bytes(), [1, 1, 1, 1, 7, 8, 1, 1, 1, 1]);
        assert!(matches!(
            device.write_at(&[7, 8], 9),
            Err(Error::OutOfRange { .. })
        ));
    }

    #[test]
    fn read_at_edges_of_range_checks_bounds() {
        let device = MemoryDevice::new((0..100).collect());
        let mut buf = [0; 4];
        device.read_at(&mut buf, 96).unwrap();
        assert_eq!(buf, [96, 97, 98, 99]);
        device.read_at(&mut [], 100).unwrap();
        for offset_bytes in [97, 100, 101, u64::MAX] {
            assert!(matches!(
                device.read_at(&mut buf, offset_bytes),
                Err(Error::OutOfRange { .. })
            ));
        }
    }
}
