//! Advice on the file.

use super::sizes::{LONG_FILE_BYTES, pages, request};
use crate::readahead::Pattern;
use larder_readahead::Advice::{DontNeed, Normal, Random, Sequential, WillNeed};

pub(super) fn patterns() -> Vec<Pattern> {
    let long = |name: String| Pattern::new(name, LONG_FILE_BYTES);
    let mut patterns = Vec::new();
    for advice in [Normal, Sequential, Random] {
        let name = format!("{advice:?}").to_lowercase();
        for len in [1, 5, 50, 400] {
            let bytes = request(len);
            let reads = long(format!("{name}-by-{len}")).advise(0, advice);
            patterns.push(reads.reads(0, i64::from(bytes), bytes, 10));
        }
        // Advice in the middle of a stream, and later its reversal.
        patterns.push(
            long(format!("{name}-later"))
                .reads(0, 4096, 4096, 6)
                .advise(0, advice)
                .reads(pages(6), 4096, 4096, 30)
                .advise(0, Normal)
                .reads(pages(36), 4096, 4096, 20)
                .read(0, pages(4000), request(4))
                .advise(0, advice)
                .reads(pages(4004), 4096, request(4), 4),
        );
        patterns.push(
            long(format!("{name}-max-4096"))
                .max_kib(4096)
                .advise(0, advice)
                .reads(0, 4 << 20, 4 << 20, 3),
        );
        patterns.push(
            long(format!("{name}-max-0"))
                .max_kib(0)
                .advise(0, advice)
                .reads(0, 8192, 8192, 5),
        );
    }
    // These patterns cover the markers of a window that began before the second advice, and the limit of that window.
    for (name, advice) in [("random", Random), ("normal", Normal)] {
        patterns.push(
            long(format!("sequential-then-{name}"))
                .advise(0, Sequential)
                .reads(0, 16_384, 16_384, 6)
                .advise(0, advice)
                .reads(pages(24), 16_384, 16_384, 30),
        );
    }
    patterns.extend(will_need());
    patterns.extend(do_not_need());
    patterns
}

fn will_need() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for (name, offset, len) in [
        ("one-page", 0, 4096),
        ("one-byte", 5000, 1),
        ("two-bytes-in-two-pages", 4095, 2),
        ("small", 100_000, 60_000),
        ("limit-of-device", 0, 1280 << 10),
        ("beyond-limit", 8192, 8 << 20),
        ("all", 0, 0),
        ("rest", 1 << 20, 0),
    ] {
        for (max_kib, io_kib) in [(128, 1280), (4096, 512)] {
            patterns.push(
                Pattern::new(format!("willneed-{name}-max-{max_kib}"), 16 << 20)
                    .max_kib(max_kib)
                    .io_kib(io_kib)
                    .advise_range(0, WillNeed, offset, len)
                    .reads(offset, 8192, 8192, 4)
                    .read(0, 10 << 20, 4096),
            );
        }
    }
    patterns.push(
        Pattern::new("willneed-end-of-file", 83_000)
            .advise_range(0, WillNeed, 70_000, 1 << 20)
            .advise_range(0, WillNeed, 83_000, 10)
            .reads(0, 16_384, 16_384, 6),
    );
    patterns.push(
        Pattern::new("willneed-sequential", 16 << 20)
            .max_kib(1024)
            .advise(0, Sequential)
            .advise(0, WillNeed)
            .reads(0, 1 << 20, 1 << 20, 3),
    );
    patterns
}

fn do_not_need() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for (name, offset, len) in [
        ("page", 8192, 4096),
        ("less-than-a-page", 8192, 4095),
        ("across-a-page", 8000, 4500),
        ("inside-two-pages", 8000, 9000),
        ("all", 0, 0),
        ("rest", 10_000, 0),
        ("to-the-last-byte", 70_000, 13_000),
        ("to-the-byte-before", 70_000, 12_999),
        ("beyond-the-end", 70_000, 99_999),
    ] {
        patterns.push(
            Pattern::new(format!("dontneed-{name}"), 83_000)
                .reads(0, 65_536, 65_536, 2)
                .advise_range(0, DontNeed, offset, len)
                .reads(0, 20_480, 20_480, 5),
        );
    }
    patterns
}
