//! Where the image of a test is stored: in memory, in memory with requests that complete out of order, in a file with a
//! given back end, or in an overlay.
//!
//! The *disk* has the image. The *store* has the bytes that survive a power cut. The two are the same, except for an overlay:
//! its store is the file of the overlay.

use crate::crash::ImageFile;
use crate::error::{Error, Result};
use crate::{Seed, report_skipped};
use larder_block::{BackEnd, BlockDevice, CountingDevice, DirectDevice, FileDevice, FileRange};
use larder_image::{Overlay, OverlayError};
use larder_instruments::{OVERLAY_PAGE_BYTES, OverlayDevice, ReorderingDevice};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A kind of storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// A device with blocking calls.
    #[default]
    Memory,
    /// A device in memory that performs requests one after the other, in an order that the seed determines.
    Reordered(Seed),
    /// A file in the kernel's page cache.
    File(BackEnd),
    /// A file that is opened for direct I/O. A thread that waits for a write also uses the back end, instead
    /// of a blocking call.
    DirectFile(BackEnd),
    /// An overlay whose base has the image as it was at first. Both are in memory.
    Overlay,
}

impl Medium {
    /// Returns the kinds of storage besides [`Medium::Memory`] that this machine supports: memory with requests that
    /// complete in the order of `seed`, an overlay, and files with and without direct I/O, for both back ends. Reports the
    /// kinds that it does not support.
    #[must_use]
    pub fn others(seed: Seed) -> Vec<Self> {
        let back_ends = [BackEnd::IoUring, BackEnd::Threads];
        let mut others = vec![Self::Reordered(seed), Self::Overlay];
        others.extend(back_ends.map(Self::File));
        others.extend(back_ends.map(Self::DirectFile));
        let probe = OverlayDevice::new(Arc::new([0; OVERLAY_PAGE_BYTES]));
        others.retain(|medium| match medium.store(&probe) {
            Ok(_) => true,
            Err(error) => {
                report_skipped(format!("{medium}: {error}"));
                false
            }
        });
        others
    }

    /// Stores a copy of `disk`.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if the machine does not support the medium.
    pub fn store(self, disk: &OverlayDevice) -> Result<Stored> {
        let store = self.store_of(disk)?;
        Ok(self.restore(disk, &store, CountingDevice::new)?.0)
    }

    /// Returns the store with a copy of `disk`.
    ///
    /// # Errors
    /// Fails if an overlay cannot be created.
    pub fn store_of(self, disk: &OverlayDevice) -> Result<OverlayDevice> {
        if self != Self::Overlay {
            return Ok(disk.clone());
        }
        let store = Overlay::max_file_bytes(disk.size_bytes()).map(OverlayDevice::zeros);
        let store = Arc::new(store.map_err(|error| unusable(&error))?);
        Overlay::create(&*store, disk, b"base".to_vec(), "raw".to_owned())
            .map_err(|error| unusable(&error))?;
        // Once the first page of the disk is in the store, the place of the superblock in the store does not change.
        let overlay = Overlay::open(Arc::clone(&store) as _, Arc::new(disk.clone()));
        let overlay = overlay.map_err(|error| unusable(&error))?;
        let mut page = [0; OVERLAY_PAGE_BYTES];
        let written = overlay
            .read_at(&mut page, 0)
            .and_then(|()| overlay.write_at(&page, 0))
            .and_then(|()| overlay.flush());
        written.map_err(|error| Error::Inconsistent(error.to_string()))?;
        Ok(OverlayDevice::clone(&store))
    }

