//! Attributes after an inode's fixed fields.
#![no_main]

use larder_ext4::ondisk::xattr::{NameIndex, ValuePlace, XattrEntries};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // An entry has at least 16 bytes, so the number of entries is limited.
    let mut left = data.len() / 16;
    for entry in XattrEntries::in_inode(data).map_while(Result::ok) {
        left = left.checked_sub(1).expect("no more entries than fit");
        if let ValuePlace::Inline(value) = entry.value {
            assert!(value.len() <= data.len());
        }
        if let Some(prefix) = entry.index.prefix()
            && let Some((index, name)) = NameIndex::split(&[prefix, entry.name].concat())
        {
            assert_eq!(
                index.prefix().map(|prefix| [prefix, name].concat()),
                Some([prefix, entry.name].concat())
            );
        }
    }
});
