//! Disk images that name other files, that are encrypted, damaged or hostile.

use allocation_counter::measure;
use larder_block::{BlockDevice, MemoryDevice};
use larder_image::{DiskError, Format, open_disk};
use larder_testkit::qemu::convert;
use larder_testkit::tool::Tool;
use larder_testkit::{Random, Requirement, Seed, proptest_config, skip};
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, LazyLock};

const QEMU: &[Requirement] = &[Requirement::Tool("qemu-img")];
const CACHE_BYTES: u64 = 1 << 20;
/// The maximum memory in bytes in which an image is refused. Each image of these tests has less than 1 MiB.
const MAX_REFUSAL_BYTES: u64 = 2 << 20;

/// Creates an image by `qemu-img create` with these `arguments`, and returns its bytes.
fn created(dir: &Path, format: &str, arguments: &[&str]) -> Vec<u8> {
    let image = dir.join("created");
    let create = Tool::new("qemu-img").args(["create", "-q", "-f", format]);
    create.args(arguments).arg(&image).arg("1M").run().unwrap();
    fs::read(&image).unwrap()
}

/// Returns why an image with these `bytes` cannot be opened. Asserts that this takes little memory.
#[track_caller]
fn refusal(bytes: Vec<u8>, format: Format) -> DiskError {
    let file = Arc::new(MemoryDevice::new(bytes));
    let mut opened = None;
    let allocated = measure(|| opened = Some(open_disk(file, format, CACHE_BYTES)));
    let peak_bytes = allocated.bytes_max;
    assert!(peak_bytes <= MAX_REFUSAL_BYTES, "{peak_bytes} bytes");
    opened.unwrap().unwrap_err()
}

