//! An access control list in its on-disk form. Conversion to the user-space form at most doubles
//! its size.
#![no_main]

use larder_ext4::ondisk::acl::Acl;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(list) = Acl::from_disk(data) {
        assert_eq!(list.to_disk(), data);
        let list = list.to_user();
        assert!(list.len() <= data.len() * 2 && list.len() % 8 == 4);
    }
});
