//! A device that does not answer some requests: readers, syncs and commits fail after the timeout, and a late answer
//! completes the pages or the writes.

use larder::{Advice, Clock, Ino, NewFile, OpenOptions, SystemClock, Timestamp, Volume};
use larder_block::{BlockDevice, DeadlineDevice, Request};
use larder_ext4::ondisk::superblock::Superblock;
use larder_instruments::{OverlayDevice, ReorderingDevice};
use larder_testkit::crash::{LAYOUTS, Layout, layout};
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const PAGES: usize = 8;

/// The timeout of requests that the device does not answer.
const SHORT: Duration = Duration::from_millis(20);

/// The timeout in tests in which the device answers some requests and not others. The requests that it answers complete
/// before this timeout, even on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A timeout that no request reaches in a test.
const LONG: Duration = Duration::from_hours(1);

const NEW: NewFile = NewFile {
    permissions: 0o600,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// A device whose timeout is [`LONG`] until a part of the device becomes silent. After that, the timeout can be short.
/// It does not affect the earlier requests, which the device answers.
#[derive(Debug)]
struct LimitedDevice {
    device: Arc<ReorderingDevice>,
    patient: DeadlineDevice,
    impatient: DeadlineDevice,
    is_impatient: AtomicBool,
}

impl LimitedDevice {
    /// Creates a device with the timeout `timeout` while a part of it is silent.
    fn new(device: ReorderingDevice, timeout: Duration) -> Self {
        let device = Arc::new(device);
        let limited = |timeout| DeadlineDevice::new(Arc::clone(&device) as _, timeout);
        Self {
            patient: limited(LONG),
            impatient: limited(timeout),
            is_impatient: AtomicBool::new(false),
            device,
        }
    }

    /// Does not answer later requests for `bytes`.
    fn silence(&self, bytes: Range<u64>) {
        self.device.silence(bytes);
        self.is_impatient.store(true, Ordering::Relaxed);
    }

    /// Sets the timeout to [`LONG`].
    fn use_long_timeout(&self) {
        self.is_impatient.store(false, Ordering::Relaxed);
    }

    /// Performs the requests that were not answered, and all later ones.
    fn answer(&self) {
        self.use_long_timeout();
        self.device.answer();
    }

    /// Returns the number of requests that the device has accepted and not started.
    fn waiting(&self) -> usize {
        self.device.waiting()
    }

    fn limited(&self) -> &DeadlineDevice {
        if self.is_impatient.load(Ordering::Relaxed) {
            &self.impatient
        } else {
            &self.patient
        }
    }
}

impl BlockDevice for LimitedDevice {
    fn size_bytes(&self) -> u64 {
        self.limited().size_bytes()
    }

    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(self.limited())
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.limited().read_at(buf, offset_bytes)
    }

    fn read_vectored_at(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        offset_bytes: u64,
    ) -> larder_block::Result<()> {
        self.limited().read_vectored_at(bufs, offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        self.limited().submit(requests);
    }

    fn perform(
        &self,
        requests: Vec<Request>,
        timeout: Option<Duration>,
    ) -> larder_block::Result<()> {
        self.limited().perform(requests, timeout)
    }

    fn has_late_writes(&self) -> bool {
        self.patient.has_late_writes() || self.impatient.has_late_writes()
    }

    fn is_writable(&self) -> bool {
        self.limited().is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.limited().write_at(buf, offset_bytes)
    }

    fn write_vectored_at(
        &self,
        bufs: &[IoSlice<'_>],
        offset_bytes: u64,
    ) -> larder_block::Result<()> {
        self.limited().write_vectored_at(bufs, offset_bytes)
    }

    fn flush(&self) -> larder_block::Result<()> {
        self.limited().flush()
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> larder_block::Result<bool> {
        self.limited().discard(offset_bytes, len_bytes)
    }
}

/// The system's clock. Its waits end at once.
#[derive(Debug)]
struct NonWaitingClock;

impl Clock for NonWaitingClock {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn wait(&self, _: Duration) {}
}

/// Waits until `holds` returns true.
fn wait_until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < end, "the device does not answer");
        std::thread::yield_now();
    }
}

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
        options.clock = Arc::new(NonWaitingClock);
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

    /// Opens the image on a device that answers all requests until it is changed. `timeout` is the timeout while a part of
    /// the device is silent.
    fn open(&self, timeout: Duration, read_write: bool) -> (Arc<LimitedDevice>, Volume) {
        let device = Arc::new(LimitedDevice::new(self.reordering(), timeout));
        let volume = self.open_device(Arc::clone(&device) as _, None, read_write);
        (device, volume)
    }

    fn reordering(&self) -> ReorderingDevice {
        ReorderingDevice::new(Arc::clone(&self.device) as _, 1)
    }

    fn open_device(
        &self,
        device: Arc<dyn BlockDevice>,
        device_timeout: Option<Duration>,
        read_write: bool,
    ) -> Volume {
        let mut options = OpenOptions::default();
        options.device_timeout = device_timeout;
        options.read_write = read_write;
        options.background = false;
        options.clock = Arc::new(NonWaitingClock);
        let volume = Volume::open_device(device, &options).unwrap();
        // Load the inodes into the cache.
        for ino in [self.silent, self.other] {
            volume.metadata(ino).unwrap();
        }
        volume
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
        let (device, volume) = image.open(SHORT, read_write);
        device.silence(0..u64::MAX);
        assert_eq!(read(&volume, image.silent, 0, 1), Err(Errno::IO));
        assert!(device.waiting() > 0);
        // The request has locked the page, so this reader waits for the page.
        let waiting = device.waiting();
        assert_eq!(read(&volume, image.silent, 0, 1), Err(Errno::IO));
        assert_eq!(device.waiting(), waiting, "the page was requested again");
        device.answer();
        wait_until(|| volume.is_cached(image.silent, 0..PAGE as u64));
        read(&volume, image.silent, 0, 1).unwrap();
    });
}

