//! Deletion of a damaged file: the damage is treated as `errors=` specifies, and the file stays an
//! orphan. This holds for each operation that can remove the last name or the last hold.

use larder::{ErrorsMode, Ino, NewFile, OpenOptions, RenameFlags, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_testkit::e2fsprogs::{new_image, on_file, superblock};
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::sync::Arc;

const NEW: NewFile = NewFile {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

const BLOCK_BYTES: usize = 1024;

/// The number of extents. They do not fit in the inode, so they are in a block of their own.
const EXTENTS: u8 = 10;

fn open(bytes: Vec<u8>, errors: ErrorsMode) -> (Volume, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options.errors = Some(errors);
    let opened: Arc<dyn BlockDevice> = device.clone();
    let volume = Volume::open_device(opened, &options).expect("writable volume");
    (volume, device)
}

/// Returns an image with the file `damaged`, whose extent block is invalid, and the file `sound`.
/// With `is_orphan`, the image is in the state after a crash, and `damaged` has lost its name.
fn image(is_orphan: bool) -> Vec<u8> {
    let arguments = "-t ext4 -b 1024 -O ^metadata_csum,^inline_data";
    let bytes = new_image(arguments, "8M").expect("image");
    let (volume, device) = open(bytes, ErrorsMode::Continue);
    let ino = volume.create(Ino::ROOT, b"damaged", &NEW).expect("file");
    volume.create(Ino::ROOT, b"sound", &NEW).expect("file");
    for extent in 0..u64::from(EXTENTS) {
        let offset_bytes = 2 * extent * BLOCK_BYTES as u64;
        let block = [b'x'; BLOCK_BYTES];
        volume
            .write_at(ino.ino, &block, offset_bytes)
            .expect("written");
    }
    volume.close().expect("closed");
    let mut bytes = device.to_bytes();
    if is_orphan {
        let (volume, device) = open(bytes, ErrorsMode::Continue);
        volume.hold(ino.ino).expect("held");
        volume.unlink(Ino::ROOT, b"damaged").expect("unlinked");
        volume.sync().expect("durable");
        bytes = device.to_bytes();
    }
    // The extent header: its magic number, the number of entries, and the maximum number of
    // entries.
    let header = [0x0A, 0xF3, EXTENTS, 0, 84, 0, 0, 0];
    // Search everywhere, because the journal, which is empty, can also contain copies of the block.
    let leaves = bytes.chunks_mut(BLOCK_BYTES);
    let leaves: Vec<_> = leaves.filter(|block| block.starts_with(&header)).collect();
    assert!(!leaves.is_empty(), "no block has the extents");
    for leaf in leaves {
        leaf[0] = 0;
    }
    bytes
}

/// Returns the fields of the superblock for the state of the file system, its errors and its
/// orphans.
fn dump(bytes: &[u8]) -> String {
    on_file(bytes, superblock).expect("dumpe2fs")
}

/// Calls `delete` to remove the last reference to the file, and checks that the effect is the one that
/// `errors` specifies.
fn check(what: &str, errors: ErrorsMode, is_orphan: bool, delete: impl Fn(&Volume)) {
    let what = format!("{what}, {errors:?}");
    let (volume, device) = open(image(is_orphan), errors);
    let ino = volume.resolve(b"damaged");
    delete(&volume);
    let found = volume.resolve(b"damaged").map_err(|error| error.errno());
    if what.starts_with("rename") {
        assert!(found.is_ok(), "{what}: another file has the name");
    } else {
        assert_eq!(found, Err(Errno::NOENT), "{what}");
    }
    let other = volume.create(Ino::ROOT, b"other", &NEW);
    let other = other.map(drop).map_err(|error| error.errno());
    let may_write = errors == ErrorsMode::Continue;
    assert_eq!(
        other,
        if may_write { Ok(()) } else { Err(Errno::ROFS) },
        "{what}"
    );
    if let Ok(ino) = ino {
        let read = volume
            .read_at(ino, &mut [0], 0)
            .map_err(|error| error.errno());
        assert_eq!(read, Err(Errno::STALE), "{what}: the file is deleted");
    }
    assert_eq!(volume.close().is_ok(), may_write, "{what}");
    drop(volume);
    let dump = dump(&device.to_bytes());
    let count = dump.lines().find(|line| line.starts_with("FS Error count"));
    assert!(
        count.is_some_and(|count| count.ends_with(" 1")),
        "{what}: {dump}"
    );
    if may_write {
        assert!(dump.contains("First orphan inode:"), "{what}: {dump}");
    }
}

#[test]
fn damage_found_by_a_deletion_follows_the_errors_mode() {
    if skip(&["mke2fs", "dumpe2fs"].map(Requirement::Tool)) {
        return;
    }
    for errors in [ErrorsMode::Continue, ErrorsMode::RemountReadOnly] {
        check("unlink", errors, false, |volume| {
            volume.unlink(Ino::ROOT, b"damaged").expect("unlinked");
        });
        check("rename over it", errors, false, |volume| {
            let plain = RenameFlags::empty();
            let renamed = volume.rename(Ino::ROOT, b"sound", Ino::ROOT, b"damaged", plain);
            renamed.expect("renamed");
        });
        check("release", errors, false, |volume| {
            let ino = volume.resolve(b"damaged").expect("file");
            volume.hold(ino).expect("held");
            volume.unlink(Ino::ROOT, b"damaged").expect("unlinked");
            let released = volume.release(ino, 1).map_err(|error| error.errno());
            assert_eq!(released, Err(Errno::UCLEAN));
        });
        check("open", errors, true, |_| {});
    }
}
