//! The queue for the content of new files: content, times and space of the files, on all layouts; errors; and files that
//! change although the queue has them.

use larder::{ContentBuffers, FileTimes, Ino, Make, NewFile, OpenOptions, Timestamp, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_instruments::FaultyDevice;
use larder_testkit::crash::{LAYOUTS, Layout, layout};
use larder_testkit::e2fsprogs::check_bytes;
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;

const TIMES: FileTimes = FileTimes {
    accessed: time(5),
    modified: time(7),
};

const fn time(seconds: i64) -> Timestamp {
    Timestamp {
        seconds,
        nanoseconds: 0,
    }
}

fn is_skipped() -> bool {
    skip(&["mke2fs", "e2fsck"].map(Requirement::Tool))
}

fn options() -> OpenOptions {
    OpenOptions::new().read_write(true).background(false)
}

fn ext4() -> &'static Layout {
    layout("ext4").unwrap()
}

/// Returns a new volume, and its device.
fn open(layout: &Layout) -> (Arc<MemoryDevice>, Volume) {
    let device = Arc::new(MemoryDevice::new(layout.base().unwrap().to_vec()));
    let volume = Volume::open_device(Arc::clone(&device) as _, &options()).unwrap();
    (device, volume)
}

/// Closes the volume, checks the image, and returns its bytes.
fn close(device: &MemoryDevice, volume: Volume) -> Vec<u8> {
    volume.close().unwrap();
    drop(volume);
    let bytes = device.to_bytes();
    check_bytes(&bytes).unwrap();
    bytes
}

fn make(volume: &Volume, name: &str) -> Ino {
    let new = NewFile::new().permissions(0o4751).owner(3, 4);
    let made = volume.make_exactly(Ino::ROOT, name.as_bytes(), Make::FILE, &new, TIMES);
    made.unwrap().ino
}

/// Returns the content of the file with this number, of the given length.
fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 7 + number * 13 + at / 251).to_le_bytes()[0])
        .collect()
}

