//! Reads of partly cached files, and repeated reads after eviction.

use super::sizes::{LONG_FILE_BYTES, pages, request};
use crate::readahead::Pattern;
use crate::{Random, Seed};
use larder_readahead::Advice;

/// Pages that are read, evicted, and read again.
pub(super) fn evicted() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for len in [1, 4, 16, 40] {
        let len_bytes = request(len);
        let step = i64::from(len_bytes);
        let start = Pattern::new(format!("whole-by-{len}"), LONG_FILE_BYTES);
        patterns.push(
            start
                .reads(0, step, len_bytes, 12)
                .advise(0, Advice::DontNeed)
                .reads(u64::from(len_bytes) * 12, step, len_bytes, 8)
                .advise(0, Advice::DontNeed)
                .reads(0, step, len_bytes, 8),
        );
    }
    // Thrashing: pages that were read ahead are evicted before they are read.
    for (from, missing) in [(6, 100), (8, 4), (12, 1), (13, 3), (20, 30), (28, 64)] {
        let mut pattern = Pattern::new(format!("ahead-{missing}-from-{from}"), LONG_FILE_BYTES);
        pattern = pattern.reads(0, 4096, request(1), 6).advise_range(
            0,
            Advice::DontNeed,
            pages(from),
            pages(missing),
        );
        patterns.push(pattern.reads(pages(6), 4096, request(1), 30));
    }
    for every in [3, 7] {
        let mut pattern = Pattern::new(format!("all-after-{every}-reads"), LONG_FILE_BYTES);
        for read in 0..28 {
            if read % every == every - 1 {
                pattern = pattern.advise(0, Advice::DontNeed);
            }
            pattern = pattern.read(0, pages(read * 2), request(2));
        }
        patterns.push(pattern);
    }
    patterns
}

/// Some pages are cached before the stream begins.
pub(super) fn partly_cached() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    // Single pages and runs that were inserted through another open file with advice for random access.
    let islands: [(&str, &[(u64, u32)]); 7] = [
        ("page-1", &[(1, 1)]),
        ("page-4", &[(4, 1)]),
        ("run-3-to-9", &[(3, 6)]),
        ("run-to-the-start", &[(0, 20)]),
        ("markers", &[(1, 1), (4, 1), (12, 1), (28, 1)]),
        (
            "many",
            &[(2, 1), (5, 2), (9, 1), (14, 6), (25, 3), (40, 8), (70, 1)],
        ),
        ("long", &[(10, 60)]),
    ];
    for (name, islands) in islands {
        for len in [1, 5] {
            let mut pattern = Pattern::new(format!("{name}-by-{len}"), LONG_FILE_BYTES);
            pattern = pattern.advise(1, Advice::Random);
            for (start, pages_cached) in islands {
                pattern = pattern.read(1, pages(*start), request(*pages_cached));
            }
            let step = i64::from(request(len));
            patterns.push(pattern.reads(0, step, request(len), 24));
        }
    }
    // A history of this many cached pages just before a read.
    for (from, cached) in [
        (0, 4),
        (0, 16),
        (0, 31),
        (0, 32),
        (0, 33),
        (0, 50),
        (40, 1),
        (40, 2),
        (40, 3),
        (40, 9),
        (40, 31),
        (40, 33),
        (40, 70),
    ] {
        for len in [1, 3] {
            let name = format!("history-of-{cached}-from-{from}-by-{len}");
            patterns.push(
                Pattern::new(name, LONG_FILE_BYTES)
                    .advise(1, Advice::Random)
                    .read(1, pages(from), request(cached))
                    .reads(
                        pages(from) + u64::from(request(cached)),
                        8192,
                        request(len),
                        2,
                    )
                    .reads(
                        pages(from) + u64::from(request(cached + 3)),
                        i64::from(request(len)),
                        request(len),
                        8,
                    ),
            );
        }
    }
    for seed in 1..=4 {
        let mut random = Random::new(Seed(seed));
        let mut pattern = Pattern::new(format!("seed-{seed}"), LONG_FILE_BYTES);
        pattern = pattern.advise(1, Advice::Random);
        for _ in 0..12 {
            pattern = pattern.read(1, pages(random.below(120)), request(3));
        }
        patterns.push(pattern.reads(0, 12_288, request(3), 36));
    }
    patterns
}
