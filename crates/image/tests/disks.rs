//! Disk images that qemu-img, qemu-io, zeekstd and zstd write: their disks have the content of the raw image.

use larder_block::{BlockDevice, Error, FileDevice, FileRange, MemoryDevice, Request};
use larder_image::{Contents, DiskDevice, Format, examine, open_disk};
use larder_instruments::RecordingDevice;
use larder_testkit::qemu::convert;
use larder_testkit::tool::Tool;
use larder_testkit::zstd::seekable;
use larder_testkit::{Random, Requirement, Seed, skip};
use std::fs;
use std::io::{IoSliceMut, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const QEMU: &[Requirement] = &[Requirement::Tool("qemu-img"), Requirement::Tool("qemu-io")];
/// The memory for tables and units: less than a disk, so that parts are evicted.
const CACHE_BYTES: u64 = 1 << 20;

/// Returns the content of a disk of 5 MiB and three sectors: holes, content that can be compressed, and content that cannot.
fn content(random: &mut Random) -> Vec<u8> {
    let mut disk = vec![0; 5 * MIB + 3 * 512];
    let len = disk.len();
    for _ in 0..12 {
        let start = random.index(len);
        let end = len.min(start + random.index(300 * KIB));
        random.fill(&mut disk[start..end]);
        let start = random.index(len);
        let end = len.min(start + random.index(300 * KIB));
        for (at, byte) in disk[start..end].iter_mut().enumerate() {
            *byte = (at >> 7).to_le_bytes()[0];
        }
    }
    // The last sectors are often in a unit of their own.
    random.fill(&mut disk[len - 600..]);
    disk
}

/// Opens the image at `path`, which must have `format`.
fn open(path: &Path, format: Format) -> DiskDevice {
    let file: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(path, FileRange::default()).unwrap());
    assert_eq!(examine(&*file, None).unwrap(), Contents::Other(format));
    open_disk(file, format, CACHE_BYTES).unwrap().unwrap()
}

/// Asserts that all of `disk` can be read and is equal to `expected`: by blocking calls, and by many requests at once.
#[track_caller]
fn assert_equal(disk: &DiskDevice, expected: &[u8], random: &mut Random, name: &str) {
    assert_eq!(disk.size_bytes(), expected.len() as u64, "{name}");
    assert_eq!(disk.info().size_bytes, disk.size_bytes());
    // Blocking reads in ascending order.
    let mut at = 0;
    while at < expected.len() {
        let len = (1 + random.index(200 * KIB)).min(expected.len() - at);
        let (mut first, mut second) = (vec![1; len / 3], vec![1; len - len / 3]);
        let mut bufs = [&mut first, &mut second].map(|buf| IoSliceMut::new(buf));
        disk.read_vectored_at(&mut bufs, at as u64).unwrap();
        first.extend(second);
        assert!(
            first == expected[at..at + len],
            "{name}: {len} bytes at {at}"
        );
        at += len;
    }
    // Requests for random ranges.
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let requests = (0..100).map(|_| {
        let at = random.index(expected.len());
        let len = random.index(1 + (expected.len() - at).min(130 * KIB));
        let (wrong, expected) = (Arc::clone(&wrong), expected[at..at + len].to_vec());
        Request::read(vec![1; len], at as u64, move |read: Vec<u8>, result| {
            if result.is_err() || read != expected {
                wrong.lock().unwrap().push((at, len, result));
            }
        })
    });
    disk.perform(requests.collect(), None).unwrap();
    let wrong = wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{name}: {wrong:?}");
    let past = disk.read_at(&mut [0; 2], expected.len() as u64 - 1);
    assert!(matches!(past, Err(Error::OutOfRange { .. })));
}

