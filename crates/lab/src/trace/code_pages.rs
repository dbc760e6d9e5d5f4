//! Decodes a column of names directly to codes: the indices of a dictionary page are never converted to strings.
//!
//! Parquet's reader would create a string for each row, which takes longer than all other columns together.

use super::name_codes::{code_of, text};
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};

/// The widest index that is accepted, in bits.
const MAX_WIDTH: u8 = 32;
const END: &str = "a page of names ends early";

/// A column of names that is not optional.
pub(super) struct CodePages {
    pages: Box<dyn PageReader>,
    names: &'static [&'static str],
    /// The code of each entry of the dictionary.
    dictionary: Vec<u8>,
    page: Option<Page>,
    /// The number of values in `page` that were not read.
    left: usize,
    /// The offset of the next run or name in `page`.
    at: usize,
    width: u8,
    run: Run,
}

/// The current run of indices.
#[derive(Clone, Copy, Debug)]
enum Run {
    /// A value that is repeated.
    Repeated { index: u32, left: usize },
    /// Values in `width` bits each. The first remaining one is at the bit `bit` of the page.
    Packed { bit: usize, left: usize },
}

impl Run {
    const NONE: Self = Self::Repeated { index: 0, left: 0 };
}

impl CodePages {
    pub(super) fn new(pages: Box<dyn PageReader>, names: &'static [&'static str]) -> Self {
        Self {
            pages,
            names,
            dictionary: Vec::new(),
            page: None,
            left: 0,
            at: 0,
            width: 0,
            run: Run::NONE,
        }
    }

    /// Appends the next `rows` codes to `codes`.
    pub(super) fn read(&mut self, rows: usize, codes: &mut Vec<u8>) -> Result<(), String> {
        let end = codes.len() + rows;
        while codes.len() < end {
            while self.left == 0 {
                self.open_next_page()?;
            }
            let count = self.left.min(end - codes.len());
            let page = self.page.take().ok_or(END)?;
            let read = if is_dictionary(page.encoding()) {
                self.read_indices(page.buffer(), count, codes)
            } else {
                self.read_names(page.buffer(), count, codes)
            };
            self.page = Some(page);
            read?;
            self.left -= count;
        }
        Ok(())
    }

    fn open_next_page(&mut self) -> Result<(), String> {
        let page = self.pages.get_next_page().map_err(text)?;
        let page = page.ok_or("a column ends early")?;
        let count = page.num_values() as usize;
        match &page {
            Page::DictionaryPage { buf, .. } => {
                self.dictionary.clear();
                let mut at = 0;
                for _ in 0..count {
                    let name = name_at(buf, &mut at)?;
                    self.dictionary.push(code_of(self.names, name)?);
                }
                return Ok(());
            }
            Page::DataPage { .. } => self.at = 0,
            Page::DataPageV2 {
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                self.at = usize::try_from(levels).map_err(text)?;
            }
        }
        match page.encoding() {
            encoding if is_dictionary(encoding) => {
                self.width = *page.buffer().get(self.at).ok_or(END)?;
                if self.width > MAX_WIDTH {
                    return Err(format!("indices of {} bits", self.width));
                }
                self.at += 1;
                self.run = Run::NONE;
            }
            Encoding::PLAIN => {}
            other => return Err(format!("names have the unsupported encoding {other}")),
        }
        self.left = count;
        self.page = Some(page);
        Ok(())
    }

    fn read_names(&mut self, page: &[u8], count: usize, codes: &mut Vec<u8>) -> Result<(), String> {
        for _ in 0..count {
            let name = name_at(page, &mut self.at)?;
            codes.push(code_of(self.names, name)?);
        }
        Ok(())
    }

    fn read_indices(
        &mut self,
        page: &[u8],
        mut count: usize,
        codes: &mut Vec<u8>,
    ) -> Result<(), String> {
        while count > 0 {
            match &mut self.run {
                Run::Repeated { left: 0, .. } | Run::Packed { left: 0, .. } => {
                    self.run = self.next_run(page)?;
                }
                Run::Repeated { index, left } => {
                    let now = count.min(*left);
                    let code = code_at(&self.dictionary, *index)?;
                    codes.extend(std::iter::repeat_n(code, now));
                    *left -= now;
                    count -= now;
                }
                Run::Packed { bit, left } => {
                    let now = count.min(*left);
                    for _ in 0..now {
                        let index = packed(page, *bit, self.width);
                        codes.push(code_at(&self.dictionary, index)?);
                        *bit += usize::from(self.width);
                    }
                    *left -= now;
                    count -= now;
                }
            }
        }
        Ok(())
    }

    /// Reads the header of the next run, and passes over the run.
    fn next_run(&mut self, page: &[u8]) -> Result<Run, String> {
        let header = number_at(page, &mut self.at)?;
        let count = usize::try_from(header >> 1).map_err(text)?;
        if count == 0 {
            return Err("a run of names is empty".to_owned());
        }
        let width = usize::from(self.width);
        if header & 1 == 0 {
            let bytes = width.div_ceil(8);
            let end = self.at.checked_add(bytes).ok_or(END)?;
            let value = page.get(self.at..end).ok_or(END)?;
            let mut index = [0; 4];
            index[..bytes].copy_from_slice(value);
            self.at = end;
            return Ok(Run::Repeated {
                index: u32::from_le_bytes(index),
                left: count,
            });
        }
        // 8 values of any width are whole bytes.
        let bytes = count.checked_mul(width).ok_or(END)?;
        let bit = self.at.checked_mul(8).ok_or(END)?;
        let end = self.at.checked_add(bytes).ok_or(END)?;
        if end > page.len() {
            return Err(END.to_owned());
        }
        self.at = end;
        Ok(Run::Packed {
            bit,
            left: count.checked_mul(8).ok_or(END)?,
        })
    }
}

