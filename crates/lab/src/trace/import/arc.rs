//! Imports the traces that were published with ARC (Megiddo and Modha, FAST 2003).
//!
//! A line is `1284 8 0 17`: the first block, the number of blocks, an unused number, and the number of the
//! request. Each block becomes a lookup in the buffer cache. The blocks of these traces have 512 bytes or one
//! page, depending on the trace.

use super::event::{EventSink, lookup};
use super::lines::Lines;
use super::skipped::{FOREIGN, Skipped};
use crate::trace::Error;
use larder_cache::tape::CacheKind;
use std::io::BufRead;

/// Maximum number of blocks in a request.
const MOST_BLOCKS: u64 = 1 << 19;

pub(super) fn import(reader: impl BufRead, emit: &mut EventSink<'_>) -> Result<Skipped, Error> {
    let mut lines = Lines::new(reader);
    let mut skipped = Skipped::default();
    while let Some(line) = lines.next()? {
        if line.text.trim_ascii().is_empty() {
            skipped.line("an empty line", line);
            continue;
        }
        let Some((first, blocks)) = request(line.text) else {
            skipped.line(FOREIGN, line);
            continue;
        };
        if blocks == 0 || blocks > MOST_BLOCKS || first.checked_add(blocks).is_none() {
            skipped.line("an invalid range of blocks", line);
            continue;
        }
        for block in first..first + blocks {
            emit(lookup(0, CacheKind::Buffer, 0, block))?;
        }
    }
    Ok(skipped)
}

/// Returns the first block and the number of blocks.
fn request(text: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut number = || numbers.next()?.parse::<u64>().ok();
    let (first, blocks, _, _) = (number()?, number()?, number()?, number()?);
    numbers.next().is_none().then_some((first, blocks))
}