#[test]
fn disk_in_an_image_of_qemu_img_has_the_content_of_the_raw_image() {
    if skip(QEMU) {
        return;
    }
    let mut random = Random::new(Seed::announced(4));
    let dir = tempfile::tempdir().unwrap();
    let (raw, image) = (dir.path().join("raw"), dir.path().join("image"));
    let expected = content(&mut random);
    fs::write(&raw, &expected).unwrap();
    for (format, unit_bytes, arguments) in [
        (Format::Qcow2, 64 * KIB, ""),
        (Format::Qcow2, 64 * KIB, "-o compat=0.10"),
        (Format::Qcow2, 512, "-o cluster_size=512"),
        (Format::Qcow2, 4 * KIB, "-o cluster_size=4k"),
        (Format::Qcow2, 2 * MIB, "-o cluster_size=2M"),
        (Format::Qcow2, 64 * KIB, "-o preallocation=metadata"),
        (Format::Qcow2, 64 * KIB, "-o extended_l2=on"),
        (
            Format::Qcow2,
            16 * KIB,
            "-o extended_l2=on,cluster_size=16k",
        ),
        (Format::Qcow2, 64 * KIB, "-c"),
        (Format::Qcow2, 64 * KIB, "-c -o compat=0.10"),
        (Format::Qcow2, 512, "-c -o cluster_size=512"),
        (Format::Qcow2, 2 * MIB, "-c -o cluster_size=2M"),
        (Format::Qcow2, 64 * KIB, "-c -o compression_type=zstd"),
        (
            Format::Qcow2,
            2 * MIB,
            "-c -o compression_type=zstd,cluster_size=2M",
        ),
        (Format::Qcow2, 64 * KIB, "-c -o extended_l2=on"),
        (Format::Vmdk, 64 * KIB, "-o subformat=monolithicSparse"),
        (Format::Vmdk, 64 * KIB, "-o subformat=streamOptimized"),
    ] {
        convert(&raw, &image, format.as_str(), arguments).unwrap();
        let disk = open(&image, format);
        let name = format!("{} {arguments}", format.as_str());
        assert_eq!(disk.info().unit_bytes, unit_bytes as u64, "{name}");
        assert_equal(&disk, &expected, &mut random, &name);
    }
}

#[test]
fn grain_directory_can_be_in_the_footer() {
    if skip(QEMU) {
        return;
    }
    let mut random = Random::new(Seed::announced(11));
    let dir = tempfile::tempdir().unwrap();
    let (raw, image) = (dir.path().join("raw"), dir.path().join("image"));
    let expected = content(&mut random);
    fs::write(&raw, &expected).unwrap();
    convert(&raw, &image, "vmdk", "-o subformat=streamOptimized").unwrap();
    // As in an OVA: the header says that the directory is in the footer. A marker precedes the footer, and another one
    // follows it, which ends the stream.
    let mut bytes = fs::read(&image).unwrap();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    let footer = bytes[..512].to_vec();
    bytes[56..64].fill(0xFF);
    let mut marker = [0; 512];
    (marker[0], marker[12]) = (1, 3);
    bytes.extend(marker);
    bytes.extend(footer);
    bytes.extend([0; 512]);
    fs::write(&image, &bytes).unwrap();
    let disk = open(&image, Format::Vmdk);
    assert_equal(&disk, &expected, &mut random, "footer");
    // Without the footer, it is damaged.
    bytes.truncate(bytes.len() - 512);
    let file = Arc::new(MemoryDevice::new(bytes));
    let error = open_disk(file, Format::Vmdk, CACHE_BYTES).unwrap_err();
    assert!(error.to_string().contains("footer"), "{error}");
}

#[test]
fn disk_that_was_written_in_any_order_has_the_content_that_qemu_reads() {
    if skip(QEMU) {
        return;
    }
    let mut random = Random::new(Seed::announced(5));
    let dir = tempfile::tempdir().unwrap();
    let (raw, image) = (dir.path().join("raw"), dir.path().join("image"));
    for (format, options) in [
        ("qcow2", "cluster_size=64k"),
        ("qcow2", "cluster_size=4k"),
        ("qcow2", "extended_l2=on"),
        ("vmdk", "subformat=monolithicSparse"),
        ("vmdk", "subformat=monolithicSparse,zeroed_grain=on"),
    ] {
        let create = Tool::new("qemu-img").args(["create", "-q", "-f", format, "-o", options]);
        create.arg(&image).arg("8M").run().unwrap();
        let mut write = Tool::new("qemu-io").args(["-f", format]);
        for _ in 0..60 {
            let start = random.index(8 * MIB / 512 - 1) * 512;
            let len = (1 + random.index(300)).min((8 * MIB - start) / 512) * 512;
            let change = match random.index(6) {
                0 => "write -z".to_owned(),
                1 => "discard".to_owned(),
                _ => format!("write -P {}", random.byte()),
            };
            write = write.args(["-c", &format!("{change} {start} {len}")]);
        }
        write.arg(&image).run().unwrap();
        let read = Tool::new("qemu-img").args(["convert", "-f", format, "-O", "raw"]);
        read.arg(&image).arg(&raw).run().unwrap();
        let name = format!("{format} {options}");
        let format = if format == "vmdk" {
            Format::Vmdk
        } else {
            Format::Qcow2
        };
        let disk = open(&image, format);
        assert_equal(&disk, &fs::read(&raw).unwrap(), &mut random, &name);
    }
}

