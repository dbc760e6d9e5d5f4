//! A page of the kernel's ring buffer, and the descriptions of the layout of the page and its events. The
//! input is a byte whose bits select the descriptions to replace, the text that replaces them, an empty line,
//! and the page.
#![no_main]

use larder_fuzz::{EVENT_FORMAT, PAGE_HEADER};
use larder_lab::trace::kernel::events_in_page;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&own, rest)) = data.split_first() else {
        return;
    };
    let end = rest.windows(2).position(|pair| pair == b"\n\n");
    let (text, page) = end.map_or((&[][..], rest), |at| (&rest[..at], &rest[at + 2..]));
    let text = String::from_utf8_lossy(text);
    let header = if own & 1 == 0 { PAGE_HEADER } else { &text };
    let format = if own & 2 == 0 { EVENT_FORMAT } else { &text };
    if let Some(events) = events_in_page(header, format, page) {
        // Each event has a word before it.
        assert!(events <= page.len() / 4);
    }
});
