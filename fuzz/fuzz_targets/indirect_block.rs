//! A block of block numbers, and the path to any file block.
#![no_main]

use larder_ext4::FileBlock;
use larder_ext4::ondisk::indirect::{Path, numbers, run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let all = numbers(data);
    let mut rest = all;
    while !rest.is_empty() {
        let (block, count) = run(rest);
        assert!((1..=rest.len()).contains(&count));
        assert_eq!(block.map_or(0, |block| block.0), u64::from(rest[0].get()));
        rest = &rest[count..];
    }
    for (number, numbers_log2) in all.iter().zip((8..=14).cycle()) {
        if let Some(path) = Path::to(FileBlock(number.get()), numbers_log2) {
            assert!(path.slot < 15 && path.levels <= 3);
            assert!(path.offset < 1 << (numbers_log2 * path.levels));
        }
    }
});
