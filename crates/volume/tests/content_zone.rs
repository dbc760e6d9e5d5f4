//! An image with a file that is mapped to metadata: writes to it are refused, and the metadata is
//! unchanged.

use larder::{OpenOptions, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_testkit::crash::LAYOUTS;
use larder_testkit::e2fsprogs::{debugfs, debugfs_write};
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::sync::Arc;

const BLOCK: usize = 1024;

#[test]
fn content_mapped_to_metadata_is_not_written() {
    if skip(&["mke2fs", "debugfs"].map(Requirement::Tool)) {
        return;
    }
    let layout = LAYOUTS[1];
    assert_eq!(layout.name, "ext3-1k");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), layout.base().unwrap()).unwrap();
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), [1; BLOCK]).unwrap();
    let write = format!("write {} f", source.path().display());
    debugfs_write(file.path(), &[write]).unwrap();
    let journal = debugfs(file.path(), "blocks <8>").unwrap();
    let in_journal = journal.split_whitespace().nth(3).unwrap().to_owned();
    // Blocks of the superblock's group (descriptors, bitmaps, inode table) and of the journal.
    let metadata = [
        "2".to_owned(),
        "130".to_owned(),
        "150".to_owned(),
        in_journal,
    ];
    for (block, large) in metadata
        .iter()
        .flat_map(|block| [(block, false), (block, true)])
    {
        debugfs_write(file.path(), &[format!("sif f block[0] {block}")]).unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        let at = block.parse::<usize>().unwrap() * BLOCK;
        let device = Arc::new(MemoryDevice::new(bytes));
        let mut options = OpenOptions::default();
        options.read_write = true;
        options.background = false;
        let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
        let ino = volume.resolve(b"f").unwrap();
        let content = vec![0xaa; if large { 1 << 20 } else { BLOCK }];
        let written = volume.write_at(ino, &content, 0);
        let synced = volume.sync_file(ino, false);
        let error = written.err().or(synced.err());
        let errno = error.map(|error| error.errno());
        assert_eq!(errno, Some(Errno::UCLEAN), "block {block}");
        drop(volume);
        let mut now = [0; BLOCK];
        device.read_at(&mut now, at as u64).unwrap();
        assert!(now[..] != [0xaa; BLOCK], "block {block} is overwritten");
    }
}
