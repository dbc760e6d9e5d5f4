//! Reads that the device completes later: in any order, only after a delay, or with an error in the
//! middle of a window.

use larder::{Advice, Ino, NewFile, OpenOptions, Volume};
use larder_block::BlockDevice;
use larder_instruments::{FaultyDevice, OverlayDevice, RecordingDevice, ReorderingDevice};
use larder_testkit::crash::{LAYOUTS, Layout};
use larder_testkit::{Random, Requirement, Seed, skip};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const PAGES: usize = 300;

const NEW: NewFile = NewFile {
    permissions: 0o600,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// An image with the file `/file`, which is fragmented, and the content of the file.
struct Image {
    device: Arc<OverlayDevice>,
    ino: Ino,
    content: Vec<u8>,
}

impl Image {
    fn new(layout: &Layout, seed: Seed) -> Self {
        let device = Arc::new(OverlayDevice::new(layout.base().unwrap()));
        let mut content = Random::new(seed).bytes(PAGES * PAGE - 700);
        // This becomes a hole, which starts and ends inside pages.
        content[30_000..70_000].fill(0);
        let volume = open(Arc::clone(&device) as _, true);
        let other = volume.create(Ino::ROOT, b"other", &NEW).unwrap().ino;
        let ino = volume.create(Ino::ROOT, b"file", &NEW).unwrap().ino;
        let mut at = 0;
        let mut len = 1000;
        while at < content.len() {
            let end = content.len().min(at + len);
            let part = &content[at..end];
            if part.iter().any(|byte| *byte != 0) {
                volume.write_at(ino, part, at as u64).unwrap();
                // Allocate the blocks of this part before those of the next part.
                volume.sync().unwrap();
                volume.write_at(other, &[1; 5000], at as u64).unwrap();
                volume.sync().unwrap();
            }
            at = end;
            len = len * 5 / 4;
        }
        volume.close().unwrap();
        Self {
            device,
            ino,
            content,
        }
    }

    /// Returns the offset on the device of page `page`. The content of the page must occur only
    /// once on the device.
    fn offset_of(&self, page: usize) -> u64 {
        self.offset_of_bytes(page * PAGE)
    }

    /// Returns the offset on the device of the 1024 bytes at `start` of the file.
    fn offset_of_bytes(&self, start: usize) -> u64 {
        let wanted = &self.content[start..][..1024];
        let mut block = vec![0; 1024];
        (0..self.device.size_bytes())
            .step_by(1024)
            .find(|offset| {
                self.device.read_at(&mut block, *offset).unwrap();
                block == wanted
            })
            .expect("the content is on the device")
    }
}

fn open(device: Arc<dyn BlockDevice>, read_write: bool) -> Volume {
    Volume::open_device(device, &options(read_write)).unwrap()
}

fn options(read_write: bool) -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = read_write;
    options.background = false;
    options.cache_size_bytes = 8 << 20;
    options
}

/// Opens `device` without a timeout. Metadata is then read by blocking calls, which the device
/// always answers.
fn open_without_timeout(device: &Arc<ReorderingDevice>, read_write: bool) -> Volume {
    let mut options = options(read_write);
    options.device_timeout = None;
    Volume::open_device(Arc::clone(device) as _, &options).unwrap()
}

fn each_image(run: impl Fn(&Image, Seed)) {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let seed = Seed::from_environment(0x17);
    for (number, layout) in (0..).zip(LAYOUTS.iter().take(3)) {
        let seed = seed.part(number);
        run(&Image::new(layout, seed), seed);
    }
}

fn held(image: &Image, read_write: bool) -> (Arc<ReorderingDevice>, Volume) {
    let device = Arc::new(ReorderingDevice::new(Arc::clone(&image.device) as _, 1));
    let volume = open_without_timeout(&device, read_write);
    device.hold(true);
    (device, volume)
}

/// Starts to read the whole file, and does not wait.
fn request_all(image: &Image, volume: &Volume) {
    let file = volume.open_file(image.ino).unwrap();
    file.advise(0..u64::MAX, Advice::WillNeed);
}

#[test]
fn reads_completed_in_any_order_return_the_content() {
    each_image(|image, seed| {
        for number in 0..4 {
            let device = ReorderingDevice::new(Arc::clone(&image.device) as _, number);
            let volume = open(Arc::new(device), number % 2 == 0);
            thread::scope(|scope| {
                for reader in 0..4 {
                    let volume = &volume;
                    scope.spawn(move || {
                        let file = volume.open_file(image.ino).unwrap();
                        let mut random = Random::new(seed.part(100 + reader));
                        let mut at = 0;
                        while at < image.content.len() {
                            let len = 1 + usize::try_from(random.below(40_000)).unwrap();
                            let mut buf = vec![0; len];
                            let len = file.read_at(&mut buf, at as u64).unwrap();
                            assert!(
                                buf[..len] == image.content[at..at + len],
                                "{len} bytes at {at}, {seed}"
                            );
                            at += len;
                        }
                    });
                }
            });
            assert!(volume.stats().readahead.pages_ahead > 0);
        }
    });
}

