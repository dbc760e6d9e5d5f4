//! The pages of a column, whose counts of values are checked before a decoder allocates memory for them.
//!
//! A page of a hostile file states any number of values. The decoders of `parquet` allocate this number at once.

use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

/// A reader of pages that refuses impossible counts.
pub(super) struct CheckedPages<R> {
    pages: R,
    physical: Type,
    /// The number of rows in the row group.
    rows: usize,
}

impl<R: PageReader> CheckedPages<R> {
    pub(super) fn new(pages: R, physical: Type, rows: usize) -> Self {
        Self {
            pages,
            physical,
            rows,
        }
    }

    fn check(&self, page: &Page) -> Result<()> {
        let values = usize::try_from(page.num_values()).unwrap_or(usize::MAX);
        let most = match page {
            Page::DictionaryPage { buf, .. } => {
                let least_bytes = match self.physical {
                    Type::INT64 | Type::DOUBLE => 8,
                    Type::BOOLEAN => 1,
                    // A text begins with its length.
                    _ => 4,
                };
                buf.len() / least_bytes
            }
            Page::DataPage { .. } | Page::DataPageV2 { .. } => self.rows,
        };
        if values > most {
            let what = format!("a page states {values} values, but has room for {most}");
            return Err(ParquetError::General(what));
        }
        // In the other encodings of texts, a page of a few bytes can contain gigabytes.
        let is_text = self.physical == Type::BYTE_ARRAY;
        let is_plain = matches!(
            page.encoding(),
            Encoding::PLAIN | Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY
        );
        if is_text && !is_plain {
            let what = format!("a column of texts has the encoding {}", page.encoding());
            return Err(ParquetError::NYI(what));
        }
        Ok(())
    }
}

impl<R: PageReader> Iterator for CheckedPages<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl<R: PageReader> PageReader for CheckedPages<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.iter().try_for_each(|page| self.check(page))?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    /// Returns the result of the check of a page of a column of texts or numbers in a row group of 10 rows.
    fn checked(page: Page, physical: Type) -> Result<Option<Page>> {
        struct One(Option<Page>);
        impl Iterator for One {
            type Item = Result<Page>;
            fn next(&mut self) -> Option<Result<Page>> {
                self.0.take().map(Ok)
            }
        }
        impl PageReader for One {
            fn get_next_page(&mut self) -> Result<Option<Page>> {
                Ok(self.0.take())
            }
            fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
                Ok(None)
            }
            fn skip_next_page(&mut self) -> Result<()> {
                Ok(())
            }
        }
        CheckedPages::new(One(Some(page)), physical, 10).get_next_page()
    }

    fn dictionary(num_values: u32) -> Page {
        Page::DictionaryPage {
            buf: Bytes::from_static(&[0; 16]),
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        }
    }

    fn data(num_values: u32, encoding: Encoding) -> Page {
        Page::DataPage {
            buf: Bytes::from_static(&[0; 16]),
            num_values,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        }
    }

    #[test]
    fn impossible_counts_and_growing_texts_are_refused() {
        assert!(checked(dictionary(2), Type::INT64).is_ok());
        assert!(checked(dictionary(3), Type::INT64).is_err());
        assert!(checked(dictionary(4), Type::BYTE_ARRAY).is_ok());
        assert!(checked(dictionary(u32::MAX), Type::BYTE_ARRAY).is_err());
        assert!(checked(data(10, Encoding::PLAIN), Type::BYTE_ARRAY).is_ok());
        assert!(checked(data(11, Encoding::PLAIN), Type::INT64).is_err());
        assert!(checked(data(10, Encoding::DELTA_BYTE_ARRAY), Type::BYTE_ARRAY).is_err());
        assert!(checked(data(10, Encoding::DELTA_BINARY_PACKED), Type::INT64).is_ok());
    }
}
