//! A block of directory entries. Each entry follows the previous one, inside the block.
#![no_main]

use larder_ext4::FileTypeByte;
use larder_ext4::ondisk::dir::{Dirents, split_tail};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut end = 0;
    for dirent in Dirents::new(data).map_while(Result::ok) {
        assert!(dirent.offset >= end && dirent.end > dirent.offset);
        assert!((1..=255).contains(&dirent.name.len()));
        let _ = (
            dirent.has_legal_name(),
            FileTypeByte(dirent.file_type).kind(),
        );
        end = dirent.end;
    }
    assert!(end <= data.len());
    if let Some((covered, _)) = split_tail(data) {
        assert!(covered.len() < data.len());
    }
});
