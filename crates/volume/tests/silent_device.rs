//! A device that does not answer some requests: readers and syncs fail after the timeout, and a late answer
//! completes the pages or the writes.

use larder::{Advice, Ino, NewFile, OpenOptions, Volume};
use larder_block::BlockDevice;
use larder_instruments::{OverlayDevice, ReorderingDevice};
use larder_testkit::crash::{LAYOUTS, Layout, layout};
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

const PAGE: usize = 4096;
const PAGES: usize = 8;

/// The timeout in tests in which the device does not answer. A device that answers does so earlier, also on a loaded
/// machine.
const TIMEOUT: Duration = Duration::from_millis(200);

/// A timeout that no reader reaches in a test.
const LONG: Duration = Duration::from_hours(1);

const NEW: NewFile = NewFile {
    permissions: 0o600,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// An image with two files of equal size, whose bytes are 1 and 2.
struct Image {
    device: Arc<OverlayDevice>,
    silent: Ino,
    other: Ino,
}

impl Image {
    fn new(layout: &Layout) -> Self {
        let device = Arc::new(OverlayDevice::new(layout.base().unwrap()));
        let mut options = OpenOptions::default();
        options.read_write = true;
        let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
        let create = |name: &[u8], byte| {
            let ino = volume.create(Ino::ROOT, name, &NEW).unwrap().ino;
            volume.write_at(ino, &vec![byte; PAGES * PAGE], 0).unwrap();
            ino
        };
        let (silent, other) = (create(b"silent", 1), create(b"other", 2));
        volume.close().unwrap();
        Self {
            device,
            silent,
            other,
        }
    }

    /// Opens the image on a device that answers all requests until it is changed.
    fn open(&self, timeout: Duration, read_write: bool) -> (Arc<ReorderingDevice>, Volume) {
        let device = Arc::new(ReorderingDevice::new(Arc::clone(&self.device) as _, 1));
        let mut options = OpenOptions::default();
        options.device_timeout = Some(timeout);
        options.read_write = read_write;
        options.background = false;
        let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
        // Load the inodes into the cache.
        for ino in [self.silent, self.other] {
            volume.metadata(ino).unwrap();
        }
        (device, volume)
    }
}

fn each_mode(run: impl Fn(&Image, bool)) {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    for read_write in [false, true] {
        run(&Image::new(&LAYOUTS[0]), read_write);
    }
}

/// Reads a page, and checks its content.
fn read(volume: &Volume, ino: Ino, page: usize, byte: u8) -> Result<(), Errno> {
    let mut buf = [0; PAGE];
    let read = volume.read_at(ino, &mut buf, (page * PAGE) as u64);
    assert_eq!(read.map_err(|error| error.errno())?, PAGE);
    assert_eq!(buf, [byte; PAGE]);
    Ok(())
}

#[test]
fn reader_of_a_silent_device_gets_eio_and_a_late_answer_completes_the_page() {
    each_mode(|image, read_write| {
        let (device, volume) = image.open(TIMEOUT, read_write);
        device.silence(0..u64::MAX);
        assert_eq!(read(&volume, image.silent, 0, 1), Err(Errno::IO));
        assert!(device.waiting() > 0);
        // The request has locked the page, so this reader waits for the page.
        let waiting = device.waiting();
        assert_eq!(read(&volume, image.silent, 0, 1), Err(Errno::IO));
        assert_eq!(device.waiting(), waiting, "the page was requested again");
        device.answer();
        while !volume.is_cached(image.silent, 0..PAGE as u64) {
            std::thread::yield_now();
        }
        read(&volume, image.silent, 0, 1).unwrap();
    });
}

#[test]
fn reader_gets_eio_if_the_superblock_was_read_from_a_backup() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let image = Image::new(layout("meta-bg-1k").unwrap());
    // The block size in the superblock.
    image.device.write_at(&[9; 4], 1024 + 0x18).unwrap();
    let (device, volume) = image.open(TIMEOUT, false);
    assert!(volume.info().superblock_repair.is_some());
    device.silence(0..u64::MAX);
    assert_eq!(read(&volume, image.silent, 0, 1), Err(Errno::IO));
}

#[test]
fn files_on_the_answering_part_of_a_device_remain_readable() {
    each_mode(|image, read_write| {
        let (device, volume) = image.open(TIMEOUT, read_write);
        let start = device_offset(image, 1);
        device.silence(start..start + (PAGES * PAGE) as u64);
        assert_eq!(read(&volume, image.silent, 0, 1), Err(Errno::IO));
        for page in 0..PAGES {
            read(&volume, image.other, page, 2).unwrap();
        }
    });
}

