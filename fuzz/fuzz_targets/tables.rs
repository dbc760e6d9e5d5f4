//! The text of `-o tables=`: a valid text is printed as a text that parses to the same value.
#![no_main]

use larder_cache::tables::Tables;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match text.parse::<Tables>() {
        Ok(tables) => assert_eq!(tables.to_string().parse(), Ok(tables)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
