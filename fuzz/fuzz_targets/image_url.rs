//! The URL of an image, as an argument, or in the file of `--url-file`.
#![no_main]

use larder_remote::ImageUrl;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let text = text.trim();
    let url = match ImageUrl::parse(text) {
        Ok(url) => url,
        Err(error) => {
            // The error shows nothing of the URL after the scheme.
            let shown = error.to_string();
            let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
            let scheme = scheme.escape_default().to_string();
            let shown = shown.strip_prefix(&scheme);
            assert!(shown.is_some_and(|shown| shown.starts_with("://...: ")));
            return;
        }
    };
    let shown = url.to_string();
    let (_, place) = shown.split_once("://").expect("a URL has a scheme");
    let host = place.split('/').next().unwrap_or_default();
    assert!(!host.contains('@'), "the user name is shown");
    assert!(!place.contains(['?', '#']), "the query is shown");
    let parsed = ImageUrl::parse(&shown).expect("what is shown is a URL");
    assert_eq!(parsed.to_string(), shown);
});
