//! The use of the superblock's backups, if a power cut left the superblock half written, or if the
//! superblock is damaged.

use larder::{Ino, NewFile, OpenOptions, Volume};
use larder_block::BlockDevice;
use larder_instruments::{ChangeRecord, OverlayDevice, RecordingDevice, SECTOR_BYTES};
use larder_testkit::crash::ImageFile;
use larder_testkit::e2fsprogs::{make_image, new_image};
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::fs::File;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The location of the superblock, in bytes.
const SUPERBLOCK: Range<usize> = 1024..2048;

/// The offset of the UUID in the superblock.
const UUID: usize = 0x68;

/// Layouts with checksums and with backups, some in unusual places.
const LAYOUTS: &[&str] = &[
    "-t ext4 -b 1024",
    "-t ext4 -b 1024 -O ^has_journal",
    "-t ext4 -b 1024 -O meta_bg,^resize_inode,orphan_file -g 4096",
    "-t ext4 -b 2048 -g 2048 -O sparse_super2,^resize_inode -E num_backup_sb=1",
    "-t ext4 -b 4096 -g 2048 -O inline_data,metadata_csum_seed",
];

/// The size of the images. It is small, because many states of an image are created.
const SIZE: &str = "24M";

fn needs() -> bool {
    skip(&["mke2fs", "e2fsck"].map(Requirement::Tool))
}

fn base(arguments: &str) -> OverlayDevice {
    OverlayDevice::new(new_image(arguments, SIZE).expect("mke2fs").into())
}

fn open(device: Arc<dyn BlockDevice>, for_writing: bool) -> larder::Result<Volume> {
    let mut options = OpenOptions::default();
    options.read_write = for_writing;
    options.background = false;
    options.readahead_max_bytes = 0;
    options.cache_size_bytes = 4 << 20;
    Volume::open_device(device, &options)
}

fn create(volume: &Volume, name: &str) {
    let new = NewFile {
        permissions: 0o644,
        umask: 0,
        uid: 0,
        gid: 0,
    };
    let made = volume.create(Ino::ROOT, name.as_bytes(), &new);
    let ino = made.expect("a file").ino;
    volume.write_at(ino, name.as_bytes(), 0).expect("content");
}

fn names(volume: &Volume) -> Vec<String> {
    let mut names = Vec::new();
    let listed = volume.read_dir(Ino::ROOT, 0, &mut |entry| {
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        ControlFlow::Continue(())
    });
    listed.expect("a listing");
    // A volume that is open for writing can list the entries in another order.
    names.sort();
    names
}

fn superblock(device: &OverlayDevice) -> Vec<u8> {
    let mut bytes = vec![0; SUPERBLOCK.len()];
    let read = device.read_at(&mut bytes, SUPERBLOCK.start as u64);
    read.expect("superblock");
    bytes
}

fn apply(device: &OverlayDevice, change: &ChangeRecord) {
    if let ChangeRecord::Write {
        offset_bytes,
        bytes,
    } = change
    {
        device.write_at(bytes, *offset_bytes).expect("write");
    }
}

/// Returns the changes of the device while a volume is opened, a file is made durable, the label is
/// set, another file is made durable, and the volume is closed.
fn workload(base: &OverlayDevice) -> Vec<ChangeRecord> {
    let device = Arc::new(RecordingDevice::new(Arc::new(base.clone())));
    let volume = open(Arc::clone(&device) as _, true).expect("a volume");
    create(&volume, "durable");
    volume.sync().expect("sync");
    volume.set_label(b"other").expect("label");
    create(&volume, "late");
    volume.sync().expect("sync");
    volume.close().expect("close");
    drop(volume);
    device.take_changes()
}

