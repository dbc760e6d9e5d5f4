//! Content that is written through the journal, and is freed before its checkpoint.

mod image;

use image::{Image, new_inode};
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{FileBlock, FileKind, FsBlock, Ino, WriteOptions};
use std::sync::Arc;

const BLOCKS: u32 = 4;

#[test]
fn content_freed_before_its_checkpoint_is_not_written_home() {
    let Some(image) = Image::make("-t ext4 -b 1024 -J size=1", "16M") else {
        return;
    };
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(image.bytes()));
    let mut fs = image::open(&device);
    let options = WriteOptions {
        journals_content: true,
        ..WriteOptions::default()
    };
    fs.enable_writing(Arc::clone(&device), options).unwrap();
    let new = new_inode(
        FileKind::Regular,
        0o644,
        Timestamp {
            seconds: 2_000_000_000,
            nanoseconds: 0,
        },
    );
    let mut handle = fs.start(100).unwrap();
    let root = fs.inode(Ino::ROOT).unwrap();
    let mut inode = fs.create_inode(&mut handle, &root, &new).unwrap();
    let claim = fs.claim_for(&inode, FileBlock(0), BLOCKS, None).unwrap();
    let (start, blocks) = (claim.start(), u64::from(claim.blocks()));
    for block in start.0..start.0 + blocks {
        let fill = |bytes: &mut [u8]| {
            bytes.fill(7);
            Ok(())
        };
        handle.create(FsBlock(block), inode.ino(), fill).unwrap();
    }
    fs.map_claim(&mut handle, &mut inode, FileBlock(0), claim, true)
        .unwrap();
    fs.write_inode(&mut handle, &inode).unwrap();
    fs.commit(handle.stop()).unwrap();

    let mut handle = fs.start(100).unwrap();
    let left = fs.unmap(&mut handle, &mut inode, 0..1 << 32).unwrap();
    assert!(left.is_empty());
    fs.delete_inode(&mut handle, &mut inode, new.now).unwrap();
    fs.commit(handle.stop()).unwrap();
    fs.close().unwrap();
    let mut bytes = vec![0; 1024];
    for block in start.0..start.0 + blocks {
        device.read_at(&mut bytes, block << 10).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "block {block}");
    }
}