#[test]
fn adjacent_clusters_are_read_by_one_request() {
    if skip(QEMU) {
        return;
    }
    let mut random = Random::new(Seed::announced(6));
    let dir = tempfile::tempdir().unwrap();
    let (raw, image) = (dir.path().join("raw"), dir.path().join("image"));
    let expected = random.bytes(4 * MIB);
    fs::write(&raw, &expected).unwrap();
    convert(&raw, &image, "qcow2", "").unwrap();
    let file = FileDevice::open(&image, FileRange::default()).unwrap();
    let file = Arc::new(RecordingDevice::new(Arc::new(file)));
    let disk = open_disk(Arc::clone(&file) as _, Format::Qcow2, CACHE_BYTES);
    let disk = disk.unwrap().unwrap();
    let read = || {
        let request = Request::read(vec![0; MIB], 70_000, |_: Vec<u8>, result| result.unwrap());
        disk.perform(vec![request], None).unwrap();
        file.take_log()
    };
    // The first read also reads a part of an L2 table.
    assert!(read().len() > 1);
    let log = read();
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(log[0].len_bytes, MIB as u64);
}

/// Returns a device with `bytes`, opened as seekable zstd.
fn open_zstd(bytes: Vec<u8>) -> Option<DiskDevice> {
    let file: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    assert_eq!(
        examine(&*file, None).unwrap(),
        Contents::Other(Format::Zstd)
    );
    open_disk(file, Format::Zstd, CACHE_BYTES).unwrap()
}

#[test]
fn disk_compressed_by_zeekstd_has_the_content_of_the_raw_image() {
    let mut random = Random::new(Seed::announced(7));
    let expected = content(&mut random);
    for frame_bytes in [1, 64 * KIB, 2 * MIB] {
        let expected = &expected[..expected.len().min(frame_bytes * 2000)];
        let policy = zeekstd::FrameSizePolicy::Uncompressed(u32::try_from(frame_bytes).unwrap());
        let mut bytes = Vec::new();
        let mut encoder = zeekstd::EncodeOptions::new()
            .frame_size_policy(policy)
            .into_encoder(&mut bytes)
            .unwrap();
        encoder.write_all(expected).unwrap();
        encoder.finish().unwrap();
        let disk = open_zstd(bytes).unwrap();
        assert_equal(&disk, expected, &mut random, &format!("{frame_bytes}"));
    }
}

#[test]
fn frames_of_zstd_with_a_seek_table_are_a_disk() {
    if skip(&[Requirement::Tool("zstd")]) {
        return;
    }
    let mut random = Random::new(Seed::announced(8));
    let expected = content(&mut random);
    for has_checksums in [false, true] {
        let bytes = seekable(&expected, 700 * KIB, has_checksums).unwrap();
        // It is an ordinary file for zstd.
        let dir = tempfile::tempdir().unwrap();
        let (file, plain) = (dir.path().join("disk.zst"), dir.path().join("disk"));
        fs::write(&file, &bytes).unwrap();
        let zstd = Tool::new("zstd").args(["-q", "-d"]).arg(&file);
        zstd.arg("-o").arg(&plain).run().unwrap();
        assert!(fs::read(&plain).unwrap() == expected);
        let disk = open_zstd(bytes).unwrap();
        assert_equal(&disk, &expected, &mut random, "zstd");
    }
    // Without a seek table, it is not a disk.
    let mut bytes = seekable(&expected[..1000], 1000, false).unwrap();
    bytes.truncate(bytes.len() - 1);
    assert!(open_zstd(bytes).is_none());
}

#[test]
fn concatenated_files_with_seek_tables_are_refused() {
    if skip(&[Requirement::Tool("zstd")]) {
        return;
    }
    let mut random = Random::new(Seed::announced(10));
    let bytes = [(); 2].map(|()| seekable(&random.bytes(1000), 500, false).unwrap());
    let file = Arc::new(MemoryDevice::new(bytes.concat()));
    let error = open_disk(file, Format::Zstd, CACHE_BYTES).unwrap_err();
    assert!(error.to_string().contains("seek table"), "{error}");
}

#[test]
fn changed_byte_of_a_frame_is_detected_by_its_checksum() {
    if skip(&[Requirement::Tool("zstd")]) {
        return;
    }
    let mut random = Random::new(Seed::announced(9));
    // Content that cannot be compressed is stored as it is.
    let expected = random.bytes(100 * KIB);
    let mut bytes = seekable(&expected, 50 * KIB, false).unwrap();
    bytes[60 * KIB] ^= 1;
    let disk = open_zstd(bytes).unwrap();
    let mut buf = vec![0; 50 * KIB];
    disk.read_at(&mut buf, 0).unwrap();
    assert!(buf == expected[..50 * KIB]);
    let error = disk.read_at(&mut buf, 50 * KIB as u64).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
}