    /// Opens a copy of `store`, which was [made](Medium::store_of) for `disk`, and may have changed since. `wrap` returns the
    /// device through which the store is accessed. This device is also returned.
    ///
    /// # Errors
    /// As [`Medium::store`].
    pub fn restore<W: BlockDevice + 'static>(
        self,
        disk: &OverlayDevice,
        store: &OverlayDevice,
        wrap: impl FnOnce(Arc<dyn BlockDevice>) -> W,
    ) -> Result<(Stored, Arc<W>)> {
        let (device, file): (Arc<dyn BlockDevice>, _) = match self {
            Self::Memory | Self::Overlay => (Arc::new(store.clone()), None),
            Self::Reordered(seed) => {
                let memory = Arc::new(store.clone());
                (Arc::new(ReorderingDevice::new(memory, seed.0)), None)
            }
            Self::File(back_end) | Self::DirectFile(back_end) => {
                let file = ImageFile::new(store)?;
                let is_direct = matches!(self, Self::DirectFile(_));
                (open(file.path(), back_end, is_direct)?, Some(file))
            }
        };
        let wrapped = Arc::new(wrap(device));
        let store: Arc<dyn BlockDevice> = Arc::clone(&wrapped) as _;
        let stored = Stored {
            device: Arc::new(CountingDevice::new(self.disk(disk, &store)?)),
            store,
            medium: self,
            base: disk.clone(),
            _file: file,
        };
        Ok((stored, wrapped))
    }

    /// Returns the disk in `store`.
    fn disk(
        self,
        base: &OverlayDevice,
        store: &Arc<dyn BlockDevice>,
    ) -> Result<Arc<dyn BlockDevice>> {
        if self != Self::Overlay {
            return Ok(Arc::clone(store));
        }
        let overlay = Overlay::open(Arc::clone(store), Arc::new(base.clone()));
        Ok(Arc::new(overlay.map_err(|error| unusable(&error))?))
    }

    /// Returns the content of the disk in `store`, which was made for `disk`.
    ///
    /// # Errors
    /// As [`Medium::store`].
    pub fn content(self, disk: &OverlayDevice, store: &OverlayDevice) -> Result<OverlayDevice> {
        if self != Self::Overlay {
            return Ok(store.clone());
        }
        let (stored, _) = self.restore(disk, store, CountingDevice::new)?;
        let content = stored.content();
        content.map_err(|error| Error::Inconsistent(error.to_string()))
    }
}

fn unusable(error: &OverlayError) -> Error {
    Error::Inconsistent(format!("overlay: {error}"))
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Reordered(seed) => write!(f, "memory, order of seed {seed}"),
            Self::File(back_end) => write!(f, "file, {back_end}"),
            Self::DirectFile(back_end) => write!(f, "file with direct I/O, {back_end}"),
            Self::Overlay => f.write_str("overlay"),
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
    store: Arc<dyn BlockDevice>,
    medium: Medium,
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

    /// Opens the disk again, as after the end of the process that used it.
    ///
    /// # Errors
    /// As [`Medium::store`].
    pub fn reopened(self) -> Result<Self> {
        let disk = self.medium.disk(&self.base, &self.store)?;
        Ok(Self {
            device: Arc::new(CountingDevice::new(disk)),
            ..self
        })
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
    use larder_instruments::{ChangeRecord, RecordingDevice};

    #[test]
    fn stored_image_has_its_content_and_its_changes_on_each_medium() {
        let content = OverlayDevice::new((0..20_000_u32).map(|i| i.to_le_bytes()[1]).collect());
        content.write_at(&[9; 6000], 100).unwrap();
        let expected = content.clone();
        expected.write_at(&[8; 10], 19_990).unwrap();
        let others = Medium::others(Seed(1)).into_iter();
        for medium in others.chain([Medium::Memory]) {
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

    /// Returns the offsets of writes in the order in which `medium` completes them.
    fn order(medium: Medium) -> Vec<u64> {
        let content = OverlayDevice::zeros(20);
        let store = medium.store_of(&content).unwrap();
        let restored = medium.restore(&content, &store, RecordingDevice::new);
        let (stored, recorder) = restored.unwrap();
        let writes = (0..20).map(|at| (at, vec![1]));
        larder_block::write_all(&*stored.device(), writes).unwrap();
        let changes = recorder.take_changes().into_iter();
        let offsets = changes.filter_map(|change| match change {
            ChangeRecord::Write { offset_bytes, .. } => Some(offset_bytes),
            _ => None,
        });
        offsets.collect()
    }

    #[test]
    fn seed_determines_the_order_of_writes() {
        let of_seed = |seed| order(Medium::Reordered(Seed(seed)));
        assert_eq!(of_seed(1), of_seed(1));
        assert_ne!(of_seed(1), of_seed(2));
        let submitted: Vec<u64> = (0..20).collect();
        assert_eq!(order(Medium::Memory), submitted);
        assert_ne!(of_seed(1), submitted);
    }
}