#[test]
fn reader_gets_eio_if_the_superblock_was_read_from_a_backup() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let image = Image::new(layout("meta-bg-1k").unwrap());
    // Damage the block size in the superblock.
    image.device.write_at(&[9; 4], 1024 + 0x18).unwrap();
    let (device, volume) = image.open(SHORT, false);
    assert!(volume.info().superblock_repair.is_some());
    device.silence(0..u64::MAX);
    assert_eq!(read(&volume, image.silent, 0, 1), Err(Errno::IO));
}

#[test]
fn files_on_the_answering_part_of_a_device_remain_readable() {
    each_mode(|image, read_write| {
        let (device, volume) = image.open(SHORT, read_write);
        let start = device_offset(image, 1);
        device.silence(start..start + (PAGES * PAGE) as u64);
        assert_eq!(read(&volume, image.silent, 0, 1), Err(Errno::IO));
        device.use_long_timeout();
        for page in 0..PAGES {
            read(&volume, image.other, page, 2).unwrap();
        }
        // A drop of the volume waits for unanswered requests.
        device.answer();
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
        let device = Arc::new(image.reordering());
        // This test sets the timeout with the option `device_timeout`. The other tests use a [`LimitedDevice`] instead.
        let volume = image.open_device(Arc::clone(&device) as _, Some(TIMEOUT), read_write);
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
        let (device, volume) = image.open(SHORT, read_write);
        device.silence(0..u64::MAX);
        let file = volume.open_file(image.silent).unwrap();
        file.advise(0..u64::MAX, Advice::WillNeed);
        drop(file);
        assert_eq!(read(&volume, image.other, 0, 2), Err(Errno::IO));
        drop(volume);
        assert!(device.waiting() > 0);
        assert!(Arc::strong_count(&device) > 1, "requests use the device");
        device.answer();
        wait_until(|| Arc::strong_count(&device) == 1);
    });
}

#[test]
fn change_of_a_file_that_is_being_read_gets_eio() {
    each_mode(|image, read_write| {
        if !read_write {
            return;
        }
        let (device, volume) = image.open(SHORT, true);
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
            wait_until(|| device.waiting() > 0);
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
    let (device, volume) = image.open(SHORT, true);
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
    wait_until(|| {
        let mut page = [0; PAGE];
        image.device.read_at(&mut page, start).unwrap();
        page == [3; PAGE]
    });
}

#[test]
fn checkpoint_on_a_silent_device_gets_eio_and_the_log_keeps_the_changes() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let image = Image::new(&LAYOUTS[0]);
    let (device, volume) = image.open(SHORT, true);
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

#[test]
fn commit_on_a_silent_device_gets_eio_and_a_late_answer_does_no_harm() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    for answers in [false, true] {
        let image = Image::new(&LAYOUTS[0]);
        let (device, volume) = image.open(SHORT, true);
        volume.create(Ino::ROOT, b"new", &NEW).unwrap();
        device.silence(0..u64::MAX);
        assert_eq!(volume.sync().unwrap_err().errno(), Errno::IO);
        assert!(device.waiting() > 0);
        let reason = read_only_because(&volume);
        assert!(reason.contains("did not answer"), "{reason}");
        let created = volume.create(Ino::ROOT, b"later", &NEW);
        assert_eq!(created.map(drop).unwrap_err().errno(), Errno::ROFS);
        assert!(volume.close().is_err());
        drop(volume);

        end_late_writes(device, answers);
        let (_device, volume) = image.open(LONG, true);
        let found = volume.lookup(Ino::ROOT, b"new");
        assert_eq!(found.unwrap_err().errno(), Errno::NOENT);
        for page in 0..PAGES {
            read(&volume, image.silent, page, 1).unwrap();
        }
        volume.close().unwrap();
    }
}

/// Drops the device of a volume that was already dropped. If `answers` is true, the late writes are performed first. If
/// it is false, they are never performed.
fn end_late_writes(device: Arc<LimitedDevice>, answers: bool) {
    if answers {
        device.answer();
    }
    wait_until(|| Arc::strong_count(&device) == 1);
    drop(device);
}

/// Returns the offset of the commit block of the last transaction in the log.
fn last_commit_block(image: &Image) -> u64 {
    const COMMIT: [u8; 8] = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 2];
    let mut header = [0; 12];
    let commits = (0..image.device.size_bytes())
        .step_by(PAGE)
        .filter_map(|offset| {
            image.device.read_at(&mut header, offset).unwrap();
            let (kind, sequence) = header.split_at(COMMIT.len());
            (kind == COMMIT).then(|| (sequence.to_vec(), offset))
        });
    // Sequence numbers are big-endian.
    commits.max().expect("a transaction is in the log").1
}

