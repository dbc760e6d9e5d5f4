//! A root or node of a directory's hash tree: a search returns an existing entry.
#![no_main]

use larder_ext4::ondisk::checksum::Crc32c;
use larder_ext4::ondisk::dx::{DxInfo, DxKind, DxNode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = (DxKind::of(data), DxInfo::parse(data));
    for has_tail in [false, true] {
        for kind in [DxKind::Root, DxKind::Inner] {
            let Ok(node) = DxNode::parse(data, kind, has_tail) else {
                continue;
            };
            assert!(node.checksum(Crc32c::START).is_some() || !has_tail);
            for hash in [0, 1 << 30, u32::MAX] {
                let index = node.search(hash);
                assert!(index < node.count());
                assert!(!node.is_sorted() || node.hash(index) <= hash);
                let _ = node.block(index);
            }
        }
    }
});