/// Opens the state after a power cut for reading, and then for writing, and checks both volumes.
fn recover(state: &OverlayDevice, image: &mut ImageFile, must_have: &[&str], what: &str) {
    let opened = open(Arc::new(state.clone()), false);
    let volume = opened.unwrap_or_else(|error| panic!("{what}, for reading: {error}"));
    let seen = names(&volume);
    drop(volume);
    for name in must_have {
        assert!(seen.iter().any(|seen| seen == name), "{what}: {seen:?}");
    }
    let device = Arc::new(state.clone());
    let opened = open(Arc::clone(&device) as _, true);
    let volume = opened.unwrap_or_else(|error| panic!("{what}, for writing: {error}"));
    assert_eq!(names(&volume), seen, "{what}");
    create(&volume, "after");
    volume
        .close()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(volume);
    let shown = image.show(&device);
    let checked = shown.and_then(|()| image.check());
    checked.unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[test]
fn superblock_torn_at_any_write_recovers() {
    if needs() {
        return;
    }
    for arguments in LAYOUTS {
        let base = base(arguments);
        let changes = workload(&base);
        let mut image = ImageFile::new(&base).expect("file");
        let before = base.clone();
        let mut torn = 0;
        let mut is_durable = false;
        for (number, change) in changes.iter().enumerate() {
            let after = before.clone();
            apply(&after, change);
            let [old, new] = [&before, &after].map(superblock);
            is_durable |= names_on(&before).contains(&"durable".to_owned());
            let must_have: &[&str] = if is_durable { &["durable"] } else { &[] };
            for halves in [[&old, &old], [&old, &new], [&new, &old], [&new, &new]] {
                if old == new {
                    break;
                }
                let [first, second] = halves.map(|bytes| bytes.split_at(SECTOR_BYTES));
                let bytes = [first.0, second.1].concat();
                torn += usize::from(bytes != old && bytes != new);
                let state = before.clone();
                let written = state.write_at(&bytes, SUPERBLOCK.start as u64);
                written.expect("write");
                let what = format!("{arguments}: change {number}");
                recover(&state, &mut image, must_have, &what);
            }
            apply(&before, change);
        }
        // The superblock is written at least at open and at close, and each write is torn in two
        // ways.
        assert!(torn >= 4, "{arguments}: {torn} torn superblocks");
    }
}

/// Returns the names in the root directory, as a volume that is opened for reading lists them.
fn names_on(device: &OverlayDevice) -> Vec<String> {
    names(&open(Arc::new(device.clone()), false).expect("a volume"))
}

#[test]
fn superblock_torn_while_it_is_restored_recovers() {
    if needs() {
        return;
    }
    let base = base(LAYOUTS[0]);
    let changes = workload(&base);
    let Some(opening) = changes.iter().position(|change| {
        matches!(change, ChangeRecord::Write { offset_bytes, bytes }
            if *offset_bytes == SUPERBLOCK.start as u64 && bytes.len() == SUPERBLOCK.len())
    }) else {
        panic!("no write of the superblock at open");
    };
    let after = base.clone();
    for change in &changes[..=opening] {
        apply(&after, change);
    }
    let torn = base.clone();
    let half = &superblock(&after)[..SECTOR_BYTES];
    torn.write_at(half, SUPERBLOCK.start as u64).expect("write");

    let restoring = Arc::new(RecordingDevice::new(Arc::new(torn.clone())));
    drop(open(Arc::clone(&restoring) as _, true).expect("a volume"));
    let changes = restoring.take_changes();
    let ChangeRecord::Write {
        offset_bytes: 1024,
        bytes,
    } = &changes[0]
    else {
        panic!("the first change is {:?}", changes[0]);
    };
    assert_eq!(changes[1], ChangeRecord::Flush { covers: 1 });
    let mut image = ImageFile::new(&base).expect("file");
    for half in [0..SECTOR_BYTES, SECTOR_BYTES..bytes.len()] {
        let again = torn.clone();
        let at_bytes = (SUPERBLOCK.start + half.start) as u64;
        again.write_at(&bytes[half], at_bytes).expect("write");
        recover(&again, &mut image, &[], "torn again");
    }
}

#[test]
fn superblock_with_other_damage_is_read_from_a_backup() {
    if needs() {
        return;
    }
    for arguments in LAYOUTS {
        let base = base(arguments);
        for change in &workload(&base) {
            apply(&base, change);
        }
        // The damaged fields are: the number of blocks, the block size, the UUID, and everything
        // after the magic number.
        for (damaged, byte) in [
            (4..8, 1),
            (0x18..0x1C, 9),
            (0x68..0x78, 3),
            (0x3A..0x400, 0xFF),
        ] {
            let state = base.clone();
            let at_bytes = (SUPERBLOCK.start + damaged.start) as u64;
            let bytes = vec![byte; damaged.len()];
            state.write_at(&bytes, at_bytes).expect("write");
            let what = format!("{arguments}, {damaged:?}");
            let seen = match open(Arc::new(state.clone()), false) {
                Ok(volume) => names(&volume),
                // If the geometry is damaged, only backups in the usual places are found.
                Err(_) if arguments.contains("-g") => continue,
                Err(error) => panic!("{what}: {error}"),
            };
            assert!(seen.contains(&"late".to_owned()), "{what}: {seen:?}");
            if damaged.contains(&UUID) {
                let error = open(Arc::new(state.clone()), true).expect_err("opened for writing");
                assert_eq!(error.errno(), Errno::ROFS, "{what}: {error}");
            } else {
                let mut image = ImageFile::new(&base).expect("file");
                recover(&state, &mut image, &["durable", "late"], &what);
            }
        }
    }
}

/// A device on a file that is too large for memory. The file is not locked: processes that other
/// tests start at the same time would inherit the lock, and could hold it longer than this test.
#[derive(Debug)]
struct LargeFile {
    file: File,
    size_bytes: u64,
}

impl LargeFile {
    fn new(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path);
        let file = file.expect("image");
        let size_bytes = file.metadata().expect("stat").len();
        Self { file, size_bytes }
    }
}