#[test]
fn failed_commit_with_a_late_commit_block_is_replayed_as_a_whole() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let create_two = |device: &LimitedDevice, volume: &Volume, silent: Range<u64>| {
        volume.create(Ino::ROOT, b"first", &NEW).unwrap();
        volume.sync().unwrap();
        device.silence(silent);
        volume.create(Ino::ROOT, b"second", &NEW).unwrap().ino
    };
    // The second commit block is at the same place in all images.
    let image = Image::new(&LAYOUTS[0]);
    let (device, volume) = image.open(LONG, true);
    create_two(&device, &volume, 0..0);
    volume.sync().unwrap();
    let commit = last_commit_block(&image);
    for answers in [false, true] {
        let image = Image::new(&LAYOUTS[0]);
        let (device, volume) = image.open(TIMEOUT, true);
        // The other blocks of the transaction, and zeros in the place of the commit block, are written by requests that
        // start earlier.
        let created = create_two(&device, &volume, commit..commit + 1);
        assert_eq!(volume.sync().unwrap_err().errno(), Errno::IO);
        assert_eq!(device.waiting(), 1);
        let reason = read_only_because(&volume);
        assert!(reason.contains("did not answer"), "{reason}");
        drop(volume);

        end_late_writes(device, answers);
        let (_device, volume) = image.open(LONG, true);
        volume.lookup(Ino::ROOT, b"first").unwrap();
        let found = volume.lookup(Ino::ROOT, b"second");
        let expected = if answers {
            Ok(created)
        } else {
            Err(Errno::NOENT)
        };
        assert_eq!(found.map_err(|error| error.errno()), expected);
        volume.close().unwrap();
    }
}

/// Returns whether the block of multiple-mount protection shows that the file system is not in use.
fn is_released(image: &Image) -> bool {
    const CLEAN: u32 = 0xFF4D_4D50;
    let superblock = Superblock::read(&*image.device).unwrap();
    let offset_bytes = superblock.mmp_block.0 * u64::from(superblock.block_size_bytes());
    let mut sequence = [0; 4];
    // The sequence number follows the magic number.
    image
        .device
        .read_at(&mut sequence, offset_bytes + 4)
        .unwrap();
    u32::from_le_bytes(sequence) == CLEAN
}

#[test]
fn mmp_is_not_released_while_a_late_write_is_in_flight() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let image = Image::new(&Layout {
        name: "mmp",
        mkfs: "-t ext4 -b 4096 -N 2048 -O mmp",
        ..LAYOUTS[0]
    });
    assert!(is_released(&image));
    let (device, volume) = image.open(SHORT, true);
    let start = device_offset(&image, 1);
    volume.write_at(image.silent, &[3; PAGE], 0).unwrap();
    // The device answers the writes of the protection.
    device.silence(start..start + (PAGES * PAGE) as u64);
    assert_eq!(volume.sync().unwrap_err().errno(), Errno::IO);
    assert!(volume.close().is_err());
    drop(volume);
    assert!(device.waiting() > 0);
    assert!(!is_released(&image));

    device.answer();
    wait_until(|| !device.has_late_writes());
    let (_device, volume) = image.open(LONG, true);
    volume.close().unwrap();
    assert!(is_released(&image));
}
