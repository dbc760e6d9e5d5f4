//! Content after a crash, and on a full file system: truncated content does not reappear, and
//! accepted writes are kept.

use larder::{Ino, NewFile, OpenOptions, Volume};
use larder_block::BlockDevice;
use larder_instruments::OverlayDevice;
use larder_testkit::crash::{LAYOUTS, Layout, layout};
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::sync::Arc;

const BLOCK: usize = 4096;

fn is_skipped() -> bool {
    skip(&["mke2fs"].map(Requirement::Tool))
}

/// Options without background activity.
fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options
}

fn open(layout: &Layout) -> (Arc<OverlayDevice>, Volume) {
    let device = Arc::new(OverlayDevice::new(layout.base().unwrap()));
    let opened: Arc<dyn BlockDevice> = Arc::clone(&device) as _;
    (device, Volume::open_device(opened, &options()).unwrap())
}

fn named(name: &'static str, mkfs: &'static str) -> Layout {
    let mut layout = LAYOUTS[0];
    (layout.name, layout.mkfs) = (name, mkfs);
    layout
}

fn make(volume: &Volume, name: &str) -> Ino {
    let new = NewFile {
        permissions: 0o644,
        umask: 0,
        uid: 0,
        gid: 0,
    };
    volume.create(Ino::ROOT, name.as_bytes(), &new).unwrap().ino
}

/// Returns the content that the file `name` would have after a power cut now.
fn after_crash(device: &Arc<OverlayDevice>, volume: Volume, name: &str) -> Vec<u8> {
    let content = read(device, name);
    // Do not drop the volume, because this would write to the image.
    std::mem::forget(volume);
    content
}

fn read(device: &Arc<OverlayDevice>, name: &str) -> Vec<u8> {
    let device = Arc::clone(device) as _;
    let volume = Volume::open_device(device, &OpenOptions::default()).unwrap();
    let ino = volume.resolve(name.as_bytes()).unwrap();
    let size_bytes = volume.metadata(ino).unwrap().size_bytes;
    let mut content = vec![0; usize::try_from(size_bytes).unwrap()];
    assert_eq!(volume.read_at(ino, &mut content, 0).unwrap(), content.len());
    content
}

#[test]
fn large_write_before_delayed_blocks_exposes_no_truncated_content() {
    if is_skipped() {
        return;
    }
    let (device, volume) = open(&LAYOUTS[0]);
    let (file, other) = (make(&volume, "f"), make(&volume, "g"));
    volume.write_at(file, &vec![b'A'; 300 << 10], 0).unwrap();
    volume.sync().unwrap();
    let cut = (256 << 10) + 100;
    volume.truncate(file, cut).unwrap();
    volume.write_at(file, &[b'B'; 200], cut).unwrap();
    volume.write_at(file, &vec![b'C'; 256 << 10], 0).unwrap();
    volume.sync_file(other, false).unwrap();
    let content = after_crash(&device, volume, "f");
    assert_eq!(content[..256 << 10], vec![b'C'; 256 << 10]);
    assert!(!content[usize::try_from(cut).unwrap()..].contains(&b'A'));
}

#[test]
fn truncation_after_delayed_blocks_exposes_no_truncated_content() {
    if is_skipped() {
        return;
    }
    for data in [larder::DataMode::Ordered, larder::DataMode::Journal] {
        let device = Arc::new(OverlayDevice::new(LAYOUTS[0].base().unwrap()));
        let mut options = options();
        options.data = data;
        let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
        let (file, other) = (make(&volume, "f"), make(&volume, "g"));
        volume.write_at(file, &[b'A'; BLOCK], 0).unwrap();
        volume.sync().unwrap();
        volume.truncate(file, 100).unwrap();
        volume.write_at(file, &[b'B'; 900], 100).unwrap();
        volume.truncate(file, 500).unwrap();
        let mut now = [0; 1000];
        assert_eq!(volume.read_at(file, &mut now, 0).unwrap(), 500);
        assert_eq!(now[100..500], [b'B'; 400]);
        volume.sync_file(other, false).unwrap();
        let content = after_crash(&device, volume, "f");
        assert_eq!(content[..100], [b'A'; 100]);
        assert!(!content[100..].contains(&b'A'), "{data:?}");
    }
}

