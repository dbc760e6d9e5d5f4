//! Where the image of a test is stored: in memory, or in a file with a given back end.

use crate::crash::ImageFile;
use crate::error::{Error, Result};
use crate::report_skipped;
use larder_block::{BackEnd, BlockDevice, CountingDevice, DirectDevice, FileDevice, FileRange};
use larder_instruments::{OVERLAY_PAGE_BYTES, OverlayDevice};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A kind of storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// A device with blocking calls.
    #[default]
    Memory,
    /// A file in the kernel's page cache.
    File(BackEnd),
    /// A file that is opened for direct I/O. A thread that waits for a write also uses the back end, instead
    /// of a blocking call.
    DirectFile(BackEnd),
}

impl Medium {
    /// Returns the kinds of files that this machine supports: with and without direct I/O, for both back
    /// ends. Reports the kinds that it does not support.
    #[must_use]
    pub fn files() -> Vec<Self> {
        let back_ends = [BackEnd::IoUring, BackEnd::Threads];
        let mut files = Vec::from(back_ends.map(Self::File));
        files.extend(back_ends.map(Self::DirectFile));
        let probe = OverlayDevice::new(Arc::new([0; OVERLAY_PAGE_BYTES]));
        files.retain(|medium| match medium.store(&probe) {
            Ok(_) => true,
            Err(error) => {
                report_skipped(format!("{medium}: {error}"));
                false
            }
        });
        files
    }

    /// Stores a copy of `content`.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if the machine does not support the medium.
    pub fn store(self, content: &OverlayDevice) -> Result<Stored> {
        let base = content.clone();
        let (device, file): (Arc<dyn BlockDevice>, _) = match self {
            Self::Memory => (Arc::new(content.clone()), None),
            Self::File(back_end) | Self::DirectFile(back_end) => {
                let file = ImageFile::new(content)?;
                let is_direct = matches!(self, Self::DirectFile(_));
                (open(file.path(), back_end, is_direct)?, Some(file))
            }
        };
        Ok(Stored {
            device: Arc::new(CountingDevice::new(device)),
            base,
            _file: file,
        })
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::File(back_end) => write!(f, "file, {back_end}"),
            Self::DirectFile(back_end) => write!(f, "file with direct I/O, {back_end}"),
        }
    }
}

fn open(path: &Path, back_end: BackEnd, is_direct: bool) -> Result<Arc<dyn BlockDevice>> {
    let range = FileRange::default();
    let device: larder_block::Result<Arc<dyn BlockDevice>> = if is_direct {
        DirectDevice::open_writable(path, range)
            .map(|device| Arc::new(device.with_back_end(back_end)) as _)
    } else {
        FileDevice::open_writable(path, range)
            .map(|device| Arc::new(device.with_back_end(back_end)) as _)
    };
    let device = device.map_err(|error| Error::Inconsistent(error.to_string()))?;
    if device.back_end() == back_end {
        Ok(device)
    } else {
        Err(Error::Inconsistent(format!("{back_end} is not available")))
    }
}

/// An image on a [`Medium`]. The drop removes the file of the image, if it has one.
#[derive(Debug)]
pub struct Stored {
    device: Arc<CountingDevice>,
    /// The content when it was stored.
    base: OverlayDevice,
    _file: Option<ImageFile>,
}

impl Stored {
    /// Returns the device with the image.
    #[must_use]
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::clone(&self.device) as _
    }

    /// Returns the number of asynchronous requests that the device has received, which its back end performs.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.device.counts().requests
    }

    /// Returns a copy of the content in memory, which shares the unchanged pages with the content that was
    /// stored.
    ///
    /// # Errors
    /// Fails if the device cannot be read.
    pub fn content(&self) -> larder_block::Result<OverlayDevice> {
        let content = self.base.clone();
        let size_bytes = self.device.size_bytes();
        let mut pages = [[0; OVERLAY_PAGE_BYTES]; 2];
        for at_bytes in (0..size_bytes).step_by(OVERLAY_PAGE_BYTES) {
            let left_bytes = size_bytes - at_bytes;
            let len = usize::try_from(left_bytes)
                .map_or(OVERLAY_PAGE_BYTES, |left| left.min(OVERLAY_PAGE_BYTES));
            let [now, before] = pages.each_mut().map(|page| &mut page[..len]);
            self.device.read_at(now, at_bytes)?;
            content.read_at(before, at_bytes)?;
            if now != before {
                content.write_at(now, at_bytes)?;
            }
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_image_has_its_content_and_its_changes_on_each_medium() {
        let content = OverlayDevice::new((0..20_000_u32).map(|i| i.to_le_bytes()[1]).collect());
        content.write_at(&[9; 6000], 100).unwrap();
        let expected = content.clone();
        expected.write_at(&[8; 10], 19_990).unwrap();
        for medium in Medium::files().into_iter().chain([Medium::Memory]) {
            let stored = medium.store(&content).unwrap();
            let write = (19_990, vec![8; 10]);
            larder_block::write_all(&*stored.device(), [write]).unwrap();
            assert_eq!(stored.request_count(), 1, "{medium}");
            let bytes = [&stored.content().unwrap(), &expected].map(|device| {
                let mut bytes = vec![0; 20_000];
                device.read_at(&mut bytes, 0).unwrap();
                bytes
            });
            assert!(bytes[0] == bytes[1], "{medium}");
        }
    }
}
