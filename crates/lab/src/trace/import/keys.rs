//! Imports keys of any cache, one on each line.
//!
//! | line | meaning: a lookup of |
//! |---|---|
//! | `1234`, `0x4d2` | an inode |
//! | `1234 7` | page 7 of inode 1234: an object, and a part of it |
//! | `*` | nothing: a separator in the traces that were published with LIRS |
//! | any other text | the dentry of that name, in directory 0 |
//!
//! If the user specifies a cache, each line is a lookup in that cache. A name is then replaced by the hash of
//! the name. In the dentry cache, `*` is a name.

use super::event::{EventSink, lookup};
use super::lines::Lines;
use super::skipped::Skipped;
use crate::trace::Error;
use larder_cache::dentry::name_hash;
use larder_cache::tape::CacheKind;
use std::io::BufRead;

/// A line between the phases of the traces that were published with LIRS.
const SEPARATOR: &[u8] = b"*";

pub(super) fn import(
    reader: impl BufRead,
    cache: Option<CacheKind>,
    emit: &mut EventSink<'_>,
) -> Result<Skipped, Error> {
    let mut lines = Lines::new(reader);
    let mut skipped = Skipped::default();
    while let Some(line) = lines.next()? {
        let text = line.text.trim_ascii();
        if line.cut || text.is_empty() {
            let reason = if line.cut {
                "a line of more than 1 MiB"
            } else {
                "an empty line"
            };
            skipped.line(reason, line);
            continue;
        }
        if text == SEPARATOR && cache != Some(CacheKind::Dentry) {
            skipped.line("a separator", line);
            continue;
        }
        let mut words = text
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let numbers = (
            words.next().and_then(number),
            words.next().map(number),
            words.next(),
        );
        let (usual, object, index) = match numbers {
            (Some(index), None, None) => (CacheKind::Inode, 0, index),
            (Some(object), Some(Some(index)), None) => (CacheKind::Page, object, index),
            _ => (CacheKind::Dentry, 0, name_hash(text).into()),
        };
        let cache = cache.unwrap_or(usual);
        emit(lookup(0, cache, object, index))?;
    }
    Ok(skipped)
}

fn number(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