fn read(volume: &Volume, ino: Ino) -> Vec<u8> {
    let size_bytes = volume.metadata(ino).unwrap().size_bytes;
    let mut bytes = vec![0; usize::try_from(size_bytes).unwrap()];
    assert_eq!(volume.read_at(ino, &mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// Creates files of many sizes, pushes their content in batches, and returns their inodes and contents.
fn fill(volume: &Volume, bytes: usize) -> Vec<(Ino, Vec<u8>)> {
    let mut queue = volume.content_queue().unwrap().unwrap();
    let mut buffers = ContentBuffers::new(64 << 10);
    let (mut made, mut files) = (Vec::new(), Vec::new());
    let (mut buffer, mut end, mut sum) = (buffers.take(), 0, 0);
    let lens = [
        1, 4096, 511, 1024, 4097, 20_000, 1025, 8192, 33_000, 3, 2048,
    ];
    for number in 0_usize.. {
        let len = lens[number % lens.len()] + number % 3;
        if sum + len > bytes {
            break;
        }
        if end + len > buffer.len() {
            buffers.keep(Arc::clone(&buffer));
            let full = std::mem::replace(&mut buffer, buffers.take());
            queue.push(full, std::mem::take(&mut files)).unwrap();
            end = 0;
        }
        let ino = make(volume, &format!("file-{number}"));
        let content = content(number, len);
        let part: Range<usize> = end..end + len;
        Arc::get_mut(&mut buffer).unwrap()[part.clone()].copy_from_slice(&content);
        files.push((ino, part));
        made.push((ino, content));
        (end, sum) = (end + len, sum + len);
    }
    queue.push(buffer, files).unwrap();
    queue.finish().unwrap();
    made
}

#[test]
fn files_have_their_content_and_times_and_the_image_is_repeatable() {
    if is_skipped() {
        return;
    }
    for layout in LAYOUTS {
        let mut images = Vec::new();
        for _ in 0..2 {
            let device = Arc::new(MemoryDevice::new(layout.base().unwrap().to_vec()));
            let mut options = options();
            options.clock = Arc::new(Fixed);
            let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
            if volume.content_queue().unwrap().is_none() {
                assert!(layout.name.contains("inline"), "{}", layout.name);
                continue;
            }
            let files = fill(&volume, 1 << 20);
            assert!(files.len() > 100);
            for (ino, content) in &files {
                let metadata = volume.metadata(*ino).unwrap();
                let times = (metadata.accessed, metadata.modified);
                assert_eq!(times, (TIMES.accessed, TIMES.modified), "{}", layout.name);
                assert_eq!(metadata.permissions, 0o4751);
                assert_eq!((metadata.uid, metadata.gid), (3, 4));
                assert!(read(&volume, *ino) == *content, "{}: {ino}", layout.name);
            }
            let bytes = close(&device, volume);
            let again = Volume::open_device(Arc::new(MemoryDevice::new(bytes.clone())), &options);
            let again = again.unwrap();
            for (ino, content) in &files {
                assert!(read(&again, *ino) == *content, "{}: {ino}", layout.name);
            }
            images.push(bytes);
        }
        // A journal records the time of the host.
        if let [one, other] = &images[..]
            && !layout.journal
        {
            assert!(one == other, "{}", layout.name);
        }
    }
}

#[derive(Debug)]
struct Fixed;

impl larder::Clock for Fixed {
    fn now(&self) -> Timestamp {
        time(1_000_000)
    }
}

#[test]
fn bytes_after_the_end_of_a_file_are_zeros() {
    if is_skipped() {
        return;
    }
    // The free blocks of the layout are not zeros.
    let (device, volume) = open(ext4());
    let files = fill(&volume, 200_000);
    for (ino, content) in &files {
        let longer = content.len() as u64 + 6000;
        volume.truncate(*ino, longer).unwrap();
        let read = read(&volume, *ino);
        assert!(read[..content.len()] == content[..]);
        assert!(read[content.len()..].iter().all(|&byte| byte == 0));
    }
    close(&device, volume);
}

#[test]
fn invalid_files_are_rejected() {
    if is_skipped() {
        return;
    }
    let (device, volume) = open(ext4());
    let (full, dirty, empty) = (
        make(&volume, "full"),
        make(&volume, "dirty"),
        make(&volume, "e"),
    );
    volume.write_all_at(full, b"content", 0).unwrap();
    volume.sync().unwrap();
    volume.write_all_at(dirty, b"content", 0).unwrap();
    let directory = volume
        .make_dir(Ino::ROOT, b"d", &NewFile::new())
        .unwrap()
        .ino;
    let buffer = Arc::new(vec![1; 100]);
    for files in [
        vec![(full, 0..1)],
        vec![(dirty, 0..1)],
        vec![(directory, 0..1)],
        vec![(empty, 0..1), (empty, 1..2)],
        vec![(empty, 0..101)],
    ] {
        let mut queue = volume.content_queue().unwrap().unwrap();
        let error = queue.push(Arc::clone(&buffer), files.clone()).unwrap_err();
        assert_eq!(error.errno(), Errno::INVAL, "{files:?}: {error}");
        assert_eq!(queue.finish().unwrap_err().errno(), Errno::INVAL);
    }
    let mut queue = volume.content_queue().unwrap().unwrap();
    queue.push(buffer, vec![(empty, 0..100)]).unwrap();
    queue.finish().unwrap();
    assert_eq!(read(&volume, empty), [1; 100]);
    assert_eq!(read(&volume, full), b"content");
    drop(queue);
    close(&device, volume);
}

#[test]
fn file_that_changed_meanwhile_keeps_its_content() {
    if is_skipped() {
        return;
    }
    let (device, volume) = open(ext4());
    let free = volume.statfs().free_blocks;
    let (changed, other) = (make(&volume, "changed"), make(&volume, "other"));
    let mut queue = volume.content_queue().unwrap().unwrap();
    let buffer = Arc::new(vec![1; 10_000]);
    queue
        .push(buffer, vec![(changed, 0..5000), (other, 5000..10_000)])
        .unwrap();
    volume.write_all_at(changed, b"newer", 0).unwrap();
    for _ in 0..2 {
        let error = queue.finish().unwrap_err();
        assert_eq!(error.errno(), Errno::INVAL, "{error}");
    }
    drop(queue);
    assert_eq!(read(&volume, changed), b"newer");
    assert_eq!(read(&volume, other), b"");
    volume.sync().unwrap();
    assert_eq!(volume.statfs().free_blocks, free - 1);
    close(&device, volume);
}

#[test]
fn queue_that_is_dropped_leaves_empty_files_and_free_space() {
    if is_skipped() {
        return;
    }
    let (device, volume) = open(ext4());
    let free = volume.statfs().free_blocks;
    let inos: Vec<_> = (0..3)
        .map(|number| make(&volume, &format!("f{number}")))
        .collect();
    let mut queue = volume.content_queue().unwrap().unwrap();
    for ino in &inos[..2] {
        queue
            .push(Arc::new(vec![1; 5000]), vec![(*ino, 0..5000)])
            .unwrap();
    }
    drop(queue);
    for ino in &inos {
        assert_eq!(read(&volume, *ino), b"");
    }
    assert_eq!(volume.statfs().free_blocks, free);
    close(&device, volume);
}

#[test]
fn content_that_does_not_fit_fails_with_enospc() {
    if is_skipped() {
        return;
    }
    let (device, volume) = open(ext4());
    let mut queue = volume.content_queue().unwrap().unwrap();
    let buffer = Arc::new(vec![1; 1 << 20]);
    let error = (0..1000).find_map(|number| {
        let ino = make(&volume, &format!("file-{number}"));
        queue
            .push(Arc::clone(&buffer), vec![(ino, 0..buffer.len())])
            .err()
    });
    assert_eq!(error.unwrap().errno(), Errno::NOSPC);
    // The content of one file is lost, so all later calls fail, even if the content of later files would fit.
    let small = make(&volume, "small");
    for error in [
        queue.finish().unwrap_err(),
        queue.push(buffer, vec![(small, 0..1)]).unwrap_err(),
        queue.finish().unwrap_err(),
    ] {
        assert_eq!(error.errno(), Errno::NOSPC, "{error}");
    }
    drop(queue);
    close(&device, volume);
}

#[test]
fn failed_write_stops_all_writing() {
    if is_skipped() {
        return;
    }
    let mut failures = 0;
    // The first writes belong to the opening of the volume.
    for number in 0..8 {
        let memory = Arc::new(MemoryDevice::new(ext4().base().unwrap().to_vec()));
        let faulty = FaultyDevice::new(memory as Arc<dyn BlockDevice>).fail_write(number);
        let Ok(volume) = Volume::open_device(Arc::new(faulty), &options()) else {
            continue;
        };
        let ino = make(&volume, "file");
        let mut queue = volume.content_queue().unwrap().unwrap();
        queue
            .push(Arc::new(vec![1; 5000]), vec![(ino, 0..5000)])
            .unwrap();
        let Err(error) = queue.finish() else {
            continue;
        };
        failures += 1;
        assert_eq!(error.errno(), Errno::IO, "{error}");
        drop(queue);
        let later = volume.create(Ino::ROOT, b"later", &NewFile::new());
        let error = later.unwrap_err();
        assert_eq!(error.errno(), Errno::ROFS, "{error}");
    }
    assert_eq!(failures, 1);
}
