//! The head of an HTTP request to the metrics server.
#![no_main]

use larder_observe::http::{HEAD_BYTES, answer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let head = &data[..data.len().min(HEAD_BYTES)];
    let Some(answered) = answer(head, || Some("up 1\n".to_owned())) else {
        assert!(
            head.len() < HEAD_BYTES,
            "a head of the maximum length has no answer"
        );
        return;
    };
    let answered = String::from_utf8(answered).expect("the answer is text");
    assert!(answered.starts_with("HTTP/1.1 ") && answered.contains("\r\n\r\n"));
});
