//! Reads of a device whose background requests wait: one that delivers content in pieces, as a server does, and a local
//! one, whose queue is full.

use larder::{Ino, NewFile, OpenOptions, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_instruments::LazyDevice;
use larder_testkit::e2fsprogs::new_image;
use larder_testkit::{Random, Requirement, Seed, skip};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

const PIECE_BYTES: NonZeroU64 = NonZeroU64::new(64 << 10).unwrap();
/// The length of the kernel's reads.
const READ_BYTES: usize = 128 << 10;
const FILE_BYTES: usize = 6 << 20;

const NEW: NewFile = NewFile {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// An image with the file `/file`, and the content of the file.
struct Image {
    device: Arc<LazyDevice>,
    read_write: bool,
    content: Vec<u8>,
}

impl Image {
    /// Returns `None` without mke2fs.
    fn new(is_local: bool, read_write: bool) -> Option<Self> {
        if skip(&[Requirement::Tool("mke2fs")]) {
            return None;
        }
        let bytes = new_image("-t ext4 -b 4096", "32M").expect("image");
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
        let content = Random::new(Seed::announced(21)).bytes(FILE_BYTES);
        let mut options = OpenOptions::default();
        options.read_write = true;
        let volume = Volume::open_device(Arc::clone(&device), &options).unwrap();
        let ino = volume.create(Ino::ROOT, b"file", &NEW).unwrap().ino;
        volume.write_at(ino, &content, 0).unwrap();
        volume.close().unwrap();
        let device = LazyDevice::new(device, PIECE_BYTES);
        let device = if is_local {
            device.without_pieces()
        } else {
            device
        };
        Some(Self {
            device: Arc::new(device),
            read_write,
            content,
        })
    }

    fn open(&self, timeout: Option<Duration>) -> Volume {
        let mut options = OpenOptions::default();
        options.readahead_max_bytes = 2 << 20;
        options.device_timeout = timeout;
        options.read_write = self.read_write;
        Volume::open_device(Arc::clone(&self.device) as _, &options).unwrap()
    }
}

/// Calls `test` with an image on a server, with a local image that is opened for reading, and with a local image that
/// is opened for writing.
fn each_image(test: impl Fn(&Image)) {
    for (is_local, read_write) in [(false, false), (true, false), (true, true)] {
        if let Some(image) = Image::new(is_local, read_write) {
            test(&image);
        }
    }
}

#[test]
fn pages_that_a_reader_waits_for_are_expedited() {
    each_image(|image| {
        let volume = image.open(Some(Duration::from_secs(5)));
        let ino = volume.resolve(b"/file").unwrap();
        let mut most_waiting = 0;
        for (number, expected) in (0..).zip(image.content.chunks(READ_BYTES)) {
            let mut buf = vec![0; READ_BYTES];
            let len = volume.read_at(ino, &mut buf, number * READ_BYTES as u64);
            assert_eq!(buf[..len.unwrap()], *expected);
            most_waiting = most_waiting.max(image.device.waiting());
        }
        assert!(most_waiting > 0);
        image.device.perform_waiting();
    });
}

#[test]
fn readahead_is_cancelled_when_the_volume_is_dropped() {
    each_image(|image| {
        // The drop waits without a time limit, so it does not end unless the requests are cancelled.
        let volume = image.open(None);
        let ino = volume.resolve(b"/file").unwrap();
        for number in 0..FILE_BYTES / READ_BYTES {
            let mut buf = vec![0; READ_BYTES];
            let start = number * READ_BYTES;
            volume.read_at(ino, &mut buf, start as u64).unwrap();
            assert_eq!(buf, image.content[start..start + READ_BYTES]);
            if image.device.waiting() > 0 {
                break;
            }
        }
        assert!(image.device.waiting() > 0);
        drop(volume);
        assert_eq!(image.device.waiting(), 0);
    });
}