/// Returns the offset of the first block on the device that contains only `byte`.
fn device_offset(image: &Image, byte: u8) -> u64 {
    let mut block = [0; 1024];
    (0..image.device.size_bytes())
        .step_by(1024)
        .find(|offset| {
            image.device.read_at(&mut block, *offset).unwrap();
            block == [byte; 1024]
        })
        .expect("the content is on the device")
}

#[test]
fn lookup_on_a_silent_device_gets_eio() {
    each_mode(|image, read_write| {
        let (device, volume) = image.open(TIMEOUT, read_write);
        device.silence(0..u64::MAX);
        let error = volume.lookup(Ino::ROOT, b"other").unwrap_err();
        assert_eq!(error.errno(), Errno::IO);
        device.answer();
        assert_eq!(volume.lookup(Ino::ROOT, b"other").unwrap(), image.other);
    });
}

#[test]
fn volume_with_unanswered_reads_is_dropped_and_later_freed() {
    each_mode(|image, read_write| {
        let (device, volume) = image.open(TIMEOUT, read_write);
        device.silence(0..u64::MAX);
        let file = volume.open_file(image.silent).unwrap();
        file.advise(0..u64::MAX, Advice::WillNeed);
        drop(file);
        assert_eq!(read(&volume, image.other, 0, 2), Err(Errno::IO));
        drop(volume);
        assert!(device.waiting() > 0);
        assert!(Arc::strong_count(&device) > 1, "requests use the device");
        device.answer();
        while Arc::strong_count(&device) > 1 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn change_of_a_file_that_is_being_read_gets_eio() {
    each_mode(|image, read_write| {
        if !read_write {
            return;
        }
        let (device, volume) = image.open(TIMEOUT, true);
        device.silence(0..u64::MAX);
        assert_eq!(read(&volume, image.silent, 0, 1), Err(Errno::IO));
        let errno = |changed: larder::Result<()>| changed.unwrap_err().errno();
        assert_eq!(errno(volume.truncate(image.silent, 0)), Errno::IO);
        let written = volume.write_at(image.silent, &[3; 10], 0);
        assert_eq!(errno(written.map(drop)), Errno::IO);
        device.answer();
        volume.truncate(image.silent, 0).unwrap();
        volume.close().unwrap();
    });
}

#[test]
fn answer_before_the_deadline_is_not_an_error() {
    each_mode(|image, read_write| {
        let (device, volume) = image.open(LONG, read_write);
        device.silence(0..u64::MAX);
        std::thread::scope(|scope| {
            let readers = [0, 1].map(|_| scope.spawn(|| read(&volume, image.silent, 0, 1)));
            while device.waiting() == 0 {
                std::thread::yield_now();
            }
            device.answer();
            for reader in readers {
                reader.join().unwrap().unwrap();
            }
        });
    });
}

/// Returns why writing has stopped.
fn read_only_because(volume: &Volume) -> String {
    let writing = volume.stats().writing.unwrap();
    writing.read_only_because.unwrap()
}

#[test]
fn sync_of_content_that_a_silent_device_does_not_write_gets_eio_and_stops_writing() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let image = Image::new(&LAYOUTS[0]);
    let (device, volume) = image.open(TIMEOUT, true);
    let start = device_offset(&image, 1);
    volume.write_at(image.silent, &[3; PAGE], 0).unwrap();
    device.silence(0..u64::MAX);
    let synced = volume.sync_file(image.silent, true);
    assert_eq!(synced.unwrap_err().errno(), Errno::IO);
    assert!(device.waiting() > 0);
    let reason = read_only_because(&volume);
    assert!(reason.contains("did not answer"), "{reason}");
    let written = volume.write_at(image.silent, &[4; PAGE], 0);
    assert_eq!(written.unwrap_err().errno(), Errno::ROFS);
    assert!(volume.close().is_err());
    drop(volume);

    device.answer();
    let mut page = [0; PAGE];
    while page != [3; PAGE] {
        std::thread::yield_now();
        image.device.read_at(&mut page, start).unwrap();
    }
}

#[test]
fn checkpoint_on_a_silent_device_gets_eio_and_the_log_keeps_the_changes() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let image = Image::new(&LAYOUTS[0]);
    let (device, volume) = image.open(TIMEOUT, true);
    let created = volume.create(Ino::ROOT, b"new", &NEW).unwrap().ino;
    volume.sync().unwrap();
    device.silence(0..u64::MAX);
    assert_eq!(volume.close().unwrap_err().errno(), Errno::IO);
    assert!(device.waiting() > 0);
    let reason = read_only_because(&volume);
    assert!(reason.contains("did not answer"), "{reason}");
    drop(volume);

    // The writes of the checkpoint are never performed.
    drop(device);
    let (_device, volume) = image.open(LONG, true);
    assert_eq!(volume.lookup(Ino::ROOT, b"new").unwrap(), created);
    volume.close().unwrap();
}
