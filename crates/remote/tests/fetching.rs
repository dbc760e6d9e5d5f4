//! How the reads of programs become requests to the server: how many, how large, and how many at once.

use larder::{Ino, OpenOptions, Volume};
use larder_remote::{ImageUrl, RemoteDevice, RemoteOptions};
use larder_testkit::e2fsprogs::make_image_of;
use larder_testkit::http::{Fault, HttpServer, Link, Object};
use larder_testkit::{Requirement, skip};
use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// The length of the reads of the kernel.
const READ_BYTES: usize = 128 << 10;
const LARGE_BYTES: usize = 16 << 20;
const PART_BYTES: usize = 4 << 20;
const PARTS: usize = 8;
/// The first window of a sequential reader.
const FIRST_WINDOW_BYTES: usize = 2 << 20;
const UNIT: usize = 64 << 10;

/// A server with an image that has the file `large`, and the files `0` to `7`.
struct Image {
    server: HttpServer,
}

fn content(salt: usize, len: usize) -> Vec<u8> {
    let byte =
        |at: usize| (at.wrapping_mul(2_654_435_761).wrapping_add(salt) >> 13).to_le_bytes()[0];
    (0..len).map(byte).collect()
}

impl Image {
    /// Returns `None` without mke2fs.
    fn new() -> Option<Self> {
        if skip(&[Requirement::Tool("mke2fs")]) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("tree")).unwrap();
        fs::write(path("tree/large"), content(0, LARGE_BYTES)).unwrap();
        for number in 0..PARTS {
            let name = format!("tree/{number}");
            fs::write(path(&name), content(number << 20, PART_BYTES)).unwrap();
        }
        make_image_of(&path("tree"), &path("image"), "-t ext4", "80M").unwrap();
        let object = Object::new(fs::read(path("image")).unwrap(), "one");
        let server = HttpServer::of_object(object, Link::default());
        Some(Self { server })
    }

    /// Opens the image as a mount does, and looks the files up.
    fn open(&self, names: &[String]) -> (Volume, Vec<Ino>) {
        let url = ImageUrl::parse(&self.server.url("disk.img")).unwrap();
        let device = RemoteDevice::open(&url, &RemoteOptions::default()).unwrap();
        let mut options = OpenOptions::default();
        options.readahead_max_bytes = 32 << 20;
        options.device_timeout = Some(Duration::from_secs(30));
        let volume = Volume::open_device(Arc::new(device), &options).unwrap();
        let inos = names
            .iter()
            .map(|name| volume.resolve(format!("/{name}").as_bytes()).unwrap());
        let inos = inos.collect();
        drop(self.server.take_requests());
        (volume, inos)
    }

    /// Returns the ranges that were requested since the last call. Checks that they consist of units, and that no unit
    /// was requested twice.
    fn take_ranges(&self) -> Vec<(usize, usize)> {
        let requests = self.server.take_requests();
        let ranges = requests.iter().map(|request| request.range().unwrap());
        let ranges: Vec<_> = ranges.map(|(first, last)| (first, last + 1)).collect();
        let mut units = HashSet::new();
        for &(start, end) in &ranges {
            assert!(start.is_multiple_of(UNIT) && end.is_multiple_of(UNIT));
            for unit in start / UNIT..end / UNIT {
                assert!(units.insert(unit), "unit {unit} twice: {ranges:?}");
            }
        }
        ranges
    }
}

fn total_bytes(ranges: &[(usize, usize)]) -> usize {
    ranges.iter().map(|(start, end)| end - start).sum()
}

/// Reads `len` bytes as a program does.
fn read(volume: &Volume, ino: Ino, at: usize, len: usize) -> Vec<u8> {
    let mut buf = vec![0; len];
    let read = volume.read_at(ino, &mut buf, at as u64).unwrap();
    buf.truncate(read);
    buf
}

#[test]
fn first_read_waits_for_its_own_pieces_only() {
    let Some(image) = Image::new() else { return };
    let (volume, inos) = image.open(&["large".to_owned()]);
    // Only half of each reply arrives, and the client would wait 10 seconds for the rest.
    image.server.inject([Fault::Stall, Fault::Stall]);
    let start = read(&volume, inos[0], 0, READ_BYTES);
    assert_eq!(start, content(0, LARGE_BYTES)[..READ_BYTES]);
    let ranges = image.take_ranges();
    assert!(ranges.len() <= 2, "{ranges:?}");
    // The file does not start at the start of a unit.
    let bytes = total_bytes(&ranges);
    assert!((FIRST_WINDOW_BYTES..=FIRST_WINDOW_BYTES + UNIT).contains(&bytes));
    // The drop cancels the reads of the rest. Otherwise it would wait until the client repeats the requests.
    drop(volume);
    assert!(image.take_ranges().is_empty());
}

#[test]
fn small_first_read_transfers_no_large_window() {
    let Some(image) = Image::new() else { return };
    let (volume, inos) = image.open(&["large".to_owned()]);
    assert_eq!(read(&volume, inos[0], 0, 4096), content(0, 4096));
    assert!(total_bytes(&image.take_ranges()) <= 2 * UNIT);
}

#[test]
fn sequential_read_transfers_each_unit_once_in_long_requests() {
    let Some(image) = Image::new() else { return };
    let (volume, inos) = image.open(&["large".to_owned()]);
    let expected = content(0, LARGE_BYTES);
    for at in (0..LARGE_BYTES).step_by(READ_BYTES) {
        let part = read(&volume, inos[0], at, READ_BYTES);
        assert_eq!(part, expected[at..at + READ_BYTES]);
    }
    let ranges = image.take_ranges();
    let bytes = total_bytes(&ranges);
    // The file has at most two extents, which start and end inside units.
    let expected = LARGE_BYTES - UNIT..=LARGE_BYTES + 2 * UNIT;
    assert!(expected.contains(&bytes), "{bytes}: {ranges:?}");
    assert!(ranges.len() <= LARGE_BYTES >> 20, "{ranges:?}");
}

#[test]
fn interleaved_readers_transfer_each_unit_once_in_long_requests() {
    let Some(image) = Image::new() else { return };
    let names: Vec<String> = (0..PARTS).map(|number| number.to_string()).collect();
    let (volume, inos) = image.open(&names);
    for at in (0..PART_BYTES).step_by(READ_BYTES) {
        for (number, &ino) in inos.iter().enumerate() {
            let expected = content((number << 20) + at.wrapping_mul(2_654_435_761), READ_BYTES);
            assert_eq!(read(&volume, ino, at, READ_BYTES), expected);
        }
    }
    let ranges = image.take_ranges();
    let bytes = total_bytes(&ranges);
    assert!((PARTS * (PART_BYTES - UNIT)..=PARTS * (PART_BYTES + UNIT)).contains(&bytes));
    assert!(ranges.len() <= PARTS * (PART_BYTES >> 20), "{ranges:?}");
}
