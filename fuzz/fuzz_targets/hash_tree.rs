//! A root or node of a directory's hash tree: a search answers with an entry that exists.
#![no_main]

use larder_ext4::ondisk::dx::{DxInfo, DxNode, DxShape};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = (DxShape::of(data), DxInfo::parse(data));
    for has_tail in [false, true] {
        for node in [DxNode::root(data, has_tail), DxNode::node(data, has_tail)] {
            let Ok(node) = node else { continue };
            assert!(node.checksum().is_some() || !has_tail);
            for hash in [0, 1 << 30, u32::MAX] {
                let index = node.search(hash);
                assert!(index < node.count());
                assert!(!node.is_sorted() || node.hash(index) <= hash);
                let _ = node.block(index);
            }
        }
    }
});
