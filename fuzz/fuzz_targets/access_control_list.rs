//! An access control list in its form on disk: at most doubled by the form of programs.
#![no_main]

use larder_ext4::ondisk::acl::to_user_form;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(list) = to_user_form(data) {
        assert!(list.len() <= data.len() * 2 && list.len() % 8 == 4);
    }
});