fn is_dictionary(encoding: Encoding) -> bool {
    // The second one is the name in the first version of Parquet.
    matches!(
        encoding,
        Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
    )
}

fn code_at(dictionary: &[u8], index: u32) -> Result<u8, String> {
    let code = dictionary.get(index as usize).copied();
    code.ok_or_else(|| format!("name {index} is not in the dictionary"))
}

/// Returns the value of `width` bits at the bit `bit`. Bits after the end of the page are 0.
fn packed(page: &[u8], bit: usize, width: u8) -> u32 {
    let rest = page.get(bit / 8..).unwrap_or_default();
    let word = rest.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 8];
        word[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
        word
    });
    let value = u64::from_le_bytes(word) >> (bit % 8) & ((1 << width) - 1);
    // At most 32 bits are left.
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Returns the name at `at`: its length in 4 bytes, and its bytes. Moves `at` past it.
fn name_at<'p>(page: &'p [u8], at: &mut usize) -> Result<&'p [u8], String> {
    let rest = page.get(*at..).ok_or(END)?;
    let (len, rest) = rest.split_first_chunk().ok_or(END)?;
    let len = u32::from_le_bytes(*len) as usize;
    let name = rest.get(..len).ok_or(END)?;
    *at += size_of::<u32>() + len;
    Ok(name)
}

/// Returns the variable-length number at `at`, and moves `at` past it.
fn number_at(page: &[u8], at: &mut usize) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *page.get(*at).ok_or(END)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err("the length of a run is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::{Random, Seed};
    use parquet::column::page::PageMetadata;
    use parquet::errors::Result;
    use std::collections::VecDeque;

    const NAMES: &[&str] = &["page", "buffer", "dentry"];

    /// The pages of a column in memory.
    struct Pages(VecDeque<Page>);

    impl Iterator for Pages {
        type Item = Result<Page>;

        fn next(&mut self) -> Option<Result<Page>> {
            self.get_next_page().transpose()
        }
    }

    impl PageReader for Pages {
        fn get_next_page(&mut self) -> Result<Option<Page>> {
            Ok(self.0.pop_front())
        }

        fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
            Ok(None)
        }

        fn skip_next_page(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn plain(names: &[&str]) -> Vec<u8> {
        let encoded = names.iter().flat_map(|name| {
            let len = u32::try_from(name.len()).unwrap().to_le_bytes();
            len.into_iter().chain(name.bytes())
        });
        encoded.collect()
    }

    fn dictionary(names: &[&str]) -> Page {
        Page::DictionaryPage {
            buf: plain(names).into(),
            num_values: u32::try_from(names.len()).unwrap(),
            encoding: Encoding::PLAIN,
            is_sorted: false,
        }
    }

    fn data(bytes: Vec<u8>, num_values: u32, encoding: Encoding) -> Page {
        Page::DataPage {
            buf: bytes.into(),
            num_values,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        }
    }

    fn read(pages: impl IntoIterator<Item = Page>, rows: &[usize]) -> Result<Vec<u8>, String> {
        let pages = Box::new(Pages(pages.into_iter().collect()));
        let mut column = CodePages::new(pages, NAMES);
        let mut codes = Vec::new();
        for rows in rows {
            column.read(*rows, &mut codes)?;
        }
        Ok(codes)
    }

    #[test]
    fn indices_become_codes_across_runs_pages_and_reads() {
        // The dictionary has another order than the codes.
        let dictionary = dictionary(&["dentry", "page"]);
        // Width 1: eight packed values, then three repeated ones.
        let first = data(vec![1, 3, 0b1010_0110, 6, 1], 11, Encoding::RLE_DICTIONARY);
        let second = data(plain(&["buffer", "page"]), 2, Encoding::PLAIN);
        let codes = read([dictionary, first, second], &[3, 6, 0, 4]).unwrap();
        assert_eq!(codes, [2, 0, 0, 2, 2, 0, 2, 0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn damaged_pages_are_errors() {
        let indices = |bytes: &[u8]| data(bytes.to_vec(), 8, Encoding::RLE_DICTIONARY);
        let names = || dictionary(&["page", "buffer"]);
        for (bytes, expected) in [
            (&[][..], "ends early"),
            (&[1], "ends early"),
            (&[1, 3], "ends early"),
            (&[1, 0], "empty"),
            (&[33, 3, 0], "33 bits"),
            (&[2, 16, 3], "not in the dictionary"),
            (
                &[
                    1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                ],
                "too large",
            ),
        ] {
            let error = read([names(), indices(bytes)], &[8]).unwrap_err();
            assert!(error.contains(expected), "{bytes:?}: {error}");
        }
        let unknown = read([dictionary(&["pages"])], &[1]).unwrap_err();
        assert!(unknown.contains("unknown name `pages`"), "{unknown}");
        let missing = read([names()], &[1]).unwrap_err();
        assert!(missing.contains("ends early"), "{missing}");
    }

    #[test]
    fn random_pages_give_codes_or_an_error() {
        let seed = Seed::from_environment(15);
        let mut random = Random::new(seed);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.below(20)).map(|_| random.byte()).collect();
            let encoding = *random
                .choose(&[Encoding::RLE_DICTIONARY, Encoding::PLAIN])
                .unwrap();
            let page = data(bytes, 100, encoding);
            if let Ok(codes) = read([dictionary(NAMES), page], &[40, 60]) {
                assert!(
                    codes.len() == 100 && codes.iter().all(|code| *code < 3),
                    "{seed}"
                );
            }
        }
    }
}