#[test]
fn truncated_and_extended_file_reads_as_zeros_after_a_crash() {
    if is_skipped() {
        return;
    }
    let (device, volume) = open(&LAYOUTS[0]);
    let file = make(&volume, "f");
    volume.write_at(file, &[b'A'; BLOCK], 0).unwrap();
    volume.sync().unwrap();
    volume.truncate(file, 100).unwrap();
    let other = make(&volume, "g");
    volume.sync_file(other, false).unwrap();
    // After the crash, another mount extends the file.
    let content = after_crash(&device, volume, "f");
    assert_eq!(content, [b'A'; 100]);
    let volume = Volume::open_device(Arc::clone(&device) as _, &options()).unwrap();
    let file = volume.resolve(b"f").unwrap();
    volume.truncate(file, 1000).unwrap();
    volume.close().unwrap();
    let content = read(&device, "f");
    assert_eq!(content[100..], [0; 900]);
}

#[test]
fn file_rewritten_after_truncation_has_its_content_when_the_log_was_full() {
    if is_skipped() {
        return;
    }
    let (device, volume) = open(layout("small-journal-1k").unwrap());
    let file = make(&volume, "f");
    volume.write_at(file, &[b'o'; 8192], 0).unwrap();
    volume.sync().unwrap();
    // The file is held, as if it were open.
    volume.hold(file).expect("held");
    volume.truncate(file, 0).unwrap();
    volume.write_at(file, &[b'n'; 8192], 0).unwrap();
    for number in 0..900 {
        make(&volume, &format!("{number:0200}"));
    }
    assert_eq!(after_crash(&device, volume, "f"), [b'n'; 8192]);
}

/// Writes until there is no space for another byte. Returns the end of the written content.
fn fill(volume: &Volume, file: Ino, mut at: u64) -> u64 {
    for piece in [64 << 10, 1024] {
        let buf = vec![7; piece];
        loop {
            match volume.write_at(file, &buf, at) {
                Ok(written) => at += written as u64,
                Err(error) => {
                    assert_eq!(error.errno(), Errno::NOSPC);
                    break;
                }
            }
        }
    }
    at
}

const EXT2: Layout = Layout {
    name: "ext2-1k-all",
    mkfs: "-t ext2 -b 1024 -I 128 -m 0",
    ..LAYOUTS[1]
};
const EXT3: Layout = Layout {
    name: "ext3-1k-all",
    mkfs: "-t ext3 -b 1024 -I 128 -m 0",
    ..LAYOUTS[1]
};

#[test]
fn accepted_content_of_indirect_blocks_fits() {
    if is_skipped() {
        return;
    }
    for layout in [EXT3, EXT2] {
        let (device, volume) = open(&layout);
        let (file, small) = (make(&volume, "f"), make(&volume, "s"));
        volume.write_at(small, &[b's'; 5000], 0).unwrap();
        let end = fill(&volume, file, 0);
        volume.sync().unwrap();
        volume.close().unwrap();
        let content = read(&device, "f");
        assert_eq!(content.len() as u64, end, "{}", layout.name);
        assert!(content.iter().all(|byte| *byte == 7));
        assert_eq!(read(&device, "s"), [b's'; 5000]);
    }
}

#[test]
fn reservation_of_scattered_blocks_is_not_used_up_by_a_large_write() {
    if is_skipped() {
        return;
    }
    let mkfs = "-t ext4 -b 4096 -N 2048 -m 0";
    let (device, volume) = open(&named("ext4-none-kept", mkfs));
    let (file, other) = (make(&volume, "f"), make(&volume, "g"));
    volume.truncate(file, 8 << 20).unwrap();
    let places = (0..50).map(|number| (4 << 20) + number * 8192);
    for at in places.clone() {
        volume.write_at(file, &[b'x'; BLOCK], at).unwrap();
    }
    volume.write_at(file, &vec![b'y'; 1 << 20], 0).unwrap();
    let large = vec![1; 256 << 10];
    let mut at = 0;
    for piece in [large.len(), BLOCK] {
        while let Ok(written) = volume.write_at(other, &large[..piece], at) {
            at += written as u64;
        }
    }
    volume.sync_file(file, false).unwrap();
    volume.sync().unwrap();
    volume.close().unwrap();
    let content = read(&device, "f");
    for at in places {
        let at = usize::try_from(at).unwrap();
        assert_eq!(content[at..at + BLOCK], [b'x'; BLOCK]);
    }
    assert_eq!(read(&device, "g").len() as u64, at);
}
