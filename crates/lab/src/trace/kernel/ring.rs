//! Decodes the pages of the kernel's ring buffer, as `trace_pipe_raw` returns them.
//!
//! # Layout
//! A page has the time of its first event, the number of bytes in use, and the events. Each event
//! begins with a word: 5 bits are its type or length, and 27 bits are the time since the previous
//! event. Numbers are in native byte order; this code requires little-endian.

use super::format::{Field, field};

/// The layout of a page, from `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageLayout {
    timestamp: Field,
    commit: Field,
    data: Field,
}

/// The largest accepted size of a page of the buffer. The kernel's largest page consists of 2^16 memory
/// pages.
const MOST_PAGE_BYTES: usize = 1 << 28;

/// The bits of `commit` that contain the length. Higher bits, which indicate lost events, are ignored: the
/// tracefs file `stats` counts lost events.
const LENGTH: u64 = (1 << 20) - 1;
const DELTA_BITS: u32 = 27;

// Special values of the 5 bits. Each other value is the length of the event in words.
const LONG: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

impl PageLayout {
    /// Parses `events/header_page`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let find = |name| {
            let mut fields = text.lines().filter_map(field);
            fields.find_map(|(field_name, field)| (field_name == name).then_some(field))
        };
        let data: Field = find("data")?;
        let page_bytes = data.offset.checked_add(data.size)?;
        (page_bytes <= MOST_PAGE_BYTES).then_some(Self {
            timestamp: find("timestamp")?,
            commit: find("commit")?,
            data,
        })
    }

    /// Returns the size of a page.
    pub(super) fn page_bytes(&self) -> usize {
        self.data.offset + self.data.size
    }

    /// Calls `event` with the time and bytes of each event of `page`, in order. Returns `None` after the
    /// valid events if the page is malformed. A time above the maximum wraps around.
    pub(super) fn events(&self, page: &[u8], mut event: impl FnMut(u64, &[u8])) -> Option<()> {
        let mut time = self.timestamp.read(page)?;
        let length = usize::try_from(self.commit.read(page)? & LENGTH).ok()?;
        let mut rest = page.get(self.data.offset..)?.get(..length)?;
        while let Some(header) = word(rest) {
            let delta = u64::from(header >> 5);
            rest = &rest[4..];
            match header & 0x1f {
                PADDING if delta == 0 => return Some(()),
                PADDING => {
                    // A discarded event. Its length includes the length word itself.
                    let skipped = usize::try_from(word(rest)?).ok()?;
                    time = time.wrapping_add(delta);
                    rest = rest.get(skipped..)?;
                }
                TIME_EXTEND => {
                    let delta = delta | u64::from(word(rest)?) << DELTA_BITS;
                    time = time.wrapping_add(delta);
                    rest = &rest[4..];
                }
                TIME_STAMP => {
                    // The event contains the lower 59 bits. The upper five bits are equal to those of the
                    // previous time.
                    let low = delta | u64::from(word(rest)?) << DELTA_BITS;
                    time = time >> 59 << 59 | low;
                    rest = &rest[4..];
                }
                LONG => {
                    time = time.wrapping_add(delta);
                    let length = usize::try_from(word(rest)?).ok()?;
                    event(time, rest.get(4..length)?);
                    rest = rest.get(length.next_multiple_of(4)..)?;
                }
                words => {
                    time = time.wrapping_add(delta);
                    let length = usize::try_from(words).ok()? * 4;
                    event(time, rest.get(..length)?);
                    rest = &rest[length..];
                }
            }
        }
        Some(())
    }
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::Seed;
    use larder_testkit::seed::Random;

    const HEADER: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:112;\tsigned:0;
";

    /// Returns a page whose first event was at 1000.
    fn page(words: &[u32]) -> Vec<u8> {
        let mut page = 1000_u64.to_le_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | (1 << 31)).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page.resize(128, 0xff);
        page
    }

    fn events(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, bool) {
        let layout = PageLayout::parse(HEADER).unwrap();
        assert_eq!(layout.page_bytes(), 128);
        let mut events = Vec::new();
        let whole = layout.events(page, |time, event| events.push((time, event.to_vec())));
        (events, whole.is_some())
    }

    #[test]
    fn events_have_their_times_and_bytes() {
        let words = [
            5 << 5 | 1, // A word, 5 later.
            0x0403_0201,
            2 << 5 | TIME_EXTEND,
            1,
            7 << 5 | LONG,
            7, // 3 bytes.
            0x000c_0b0a,
            1 << 5 | PADDING,
            8,
            0,
            PADDING, // Ends the page.
            0x1111_1111,
        ];
        let (events, is_whole) = events(&page(&words));
        let later = 1005 + 2 + (1 << 27) + 7;
        let expected = [(1005, vec![1, 2, 3, 4]), (later, vec![10, 11, 12])];
        assert!(is_whole);
        assert_eq!(events, expected);
    }

    #[test]
    fn absolute_time_replaces_the_previous_time() {
        let (events, _) = events(&page(&[3 << 5 | TIME_STAMP, 2, 1 << 5 | 1, 9]));
        assert_eq!(events[0].0, 3 + (2 << 27) + 1);
    }

    #[test]
    fn oversized_page_layout_is_rejected() {
        for (offset, size) in [
            (16, usize::MAX),
            (usize::MAX, 112),
            (0, MOST_PAGE_BYTES + 1),
        ] {
            let numbers = format!("offset:{offset};\tsize:{size};");
            let header = HEADER.replace("offset:16;\tsize:112;", &numbers);
            assert_ne!(header, HEADER);
            assert_eq!(PageLayout::parse(&header), None);
        }
    }

    #[test]
    fn malformed_page_ends_without_a_panic() {
        let (none, is_whole) = events(&page(&[1 << 5 | 0x1c]));
        assert!(none.is_empty() && !is_whole);
        let seed = Seed::from_environment(0x51);
        let mut random = Random::new(seed);
        for round in 0..20_000 {
            // Half of the times are so late that they exceed the maximum.
            let time = match round % 2 {
                0 => u64::MAX - u64::from(random.byte()),
                _ => u64::from_le_bytes(std::array::from_fn(|_| random.byte())),
            };
            let words: [u32; 28] =
                std::array::from_fn(|_| u32::from_le_bytes(std::array::from_fn(|_| random.byte())));
            let mut bytes = page(&words);
            bytes[..8].copy_from_slice(&time.to_le_bytes());
            bytes.truncate(usize::from(random.byte() % 129));
            let layout = PageLayout::parse(HEADER).unwrap();
            let mut total = 0;
            let _ = layout.events(&bytes, |_, event| total += event.len());
            assert!(total <= 128, "seed {seed}");
        }
    }
}
