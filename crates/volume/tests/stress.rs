//! Many threads, little memory, and counted device reads.

use larder::{Ino, OpenOptions, PolicyName, Volume};
use larder_block::{BlockDevice, CountingDevice, FileDevice, FileRange};
use larder_instruments::{OverlayDevice, RecordingDevice};
use larder_testkit::device::fill_pattern;
use larder_testkit::image::{LargeFile, recipe};
use larder_testkit::{Image, Medium, Random, Requirement, Seed, skip};
use std::sync::{Arc, Barrier};
use std::thread;

const THREADS: u64 = 8;
const PAGE_BYTES: usize = 4096;

fn tools_are_missing() -> bool {
    skip(&["mke2fs", "debugfs", "tune2fs", "e2fsck"].map(Requirement::Tool))
}

fn options(cache_size_bytes: u64, readahead: PolicyName) -> OpenOptions {
    let mut options = OpenOptions::default();
    options.cache_size_bytes = cache_size_bytes;
    options.readahead = readahead;
    options
}

/// Reads the bytes of the file from `start` on into `buf`, and checks each byte.
fn check_bytes(volume: &Volume, ino: Ino, start: u64, buf: &mut [u8], expected: &mut [u8]) {
    let read = volume.read_at(ino, buf, start).unwrap();
    assert_eq!(read, buf.len(), "read at {start}");
    fill_pattern(expected, start);
    if buf != expected {
        let at = buf
            .iter()
            .zip(&*expected)
            .take_while(|(a, b)| a == b)
            .count();
        panic!("byte {} is wrong", start + at as u64);
    }
}

/// Reads all of a file of `size_bytes` with [`THREADS`] threads, and checks each byte. Meanwhile, the threads
/// also read pages at random.
fn read_with_threads(volume: &Volume, path: &str, size_bytes: u64, seed: Seed) {
    let ino = volume.resolve(path.as_bytes()).unwrap();
    assert_eq!(volume.metadata(ino).unwrap().size_bytes, size_bytes);
    let share = size_bytes / THREADS;
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || {
                let mut random = Random::new(seed.part(number));
                let (mut buf, mut expected) = (vec![0; 1 << 18], vec![0; 1 << 18]);
                let mut at = number * share;
                let end = at + share;
                while at < end {
                    // Read forward through the thread's own part, in pieces of any size.
                    let len = (1 + random.below(1 << 18)).min(end - at);
                    let len = usize::try_from(len).unwrap();
                    check_bytes(volume, ino, at, &mut buf[..len], &mut expected[..len]);
                    at += len as u64;
                    // Also read a page that other threads read too: one of the first 64 pages, or
                    // any page.
                    let all = size_bytes / PAGE_BYTES as u64;
                    let pages = if random.below(2) == 0 { 64 } else { all };
                    let other = random.below(pages) * PAGE_BYTES as u64;
                    check_bytes(
                        volume,
                        ino,
                        other,
                        &mut buf[..PAGE_BYTES],
                        &mut expected[..PAGE_BYTES],
                    );
                }
            });
        }
    });
}

#[test]
fn eight_threads_over_1_gib_in_2_mib_of_cache_read_every_byte_right() {
    if tools_are_missing() {
        return;
    }
    let seed = Seed::from_environment(0x57);
    println!("seed {seed}");
    let large = LargeFile::new(1024).unwrap();
    let volume = Volume::open_device(
        large.device.clone(),
        &options(2 << 20, PolicyName::OnDemand),
    )
    .unwrap();
    read_with_threads(&volume, large.path, large.size_bytes, seed);
}

#[test]
fn eight_threads_read_every_byte_right_with_each_back_end() {
    if tools_are_missing() {
        return;
    }
    let seed = Seed::from_environment(0x58);
    let large = LargeFile::new(32).unwrap();
    let mut bytes = vec![0; usize::try_from(large.device.size_bytes()).unwrap()];
    large.device.read_at(&mut bytes, 0).unwrap();
    let content = OverlayDevice::new(bytes.into());
    for medium in Medium::others(seed) {
        println!("{medium}, seed {seed}");
        let stored = medium.store(&content).unwrap();
        let volume =
            Volume::open_device(stored.device(), &options(1 << 20, PolicyName::OnDemand)).unwrap();
        read_with_threads(&volume, large.path, large.size_bytes, seed);
        assert!(stored.request_count() > 0, "{medium}");
    }
}

