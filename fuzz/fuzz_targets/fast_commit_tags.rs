//! The tags of a block of fast commits, and the inodes that they patch.
#![no_main]

use larder_ext4::ondisk::fast_commit::{Tag, add_directory_links, patch_inode, tags};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut len = 0;
    for placed in tags(data) {
        len += placed.bytes.len();
        assert!(placed.checked_bytes().len() <= placed.bytes.len());
        match placed.tag {
            Some(Tag::Inode { raw, .. }) => {
                let mut table = [0x55; 256];
                patch_inode(&mut table, raw, false);
                patch_inode(&mut table[..128], raw, true);
                add_directory_links(&mut table, -1);
            }
            Some(Tag::AddRange { start, blocks, .. }) => {
                assert!(blocks > 0 && start.0.checked_add(blocks).is_some());
            }
            Some(Tag::Create(entry) | Tag::Link(entry) | Tag::Unlink(entry)) => {
                assert!((1..=255).contains(&entry.name.len()));
            }
            _ => {}
        }
    }
    assert!(len <= data.len());
});
