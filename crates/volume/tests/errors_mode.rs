//! The action when a change detects corruption, as `errors=` or the superblock specifies.

use larder::{ErrorsMode, Ino, NewFile, OpenOptions, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_testkit::e2fsprogs::{make_image, on_file, superblock};
use larder_testkit::tool::Tool;
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::sync::Arc;

const NEW: NewFile = NewFile {
    permissions: 0o755,
    umask: 0,
    uid: 0,
    gid: 0,
};

const NAME: &[u8] = b"the-name-in-the-damaged-directory";

fn open(bytes: Vec<u8>, errors: Option<ErrorsMode>) -> (Volume, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options.errors = errors;
    let opened: Arc<dyn BlockDevice> = device.clone();
    (Volume::open_device(opened, &options).unwrap(), device)
}

fn bytes_of(device: &MemoryDevice) -> Vec<u8> {
    let size_bytes = usize::try_from(device.size_bytes()).unwrap();
    let mut bytes = vec![0; size_bytes];
    device.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Returns an image with a directory "d" whose entries are damaged. First changes the image by
/// tune2fs(8) with the arguments `tune`.
fn damaged(tune: &[&str]) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    make_image(file.path(), "-t ext4 -b 1024 -O ^metadata_csum", "8M").unwrap();
    let tuned = Tool::new("tune2fs").args(tune).arg(file.path());
    tuned.run().unwrap();
    let (volume, device) = open(std::fs::read(file.path()).unwrap(), None);
    let dir = volume.make_dir(Ino::ROOT, b"d", &NEW).unwrap().ino;
    volume.create(dir, NAME, &NEW).unwrap();
    volume.close().unwrap();
    let mut bytes = bytes_of(&device);
    let is_entry = |at: &usize| bytes[*at..].starts_with(NAME);
    let entries: Vec<_> = (0..bytes.len()).filter(is_entry).collect();
    for at in entries {
        // This is the length of the entry. The fields before the name are: inode (4 bytes), length
        // of the entry (2), length of the name (1), type (1).
        bytes[at - 4..at - 2].copy_from_slice(&[3, 0]);
    }
    bytes
}

/// Returns what dumpe2fs(8) reports about errors: their number, and the function and the inode of
/// the last error.
fn recorded(bytes: &[u8]) -> String {
    on_file(bytes, superblock).unwrap()
}

/// Changes the damaged directory, then a sound one. Returns the errno of the second change, and the
/// errors in the superblock.
fn change(tune: &[&str], errors: Option<ErrorsMode>) -> (Option<Errno>, String) {
    let (volume, device) = open(damaged(tune), errors);
    let dir = volume.resolve(b"d").unwrap();
    let error = volume.create(dir, b"new", &NEW).unwrap_err();
    assert_eq!(error.errno(), Errno::UCLEAN, "{error}");
    let other = volume.create(Ino::ROOT, b"other", &NEW);
    let _ = volume.close();
    (
        other.err().map(|error| error.errno()),
        recorded(&bytes_of(&device)),
    )
}

#[test]
fn damage_is_recorded_and_errors_mode_decides_on_further_writes() {
    if skip(&["mke2fs", "tune2fs", "dumpe2fs"].map(Requirement::Tool)) {
        return;
    }
    let continues: &[&str] = &["-e", "continue"];
    let read_only: &[&str] = &["-e", "remount-ro"];
    for (tune, errors, expected) in [
        (continues, None, None),
        (
            continues,
            Some(ErrorsMode::RemountReadOnly),
            Some(Errno::ROFS),
        ),
        (continues, Some(ErrorsMode::Abort), Some(Errno::ROFS)),
        (read_only, None, Some(Errno::ROFS)),
        (read_only, Some(ErrorsMode::Continue), None),
    ] {
        let (errno, dump) = change(tune, errors);
        assert_eq!(errno, expected, "{tune:?}, {errors:?}");
        let count = dump.lines().find(|line| line.starts_with("FS Error count"));
        assert!(
            count.is_some_and(|count| count.ends_with(" 1")),
            "{tune:?}, {errors:?}: {dump}"
        );
        assert!(dump.contains("Last error function:      change"), "{dump}");
    }
}
