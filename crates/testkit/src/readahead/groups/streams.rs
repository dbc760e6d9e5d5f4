//! Reads with a constant stride, and several streams at once.

use super::sizes::{LONG_FILE_BYTES, pages, request};
use crate::readahead::Pattern;

/// Returns reads with gaps between them.
pub(super) fn strided() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for stride in [2, 3, 4, 5, 8, 16, 17, 33, 64] {
        for len in [1, 2, 4, 20] {
            if u64::from(len) < stride {
                let name = format!("every-{stride}-by-{len}");
                let step = i64::try_from(pages(stride)).unwrap_or(i64::MAX);
                patterns.push(Pattern::new(name, LONG_FILE_BYTES).reads(0, step, request(len), 24));
            }
        }
    }
    patterns
}

/// Returns reads with decreasing offsets.
pub(super) fn backward() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for len in [1, 2, 4, 8, 32, 40] {
        for start in [64, 203] {
            let len_bytes = request(len);
            let name = format!("by-{len}-from-{start}");
            patterns.push(
                Pattern::new(name, LONG_FILE_BYTES)
                    .reads(pages(start), -i64::from(len_bytes), len_bytes, 24)
                    .reads(0, i64::from(len_bytes), len_bytes, 4),
            );
        }
    }
    for len in [1000, 5000, 10_000] {
        let name = format!("by-bytes-{len}");
        let pattern = Pattern::new(name, LONG_FILE_BYTES);
        patterns.push(pattern.reads(100_000, -i64::from(len), len, 24));
    }
    patterns
}

/// Returns sequential streams that take turns, each with its own open file or all with one.
pub(super) fn interleaved() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for (count, len, rounds) in [
        (2, 1, 20),
        (2, 4, 12),
        (2, 40, 6),
        (3, 2, 12),
        (4, 1, 12),
        (4, 16, 8),
        (8, 1, 9),
        (8, 4, 6),
        (16, 1, 6),
        (16, 8, 4),
        (32, 2, 4),
        (64, 1, 3),
    ] {
        for own_files in [true, false] {
            let files = if own_files {
                "files"
            } else {
                "readers-of-one-file"
            };
            let mut pattern = Pattern::new(format!("{count}-{files}-by-{len}"), LONG_FILE_BYTES);
            for round in 0..rounds {
                for stream in 0..count {
                    let at = u64::from(stream) * 1000 + round * u64::from(len);
                    let file = if own_files { stream } else { 0 };
                    pattern = pattern.read(file, pages(at), request(len));
                }
            }
            patterns.push(pattern);
        }
    }
    // Two readers of the same pages, the second at a distance from the first.
    for distance in [1, 3, 10, 40] {
        let mut pattern = Pattern::new(format!("follower-{distance}-behind"), LONG_FILE_BYTES);
        for page in 0..24 {
            pattern = pattern.read(0, pages(distance + page), request(1));
            pattern = pattern.read(1, pages(page), request(1));
        }
        patterns.push(pattern);
    }
    patterns
}
