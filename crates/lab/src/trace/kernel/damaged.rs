//! Decodes bytes of a ring buffer to events, for tests and the fuzz target `ring_page`, which pass damaged
//! input.

use super::ring::PageLayout;
use super::tracepoint;

/// Returns the number of readable events in `page`. `header` is the text of `events/header_page`, and
/// `format` is the text of all `format` files. Returns `None` if one of these texts is malformed.
#[must_use]
pub fn events_in_page(header: &str, format: &str, page: &[u8]) -> Option<usize> {
    let layout = PageLayout::parse(header)?;
    let (known, _) = tracepoint::find(|_| Some(format.to_owned()));
    let mut events = 0;
    // If the page is malformed, the events before the malformed part are counted.
    let _ = layout.events(page, |_, event| {
        let is_read = known.iter().any(|known| known.read(event).is_some());
        events += usize::from(is_read);
    });
    (!known.is_empty()).then_some(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::Seed;
    use larder_testkit::seed::Random;

    const HEADER: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:240;\tsigned:0;
";
    const FORMAT: &str = "\
ID: 7
\tfield:dev_t s_dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:unsigned long i_ino;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned long index;\toffset:24;\tsize:8;\tsigned:0;
";

    /// Changes up to four bytes.
    fn damage(bytes: &mut [u8], random: &mut Random) {
        for _ in 0..random.below(5) {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            let byte = random.byte();
            let choice = [0, 0x1d, b'9', b':', 0xff, byte];
            bytes[at] = *random.choose(&choice).unwrap();
        }
    }

    #[test]
    fn damaged_pages_and_formats_give_no_more_events_than_fit() {
        let seed = Seed::from_environment(0x4a51_0013);
        // Five events of 8 words, each after a header word; one of them with an explicit length.
        let event = [&[9 << 5 | 8_u32][..], &[7; 8]].concat();
        let long = [&[9 << 5, 36], &[7_u32; 8][..]].concat();
        let words = [event.repeat(4), long].concat();
        let mut page = 1000_u64.to_le_bytes().to_vec();
        page.extend((words.len() as u64 * 4).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        assert_eq!(events_in_page(HEADER, FORMAT, &page), Some(5));
        let mut random = Random::new(seed);
        for _ in 0..20_000 {
            let mut parts = [HEADER.into(), FORMAT.into(), page.clone()];
            for part in &mut parts {
                damage(part, &mut random);
            }
            let [header, format, page] = &parts;
            let [header, format] = [header, format].map(|text| String::from_utf8_lossy(text));
            if let Some(events) = events_in_page(&header, &format, page) {
                assert!(events <= page.len() / 4, "seed {seed}");
            }
        }
    }
}