#[track_caller]
fn assert_other_file(bytes: Vec<u8>, format: Format, expected: (&str, &str)) {
    match refusal(bytes, format) {
        DiskError::OtherFile { role, name } => {
            let name = String::from_utf8(name).unwrap();
            assert!(
                role == expected.0 && name.ends_with(expected.1),
                "{role}: {name}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn image_that_needs_another_file_is_refused() {
    if skip(QEMU) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for name in ["/etc/shadow", "http://192.0.2.1/base.img"] {
        // Without -u, qemu-img opens the backing file.
        let bytes = created(dir.path(), "qcow2", &["-u", "-b", name, "-F", "raw"]);
        assert_other_file(bytes, Format::Qcow2, ("backing file", name));
    }
    let data = dir.path().join("data");
    let option = format!("data_file={}", data.display());
    let bytes = created(dir.path(), "qcow2", &["-o", &option]);
    assert_other_file(bytes, Format::Qcow2, ("external data file", "data"));

    let base = dir.path().join("base.vmdk");
    let create = Tool::new("qemu-img").args(["create", "-q", "-f", "vmdk"]);
    create.arg(&base).arg("1M").run().unwrap();
    let base = base.to_str().unwrap();
    let bytes = created(dir.path(), "vmdk", &["-b", base, "-F", "vmdk"]);
    assert_other_file(bytes, Format::Vmdk, ("parent", base));
    for (subformat, file) in [
        ("monolithicFlat", "created-flat"),
        ("twoGbMaxExtentSparse", "created-s001"),
    ] {
        let option = format!("subformat={subformat}");
        let bytes = created(dir.path(), "vmdk", &["-o", &option]);
        assert_other_file(bytes, Format::Vmdk, ("extent", file));
    }
    let extent = fs::read(dir.path().join("created-s001")).unwrap();
    let error = refusal(extent, Format::Vmdk);
    assert!(error.to_string().contains("part of a disk"), "{error}");
}

#[test]
fn encryption_is_named() {
    if skip(QEMU) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = created(dir.path(), "qcow2", &[]);
    // The method of encryption in the header, in big-endian order: LUKS. qemu-img itself cannot always create an
    // encrypted image on a busy machine: it fails if it cannot measure its processor time.
    bytes[32..36].copy_from_slice(&2_u32.to_be_bytes());
    let error = refusal(bytes, Format::Qcow2);
    assert!(matches!(error, DiskError::Encrypted("LUKS")), "{error:?}");
}

#[test]
fn unknown_features_are_refused() {
    if skip(QEMU) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = created(dir.path(), "qcow2", &[]);
    // Bits 0 and 1 do not concern a reader.
    bytes[79] |= 0b11;
    let file = Arc::new(MemoryDevice::new(bytes.clone()));
    assert!(open_disk(file, Format::Qcow2, CACHE_BYTES).is_ok());
    bytes[78] = 1;
    let error = refusal(bytes, Format::Qcow2);
    assert!(error.to_string().contains("features 8"), "{error}");
}

#[test]
fn vmdk_with_a_long_descriptor_is_refused_with_the_reason() {
    if skip(QEMU) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = created(dir.path(), "vmdk", &[]);
    // The length of the descriptor in sectors.
    bytes[36..44].copy_from_slice(&129_u64.to_le_bytes());
    let error = refusal(bytes, Format::Vmdk);
    assert!(
        error.to_string().contains("more than 65536 bytes"),
        "{error}"
    );
}

#[test]
fn sizes_in_headers_do_not_determine_the_memory() {
    if skip(QEMU) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let qcow2 = created(dir.path(), "qcow2", &[]);
    let vmdk = created(dir.path(), "vmdk", &[]);
    let patched = |bytes: &[u8], patches: &[(usize, &[u8])]| {
        let mut bytes = bytes.to_vec();
        for (at, new) in patches {
            bytes[*at..*at + new.len()].copy_from_slice(new);
        }
        bytes
    };
    let huge = [0xFF; 8];
    for (format, bytes) in [
        // The size of the disk.
        (Format::Qcow2, patched(&qcow2, &[(24, &huge)])),
        // A disk of 2^60 bytes, and an L1 table of 2^31 entries.
        (
            Format::Qcow2,
            patched(&qcow2, &[(24, &[0x10]), (36, &[0x80])]),
        ),
        // The offset of the L1 table.
        (Format::Qcow2, patched(&qcow2, &[(40, &huge)])),
        // The size of clusters.
        (Format::Qcow2, patched(&qcow2, &[(20, &[0, 0, 0, 63])])),
        // The size of the disk, of a grain, and of a grain table.
        (Format::Vmdk, patched(&vmdk, &[(12, &huge)])),
        (Format::Vmdk, patched(&vmdk, &[(20, &huge)])),
        (Format::Vmdk, patched(&vmdk, &[(20, &[0; 8])])),
        (Format::Vmdk, patched(&vmdk, &[(44, &huge[..4])])),
        (Format::Vmdk, patched(&vmdk, &[(44, &[0; 4])])),
        // The place of the grain directory: not in the file, and in a footer that does not exist.
        (
            Format::Vmdk,
            patched(&vmdk, &[(56, &[0, 0xFF, 0xFF, 0xFF])]),
        ),
        (Format::Vmdk, patched(&vmdk, &[(56, &huge)])),
    ] {
        let error = refusal(bytes, format);
        assert!(!matches!(error, DiskError::OtherFile { .. }), "{error:?}");
    }
    // A seek table that says that it has 2^32 - 1 frames.
    let mut zstd = vec![0x28, 0xB5, 0x2F, 0xFD];
    zstd.extend([0xFF, 0xFF, 0xFF, 0xFF, 0, 0xB1, 0xEA, 0x92, 0x8F]);
    refusal(zstd, Format::Zstd);
}

#[test]
fn cluster_that_is_not_in_the_file_is_damage() {
    if skip(QEMU) {
        return;
    }
    let mut random = Random::new(Seed::announced(12));
    let dir = tempfile::tempdir().unwrap();
    let (raw, image) = (dir.path().join("raw"), dir.path().join("image"));
    let content = random.bytes(1 << 20);
    fs::write(&raw, &content).unwrap();
    for (format, arguments, what) in [
        (Format::Qcow2, "", "a cluster is not in the file"),
        (Format::Vmdk, "", "a grain is not in the file"),
    ] {
        convert(&raw, &image, format.as_str(), arguments).unwrap();
        let mut bytes = fs::read(&image).unwrap();
        // The file ends in the middle of a cluster.
        bytes.truncate(bytes.len() - 100_000);
        let file = Arc::new(MemoryDevice::new(bytes));
        let disk = open_disk(file, format, CACHE_BYTES).unwrap().unwrap();
        let mut damaged = 0;
        for (number, expected) in content.chunks(512).enumerate() {
            let mut buf = [0; 512];
            match disk.read_at(&mut buf, number as u64 * 512) {
                Ok(()) => assert!(buf == expected, "sector {number}"),
                Err(error) => {
                    assert!(error.to_string().contains("the disk image is damaged"));
                    assert!(error.to_string().contains(what), "{error}");
                    damaged += 1;
                }
            }
        }
        // The number of damaged sectors is about the number of sectors that were cut.
        assert!((190..=200).contains(&damaged), "{damaged} sectors");
        let error = disk.read_at(&mut vec![0; 1 << 20], 0).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn table_that_is_not_in_the_file_is_damage() {
    if skip(QEMU) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = created(dir.path(), "qcow2", &[]);
    // The first entry of the L1 table: an L2 table at 64 MiB.
    let l1 = usize::try_from(u64::from_be_bytes(bytes[40..48].try_into().unwrap())).unwrap();
    bytes[l1..l1 + 8].copy_from_slice(&(64_u64 << 20).to_be_bytes());
    let file = Arc::new(MemoryDevice::new(bytes));
    let disk = open_disk(file, Format::Qcow2, CACHE_BYTES)
        .unwrap()
        .unwrap();
    let error = disk.read_at(&mut [0], 0).unwrap_err();
    assert!(
        error.to_string().contains("a table is not in the file"),
        "{error}"
    );
}

/// Returns `content` as seekable zstd, in frames of `frame_bytes`.
fn zstd(content: &[u8], frame_bytes: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = zeekstd::EncodeOptions::new()
        .frame_size_policy(zeekstd::FrameSizePolicy::Uncompressed(frame_bytes))
        .into_encoder(&mut bytes)
        .unwrap();
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap();
    bytes
}

/// Small images in all formats. Empty if qemu-img is not installed.
static IMAGES: LazyLock<Vec<(Format, Vec<u8>)>> = LazyLock::new(|| {
    if skip(QEMU) {
        return Vec::new();
    }
    let mut random = Random::new(Seed(11));
    let dir = tempfile::tempdir().unwrap();
    let (raw, image) = (dir.path().join("raw"), dir.path().join("image"));
    let mut content = vec![0; 200 << 10];
    random.fill(&mut content[10 << 10..30 << 10]);
    content[90 << 10..120 << 10].fill(7);
    fs::write(&raw, &content).unwrap();
    let arguments = [
        (Format::Qcow2, "-o cluster_size=4k"),
        (Format::Qcow2, "-o extended_l2=on,cluster_size=16k"),
        (Format::Qcow2, "-c -o cluster_size=4k"),
        (Format::Qcow2, "-c -o cluster_size=4k,compression_type=zstd"),
        (Format::Vmdk, "-o subformat=monolithicSparse"),
        (Format::Vmdk, "-o subformat=streamOptimized"),
    ];
    let images = arguments.map(|(format, arguments)| {
        convert(&raw, &image, format.as_str(), arguments).unwrap();
        (format, fs::read(&image).unwrap())
    });
    let zstd = [1000, 50_000].map(|frame_bytes| (Format::Zstd, zstd(&content, frame_bytes)));
    images.into_iter().chain(zstd).collect()
});

proptest! {
    #![proptest_config(proptest_config!(31, cases: 2000))]

    #[test]
    fn damaged_image_can_be_opened_and_read_or_fails(
        which in any::<prop::sample::Index>(),
        patches in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        if IMAGES.is_empty() {
            return Ok(());
        }
        let (format, bytes) = &IMAGES[which.index(IMAGES.len())];
        let mut bytes = bytes.clone();
        // Tables are sparse: most bytes that matter are not zero.
        let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        for (at, value, is_used) in patches {
            let at = if is_used { used[at.index(used.len())] } else { at.index(bytes.len()) };
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            let len = cut.index(bytes.len());
            bytes.truncate(len);
        }
        let file = Arc::new(MemoryDevice::new(bytes));
        if let Ok(Some(disk)) = open_disk(file, *format, CACHE_BYTES) {
            let mut buf = [0; 5000];
            let step = (disk.size_bytes() / 64).max(1);
            for part in 0..64 {
                let _ = disk.read_at(&mut buf, part * step);
            }
        }
    }
}
