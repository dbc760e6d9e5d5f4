//! Images that have another format, or partitions, at the start. The crate larder-image finds the file system in them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The number of bytes at the start of an image that are examined: a sector.
const START_BYTES: usize = 512;

/// A magic number, and what begins with it.
const MAGICS: [(&[u8], &str); 3] = [
    (b"QFI\xfb", "a qcow2 image"),
    (b"KDMV", "a VMDK image"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
];

/// Returns a description of the format that the first bytes of the image at `path` show, or `None` if it is unknown.
pub(super) fn other_format(path: &Path) -> Option<&'static str> {
    let mut start = [0; START_BYTES];
    File::open(path).ok()?.read_exact_at(&mut start, 0).ok()?;
    let found = MAGICS.iter().find(|(magic, _)| start.starts_with(magic));
    let found = found.map(|(_, name)| *name);
    found.or_else(|| has_partitions(&start).then_some("a disk with partitions"))
}

/// Returns whether `start` is a master boot record with partitions. The signature 55 AA alone is not enough: other boot
/// sectors have it, too.
fn has_partitions(start: &[u8; START_BYTES]) -> bool {
    let (entries, _) = start[446..510].as_chunks::<16>();
    start.ends_with(b"\x55\xaa")
        && entries.iter().all(|entry| matches!(entry[0], 0 | 0x80))
        && entries.iter().any(|entry| entry[4] != 0)
}
