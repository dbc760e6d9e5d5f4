//! The files of credentials and of configuration of the AWS tools. The input is both files, with a zero byte between
//! them.
#![no_main]

use larder_fuzz::assert_valid;
use larder_remote::keys_in_files;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (credentials, config) = text.split_once('\0').unwrap_or((text, ""));
    match keys_in_files(credentials, config) {
        Ok(keys) => keys.iter().for_each(assert_valid),
        Err(why) => {
            // The reason has no content of the file.
            let line = why.strip_prefix("line ");
            let number = line.and_then(|line| line.strip_suffix(" is not valid"));
            let is_number = number.is_some_and(|number| number.parse::<usize>().is_ok());
            assert!(is_number, "{why}");
        }
    }
});
