//! Images for targets that write.

use crate::{image_bytes, metadata_offsets, patch};
use larder::{Clock, OpenOptions, Timestamp, Volume};
use larder_block::BlockDevice;
use larder_instruments::OverlayDevice;
use std::sync::Arc;
use std::time::Duration;

/// A base image that can be written to. Each use starts with its original content.
#[derive(Debug)]
pub struct WritableImage {
    bytes: Arc<[u8]>,
    metadata_offsets: Vec<u64>,
}

impl WritableImage {
    /// Reads the image `name` from the folder `images`.
    ///
    /// # Panics
    /// If it does not exist.
    #[must_use]
    pub fn read(name: &str) -> Self {
        let bytes = image_bytes(name);
        Self {
            metadata_offsets: metadata_offsets(&bytes),
            bytes: bytes.into(),
        }
    }

    /// Returns the image with these patches.
    ///
    /// # Panics
    /// If a patch is outside the image, which is a bug in the target.
    #[must_use]
    pub fn patched(&self, patches: &[[u8; 8]]) -> OverlayDevice {
        let device = OverlayDevice::new(Arc::clone(&self.bytes));
        for bytes in patches {
            let (offset_bytes, bytes) = patch(&self.metadata_offsets, bytes);
            device
                .write_at(bytes, offset_bytes)
                .expect("the patch is inside the image");
        }
        device
    }
}

/// A clock that always returns the same time, and on which no thread waits.
#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp {
            seconds: 1_000_000_000,
            nanoseconds: 0,
        }
    }

    fn wait(&self, _: Duration) {}
}

/// Opens the image on `device` for writing, with 2 MiB of cache and no threads.
///
/// # Errors
/// The error of opening the image.
pub fn open_for_writing(device: OverlayDevice) -> larder::Result<Volume> {
    let mut options = OpenOptions::default();
    options.cache_size_bytes = 2 << 20;
    options.readahead_max_bytes = 0;
    options.readahead = larder::PolicyName::Off;
    options.read_write = true;
    options.background = false;
    options.clock = Arc::new(FixedClock);
    Volume::open_device(Arc::new(device), &options)
}
