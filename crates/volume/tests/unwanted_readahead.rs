//! Volumes on a device that does not want readahead: only what is requested is read.

use larder::{FileKind, Ino, NewFile, OpenOptions, Volume};
use larder_block::{BlockDevice, MemoryDevice, Result};
use larder_testkit::e2fsprogs::new_image;
use larder_testkit::{Requirement, skip};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const NEW: NewFile = NewFile {
    permissions: 0o755,
    umask: 0o022,
    uid: 0,
    gid: 0,
};
const PAGE_BYTES: u64 = 4096;
const FILE_BYTES: usize = 4 << 20;

/// A device that counts the bytes that are read.
#[derive(Debug)]
struct Counted {
    inner: Arc<MemoryDevice>,
    wants_readahead: bool,
    read_bytes: AtomicU64,
}

impl BlockDevice for Counted {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.read_bytes.fetch_add(buf.len() as u64, Relaxed);
        self.inner.read_at(buf, offset_bytes)
    }

    fn wants_readahead(&self) -> bool {
        self.wants_readahead
    }
}

/// Returns an image with a file `large`, and directories, or `None` without mke2fs.
fn image() -> Option<Arc<MemoryDevice>> {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return None;
    }
    let image = new_image("-t ext4 -b 4096", "32M").expect("image");
    let device = Arc::new(MemoryDevice::new(image));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    let shared: Arc<dyn BlockDevice> = device.clone();
    let volume = Volume::open_device(shared, &options).unwrap();
    let large = volume.create(Ino::ROOT, b"large", &NEW).unwrap();
    volume.write_at(large.ino, &vec![7; FILE_BYTES], 0).unwrap();
    for number in 0..40 {
        let name = format!("directory-{number:02}");
        let made = volume.make_dir(Ino::ROOT, name.as_bytes(), &NEW).unwrap();
        volume.make_dir(made.ino, b"below", &NEW).unwrap();
    }
    volume.close().unwrap();
    Some(device)
}

fn open(image: &Arc<MemoryDevice>, wants_readahead: bool) -> (Volume, Arc<Counted>) {
    let device = Arc::new(Counted {
        inner: Arc::clone(image),
        wants_readahead,
        read_bytes: AtomicU64::new(0),
    });
    let mut options = OpenOptions::default();
    options.tree_readahead = true;
    // With a timeout, the volume wraps the device. The wrapper must also report that the device wants
    // no readahead.
    options.device_timeout = Some(Duration::from_mins(1));
    let shared: Arc<dyn BlockDevice> = device.clone();
    (Volume::open_device(shared, &options).unwrap(), device)
}

/// Reads the first page of the large file, and returns the number of bytes that the device has read for it.
fn bytes_for_a_page(image: &Arc<MemoryDevice>, wants_readahead: bool) -> u64 {
    let (volume, device) = open(image, wants_readahead);
    let file = volume.lookup(Ino::ROOT, b"large").unwrap();
    volume.metadata(file).unwrap();
    let before = device.read_bytes.load(Relaxed);
    let mut buf = vec![0; 4096];
    volume.read_at(file, &mut buf, 0).unwrap();
    assert!(buf.iter().all(|&byte| byte == 7));
    // The drop waits for readahead.
    drop(volume);
    device.read_bytes.load(Relaxed) - before
}

#[test]
fn content_that_was_not_requested_is_not_read() {
    let Some(image) = image() else { return };
    assert_eq!(bytes_for_a_page(&image, false), PAGE_BYTES);
    assert!(bytes_for_a_page(&image, true) > PAGE_BYTES);
}

/// Lists `dir`, and returns its directories.
fn list(volume: &Volume, dir: Ino) -> Vec<Ino> {
    let mut found = Vec::new();
    let listed = volume.read_dir(dir, 0, &mut |entry| {
        let is_other = !matches!(entry.name, b"." | b".." | b"lost+found");
        if is_other && entry.kind == Some(FileKind::Directory) {
            found.push(entry.ino);
        }
        ControlFlow::Continue(())
    });
    listed.unwrap();
    found
}

fn directories_ahead(volume: &Volume) -> u64 {
    volume.counts().tree_readahead.unwrap().directories_ahead
}

/// If the volume did not check whether its device wants readahead, the test would fail in most of the rounds.
#[test]
fn directories_of_a_walk_are_not_read_ahead() {
    let Some(image) = image() else { return };
    for _ in 0..20 {
        let (with, without) = (open(&image, true).0, open(&image, false).0);
        for volume in [&without, &with] {
            let dirs = list(volume, Ino::ROOT);
            list(volume, dirs[0]);
        }
        let end = Instant::now() + Duration::from_mins(1);
        while directories_ahead(&with) == 0 {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
        assert_eq!(directories_ahead(&without), 0);
    }
}
