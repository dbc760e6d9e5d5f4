//! The content of a file in the model.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The size of a chunk.
pub const CHUNK_BYTES: usize = 4096;
const CHUNK: u64 = CHUNK_BYTES as u64;

/// The sparse content of a file. A clone shares the chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    size_bytes: u64,
    /// Chunks that are not all zeros, by number.
    chunks: BTreeMap<u64, Arc<[u8; CHUNK_BYTES]>>,
}

impl Content {
    /// Returns the size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the size of the stored chunks, in bytes.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK
    }

    /// Returns the offsets, in bytes, of the chunks that may contain nonzero bytes.
    pub fn chunk_starts(&self) -> impl Iterator<Item = u64> {
        self.chunks.keys().map(|number| number * CHUNK)
    }

    /// Returns whether the chunk with this number may contain nonzero bytes.
    #[must_use]
    pub fn has_chunk(&self, number: u64) -> bool {
        self.chunks.contains_key(&number)
    }

    /// Fills `buf` from `offset_bytes`, with zeros past the end.
    pub fn read(&self, buf: &mut [u8], offset_bytes: u64) {
        buf.fill(0);
        for (number, inside, part) in pieces(offset_bytes, buf.len()) {
            if let Some(chunk) = self.chunks.get(&number) {
                buf[part].copy_from_slice(&chunk[inside]);
            }
        }
    }

    /// Writes `buf` at `offset_bytes`, and extends the file if necessary.
    pub fn write(&mut self, buf: &[u8], offset_bytes: u64) {
        for (number, inside, part) in pieces(offset_bytes, buf.len()) {
            let chunk = self
                .chunks
                .entry(number)
                .or_insert_with(|| Arc::new([0; CHUNK_BYTES]));
            Arc::make_mut(chunk)[inside].copy_from_slice(&buf[part]);
        }
        if !buf.is_empty() {
            self.size_bytes = self.size_bytes.max(offset_bytes + buf.len() as u64);
        }
    }

    /// Truncates or extends the file.
    pub fn set_size(&mut self, size_bytes: u64) {
        if size_bytes < self.size_bytes {
            self.zero(size_bytes..self.size_bytes);
        }
        self.size_bytes = size_bytes;
    }

    /// Zeroes a range. The size does not change.
    pub fn zero(&mut self, range: Range<u64>) {
        let first_whole = range.start.div_ceil(CHUNK);
        let end_whole = (range.end / CHUNK).max(first_whole);
        let whole: Vec<_> = self
            .chunks
            .range(first_whole..end_whole)
            .map(|(number, _)| *number)
            .collect();
        for number in whole {
            self.chunks.remove(&number);
        }
        let head_end = range.end.min(first_whole * CHUNK);
        let tail_start = (end_whole * CHUNK).max(range.start);
        for part in [range.start..head_end, tail_start..range.end] {
            let len = usize::try_from(part.end.saturating_sub(part.start)).unwrap_or(0);
            for (number, inside, _) in pieces(part.start, len) {
                if let Some(chunk) = self.chunks.get_mut(&number) {
                    Arc::make_mut(chunk)[inside].fill(0);
                }
            }
        }
    }

    /// Removes `range`, which ends before the end of the file, and moves the following content down.
    pub fn collapse(&mut self, range: &Range<u64>) {
        let tail = self.bytes(range.end..self.size_bytes);
        let size_bytes = self.size_bytes - (range.end - range.start);
        self.set_size(range.start);
        self.write(&tail, range.start);
        self.size_bytes = size_bytes;
    }

    /// Inserts a hole at `range`, which starts before the end of the file.
    pub fn insert(&mut self, range: &Range<u64>) {
        let tail = self.bytes(range.start..self.size_bytes);
        let size_bytes = self.size_bytes + (range.end - range.start);
        self.set_size(range.start);
        self.write(&tail, range.end);
        self.size_bytes = size_bytes;
    }

    /// Returns the bytes of a range.
    #[must_use]
    pub fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        let len = range.end.saturating_sub(range.start);
        let mut buf = vec![0; usize::try_from(len).unwrap_or(0)];
        self.read(&mut buf, range.start);
        buf
    }
}

/// Returns the chunks that a range overlaps: number, range in the chunk, and range in a buffer for the
/// whole range.
fn pieces(
    offset_bytes: u64,
    len: usize,
) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = offset_bytes + done as u64;
        let inside = usize::try_from(at % CHUNK).unwrap_or(0);
        let count = (CHUNK_BYTES - inside).min(len - done);
        let piece = (at / CHUNK, inside..inside + count, done..done + count);
        done += count;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Random, Seed};

    #[test]
    #[allow(clippy::cast_possible_truncation, reason = "all numbers are small")]
    fn random_changes_equal_those_of_a_plain_vector() {
        let mut random = Random::new(Seed(3));
        let mut content = Content::default();
        let mut plain: Vec<u8> = Vec::new();
        for step in 0..500_u64 {
            let at = random.below(20_000);
            let len = 1 + random.below(9_000);
            let (from, to) = (at as usize, (at + len) as usize);
            match random.below(5) {
                0 => {
                    content.set_size(at);
                    plain.resize(from, 0);
                }
                1 => {
                    content.zero(at..at + len);
                    let size = plain.len();
                    plain[from.min(size)..to.min(size)].fill(0);
                }
                2 if to < plain.len() => {
                    content.collapse(&(at..at + len));
                    plain.drain(from..to);
                }
                3 if from < plain.len() => {
                    content.insert(&(at..at + len));
                    plain.splice(from..from, std::iter::repeat_n(0, len as usize));
                }
                _ => {
                    let bytes = random.bytes(len as usize);
                    content.write(&bytes, at);
                    plain.resize(plain.len().max(to), 0);
                    plain[from..to].copy_from_slice(&bytes);
                }
            }
            assert_eq!(content.size_bytes(), plain.len() as u64, "step {step}");
            assert!(content.bytes(0..plain.len() as u64) == plain, "step {step}");
        }
    }
}
