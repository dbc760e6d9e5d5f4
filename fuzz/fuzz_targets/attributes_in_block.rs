//! An attribute block.
#![no_main]

use larder_ext4::ondisk::xattr::{ValuePlace, XattrEntries, split_checksum};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some((before, _, after)) = split_checksum(data) {
        assert_eq!(before.len() + 4 + after.len(), data.len());
    }
    let Ok(entries) = XattrEntries::in_block(data) else {
        return;
    };
    let mut left = data.len() / 16;
    for entry in entries.map_while(Result::ok) {
        left = left.checked_sub(1).expect("no more entries than fit");
        if let ValuePlace::Inline(value) = entry.value {
            assert!(value.len() <= data.len());
        }
    }
});
