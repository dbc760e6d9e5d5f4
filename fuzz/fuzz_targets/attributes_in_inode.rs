//! Attributes behind an inode's fixed fields.
#![no_main]

use larder_ext4::ondisk::xattr::{NameIndex, ValuePlace, XattrEntries};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // An entry has 16 bytes at least, so that there is an end to them.
    let mut left = data.len() / 16;
    for entry in XattrEntries::in_inode(data).map_while(Result::ok) {
        left = left.checked_sub(1).expect("more entries than fit");
        if let ValuePlace::Here(value) = entry.value {
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
