//! A profile. Its checksum is corrected first, so that the lines that it protects are parsed.
#![no_main]

use larder_fuzz::profile_with_checksum;
use larder_remote::profile::{MAX_UNITS, Profile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for bytes in [data, &profile_with_checksum(data)] {
        let Ok(profile) = Profile::parse(bytes) else {
            continue;
        };
        assert!(profile.units().len() <= MAX_UNITS);
        let text = profile.to_text().expect("what was parsed can be written");
        let parsed = Profile::parse(text.as_bytes());
        assert_eq!(parsed.expect("what was written is valid"), profile);
    }
});
