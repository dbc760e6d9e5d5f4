//! A small image in memory, open for writing.

use super::WriteOptions;
use crate::Filesystem;
use crate::ondisk::superblock::Superblock;
use larder_block::{BlockDevice, MemoryDevice};
use larder_cache::buffer::BufferCache;
use larder_testkit::e2fsprogs::new_image;
use std::sync::Arc;

/// Opens an image of 12 MiB, with a journal and blocks of 1 KiB.
pub(crate) fn open() -> Filesystem {
    let image = MemoryDevice::new(new_image("-t ext4 -b 1024", "12M").unwrap());
    let device: Arc<dyn BlockDevice> = Arc::new(image);
    let superblock = Superblock::read(&*device).unwrap();
    let buffers = BufferCache::small(Arc::clone(&device), 1024);
    let mut fs = Filesystem::new(superblock, Arc::new(buffers), None);
    fs.enable_writing(device, WriteOptions::default()).unwrap();
    fs
}

/// Asserts that `fs` stopped writing because of `what`.
pub(super) fn assert_stopped(fs: &Filesystem, what: &str) {
    let failure = fs.failure().expect("writing stopped");
    assert!(failure.contains(what), "{failure}");
    assert!(!fs.is_writable());
    assert!(matches!(fs.start(1), Err(crate::Error::ReadOnly(Some(_)))));
    assert!(fs.close().is_err());
}
