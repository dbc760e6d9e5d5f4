//! A device in memory.

use crate::{BlockDevice, Result, check_range};

/// A device whose contents are a vector of bytes.
#[derive(Clone, Debug, Default)]
pub struct MemoryDevice {
    bytes: Vec<u8>,
}

impl MemoryDevice {
    /// A device that holds `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }
}

impl BlockDevice for MemoryDevice {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes(), offset_bytes, buf.len() as u64)?;
        let start = usize::try_from(offset_bytes).expect("lies inside a vector");
        buf.copy_from_slice(&self.bytes[start..start + buf.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

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
