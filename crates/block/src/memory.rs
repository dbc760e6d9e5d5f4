//! A device in memory.

use crate::{BlockDevice, Error, Result};

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
        let out_of_range = || Error::OutOfRange {
            offset_bytes,
            len_bytes: buf.len() as u64,
            size_bytes: self.size_bytes(),
        };
        let start = usize::try_from(offset_bytes).map_err(|_| out_of_range())?;
        let end = start.checked_add(buf.len()).ok_or_else(out_of_range)?;
        let source = self.bytes.get(start..end).ok_or_else(out_of_range)?;
        buf.copy_from_slice(source);
        Ok(())
    }
}
