//! A node of an extent tree: each step of a walk over the file blocks advances.
#![no_main]

use larder_ext4::FileBlock;
use larder_ext4::ondisk::checksum::Crc32c;
use larder_ext4::ondisk::extent::{FILE_BLOCKS, Found, Node, checksum_is_right};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = checksum_is_right(data, Crc32c::START);
    let Ok(node) = Node::parse(data) else { return };
    // The search for an entry relies on the order, so the order is checked first.
    if node.check_order().is_err() {
        let _ = node.find(FileBlock(1000), &(0..FILE_BLOCKS));
        return;
    }
    let mut at = 0;
    while let Ok(target) = u32::try_from(at) {
        let Ok(found) = node.find(FileBlock(target), &(0..FILE_BLOCKS)) else {
            return;
        };
        let covered = match found {
            Found::Hole(end) => at..end,
            Found::Extent(extent) => extent.file_blocks,
            Found::Child(child) => {
                assert_eq!(child.depth + 1, node.depth());
                child.file_blocks
            }
        };
        assert!(covered.contains(&at) && covered.end <= FILE_BLOCKS);
        at = covered.end;
    }
});
