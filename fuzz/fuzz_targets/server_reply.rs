//! The reply of a server to a request for a range. The input is the status and the headers, each on its own line, an
//! empty line, and the body.
#![no_main]

use larder_remote::{REQUESTED, read_reply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let end = data.windows(2).position(|pair| pair == b"\n\n");
    let Some(end) = end else { return };
    let (Ok(head), body) = (std::str::from_utf8(&data[..end]), &data[end + 2..]) else {
        return;
    };
    if let Some((version, bytes)) = read_reply(head, body) {
        assert!(head.starts_with("206"), "only a part is accepted");
        assert_eq!(bytes, body);
        let end = REQUESTED.end.min(version.size_bytes);
        assert_eq!(bytes.len() as u64, end - REQUESTED.start);
        if let Some(etag) = version.etag {
            assert!(!etag.is_empty() && !etag.starts_with("W/"), "{etag}");
        }
    }
});