#[test]
fn holes_and_unwritten_extents_are_zeros_with_no_device_read() {
    if tools_are_missing() {
        return;
    }
    let image = Image::get(recipe("ext4-2k-no-journal").unwrap()).unwrap();
    let file = FileDevice::open(image.path(), FileRange::default()).unwrap();
    let device = Arc::new(CountingDevice::new(Arc::new(file)));
    let volume =
        Volume::open_device(device.clone(), &options(64 << 20, PolicyName::OnDemand)).unwrap();
    let mut checked = 0;
    for path in ["/sparse/all-hole", "/unwritten/all", "/sparse/above-4g"] {
        let Ok(ino) = volume.resolve(path.as_bytes()) else {
            println!("{path} is not tested without root");
            continue;
        };
        // These calls load the inode and its mapping, so that only content is read later.
        let size_bytes = volume.metadata(ino).unwrap().size_bytes;
        let data = volume.seek_data(ino, 8192).unwrap_or(size_bytes);
        let before = device.counts();
        let mut buf = vec![0xa5; 300_000];
        let mut at = 8192;
        while at < data.min(64 << 20) {
            let len = usize::try_from(data - at).map_or(buf.len(), |left| left.min(buf.len()));
            assert_eq!(volume.read_at(ino, &mut buf[..len], at).unwrap(), len);
            assert!(buf[..len].iter().all(|&byte| byte == 0), "{path} at {at}");
            at += len as u64;
        }
        assert_eq!(device.counts(), before, "{path} caused device reads");
        checked += 1;
    }
    assert!(checked > 1);
}

#[test]
fn missing_page_read_by_eight_threads_is_read_once() {
    if tools_are_missing() {
        return;
    }
    let large = LargeFile::new(1024).unwrap();
    let device = Arc::new(RecordingDevice::new(large.device.clone()));
    let volume = Volume::open_device(device.clone(), &options(64 << 20, PolicyName::Off)).unwrap();
    let ino = volume.resolve(large.path.as_bytes()).unwrap();
    // One indirect block maps all these pages. It is read first, so that no read of a mapping block
    // is counted.
    let pages = 12..412_u64;
    volume
        .read_at(ino, &mut [0], 11 * PAGE_BYTES as u64)
        .unwrap();
    volume
        .read_at(ino, &mut [0], 500 * PAGE_BYTES as u64)
        .unwrap();
    let _ = device.take_log();
    let barrier = Barrier::new(usize::try_from(THREADS).unwrap());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let (mut buf, mut expected) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
                for page in pages.clone() {
                    barrier.wait();
                    let start = page * PAGE_BYTES as u64;
                    check_bytes(&volume, ino, start, &mut buf, &mut expected);
                }
            });
        }
    });
    let reads = device.take_log();
    let bytes: u64 = reads.iter().map(|read| read.len_bytes).sum();
    assert_eq!(
        bytes,
        (pages.end - pages.start) * PAGE_BYTES as u64,
        "{} reads",
        reads.len()
    );
}

#[test]
fn contiguous_missing_pages_are_one_device_read() {
    if tools_are_missing() {
        return;
    }
    let large = LargeFile::new(1024).unwrap();
    let device = Arc::new(CountingDevice::new(large.device.clone()));
    let counted: Arc<dyn BlockDevice> = device.clone();
    let volume = Volume::open_device(counted, &options(64 << 20, PolicyName::Off)).unwrap();
    let ino = volume.resolve(large.path.as_bytes()).unwrap();
    volume
        .read_at(ino, &mut [0], 500 * PAGE_BYTES as u64)
        .unwrap();
    let before = device.counts();
    let (mut buf, mut expected) = (vec![0; 64 * PAGE_BYTES], vec![0; 64 * PAGE_BYTES]);
    check_bytes(
        &volume,
        ino,
        100 * PAGE_BYTES as u64,
        &mut buf,
        &mut expected,
    );
    assert_eq!(device.counts().reads - before.reads, 1);
    check_bytes(
        &volume,
        ino,
        100 * PAGE_BYTES as u64,
        &mut buf,
        &mut expected,
    );
    assert_eq!(
        device.counts().reads - before.reads,
        1,
        "the second read has only hits"
    );
}