#[test]
fn unreadable_block_in_a_window_fails_only_its_page() {
    each_image(|image, seed| {
        let bad = 220;
        let offset = image.offset_of(bad);
        let faulty = FaultyDevice::new(Arc::clone(&image.device) as _);
        let faulty = faulty.fail_range(offset..offset + 1024);
        let volume = open(Arc::new(ReorderingDevice::new(Arc::new(faulty), 3)), false);
        request_all(image, &volume);
        let is_cached = |page: usize| {
            let start = (page * PAGE) as u64;
            volume.is_cached(image.ino, start..start + 1)
        };
        let end = Instant::now() + Duration::from_mins(1);
        while !(is_cached(bad - 1) && is_cached(bad + 1)) {
            assert!(Instant::now() < end, "the pages beside page {bad}, {seed}");
            thread::yield_now();
        }
        for page in 0..PAGES {
            let mut buf = [0; PAGE];
            let read = volume.read_at(image.ino, &mut buf, (page * PAGE) as u64);
            if page == bad {
                read.unwrap_err();
            } else {
                let len = read.unwrap();
                let expected = &image.content[page * PAGE..][..len];
                assert!(buf[..len] == *expected, "page {page}, {seed}");
            }
        }
    });
}

#[test]
fn unreadable_mapping_of_a_later_page_does_not_fail_a_page() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let seed = Seed::from_environment(0x18);
    let ext3 = LAYOUTS.iter().find(|layout| layout.name == "ext3-1k");
    let image = Image::new(ext3.unwrap(), seed);
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&image.device) as _));
    let mut options = OpenOptions::default();
    options.readahead_max_bytes = 0;
    let volume = Volume::open_device(Arc::clone(&recording) as _, &options).unwrap();
    let mut buf = [0; PAGE];
    volume.read_at(image.ino, &mut buf, 0).unwrap();
    // Make everything unreadable that this read did not need. This includes the block that maps the file from
    // block 12 on.
    let mut needed = recording.take_log();
    needed.sort_by_key(|read| read.offset_bytes);
    let mut faulty = FaultyDevice::new(Arc::clone(&image.device) as _);
    let mut start = 0;
    for read in needed {
        faulty = faulty.fail_range(start..read.offset_bytes.max(start));
        start = start.max(read.offset_bytes + read.len_bytes);
    }
    let volume = open(Arc::new(faulty.fail_range(start..u64::MAX)), false);
    let mut buf = [0; PAGE];
    volume.read_at(image.ino, &mut buf, 0).unwrap();
    assert!(buf == image.content[..PAGE], "{seed}");
    let _ = volume
        .read_at(image.ino, &mut buf, 20 * PAGE as u64)
        .unwrap_err();
}

#[test]
fn reader_does_not_wait_for_other_parts_of_its_window() {
    each_image(|image, _| {
        let device = Arc::new(ReorderingDevice::new(Arc::clone(&image.device) as _, 1));
        let volume = open_without_timeout(&device, false);
        let mut first: Vec<u64> = (0..PAGE)
            .step_by(1024)
            .map(|start| image.offset_of_bytes(start))
            .collect();
        first.sort_unstable();
        let mut start = 0;
        for offset in first {
            device.silence(start..offset);
            start = offset + 1;
        }
        device.silence(start..u64::MAX);
        let mut buf = [0; 1000];
        volume.read_at(image.ino, &mut buf, 0).unwrap();
        assert_eq!(buf, image.content[..1000]);
        request_all(image, &volume);
        assert!(device.waiting() > 1, "the file is in several pieces");
        device.answer();
    });
}

#[test]
fn truncation_waits_for_reads_in_flight() {
    each_image(|image, seed| {
        let (device, volume) = held(image, true);
        request_all(image, &volume);
        assert!(device.waiting() > 0);
        let size_bytes = image.content.len() as u64;
        thread::scope(|scope| {
            let truncating = scope.spawn(|| {
                volume.truncate(image.ino, 0).unwrap();
                volume.truncate(image.ino, size_bytes).unwrap();
            });
            // If the truncation did not wait for the reads, it would probably end during this loop.
            for _ in 0..10_000 {
                thread::yield_now();
            }
            let has_waited = !truncating.is_finished();
            device.hold(false);
            truncating.join().unwrap();
            assert!(has_waited, "{seed}");
        });
        let mut buf = vec![1; image.content.len()];
        let len = volume.read_at(image.ino, &mut buf, 0).unwrap();
        assert_eq!(len, buf.len());
        assert!(buf.iter().all(|byte| *byte == 0), "{seed}");
    });
}

#[test]
fn dropped_volume_leaves_nothing_in_flight() {
    each_image(|image, _| {
        let (device, volume) = held(image, true);
        request_all(image, &volume);
        assert!(device.waiting() > 0);
        thread::scope(|scope| {
            let dropping = scope.spawn(|| drop(volume));
            for _ in 0..10_000 {
                thread::yield_now();
            }
            let has_waited = !dropping.is_finished();
            device.hold(false);
            dropping.join().unwrap();
            assert!(has_waited);
        });
        assert_eq!(device.waiting(), 0);
        assert_eq!(Arc::strong_count(&device), 1, "nothing uses the device");
    });
}

#[test]
fn readers_and_changes_of_the_mapping_do_not_wait_for_each_other_forever() {
    each_image(|image, seed| {
        let volume = open(Arc::clone(&image.device) as _, true);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let file = volume.open_file(image.ino).unwrap();
                    let mut buf = [0; PAGE];
                    while !is_over.load(Relaxed) {
                        for page in 0..PAGES {
                            file.read_at(&mut buf, (page * PAGE) as u64).unwrap();
                        }
                    }
                });
            }
            let mut random = Random::new(seed.part(50));
            for _ in 0..300 {
                // The write is long enough to bypass the page cache.
                let at = random.below(100) * PAGE as u64;
                volume.write_at(image.ino, &vec![7; 1 << 18], at).unwrap();
                let size_bytes = random.below(PAGES as u64 * PAGE as u64);
                volume.truncate(image.ino, size_bytes).unwrap();
            }
            is_over.store(true, Relaxed);
        });
        volume.close().unwrap();
    });
}