impl BlockDevice for LargeFile {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.file.read_exact_at(buf, offset_bytes).expect("read");
        Ok(())
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.file.write_all_at(buf, offset_bytes).expect("write");
        Ok(())
    }
}

#[test]
fn superblock_zeroed_is_read_from_a_backup_and_not_written() {
    if needs() {
        return;
    }
    for (arguments, size) in [
        ("-t ext4 -b 1024", "24M"),
        ("-t ext2 -b 1024 -I 128", "24M"),
        ("-t ext3 -b 2048", "40M"),
        ("-t ext4 -b 4096", "160M"),
        ("-t ext4 -b 1024 -O bigalloc -C 16384", "160M"),
        ("-t ext4 -b 65536", "5G"),
    ] {
        let folder = tempfile::TempDir::new().expect("temporary directory");
        let path = folder.path().join("image");
        make_image(&path, &format!("{arguments} -N 512"), size).expect("mke2fs");
        let device = Arc::new(LargeFile::new(&path));
        let volume = open(Arc::clone(&device) as _, true).expect("a volume");
        create(&volume, "file");
        volume.close().expect("close");
        drop(volume);
        device.write_at(&[0; SUPERBLOCK.end], 0).expect("zeros");

        let recorder = Arc::new(RecordingDevice::new(device));
        let volume = open(Arc::clone(&recorder) as _, false)
            .unwrap_or_else(|error| panic!("{arguments}: {error}"));
        assert!(names(&volume).contains(&"file".to_owned()), "{arguments}");
        let repair = volume.info().superblock_repair;
        let repair = repair.expect("the repair");
        assert!(repair.contains("block group 1"), "{arguments}: {repair}");
        drop(volume);
        let error = open(Arc::clone(&recorder) as _, true).expect_err("opened for writing");
        assert!(error.to_string().contains("e2fsck"), "{arguments}: {error}");
        assert_eq!(recorder.change_count(), 0, "{arguments}");
    }
}

#[test]
fn superblock_damaged_in_a_single_group_is_refused() {
    if needs() {
        return;
    }
    let base = base("-t ext4 -b 4096");
    base.write_at(&[7; 4], (SUPERBLOCK.start + 0x2C) as u64)
        .expect("write");
    for for_writing in [false, true] {
        let error = open(Arc::new(base.clone()), for_writing).expect_err("opened");
        assert_eq!(error.to_string(), "superblock: checksum is wrong");
    }
}
