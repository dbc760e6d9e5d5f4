//! A single reader with increasing offsets.

use super::sizes::{LONG_FILE_BYTES, pages, request};
use crate::readahead::Pattern;
use larder_readahead::Advice;

/// Returns a reader from the start of the file.
fn from_start(name: String, len_bytes: u32, count: usize) -> Pattern {
    Pattern::new(name, LONG_FILE_BYTES).reads(0, i64::from(len_bytes), len_bytes, count)
}

pub(super) fn patterns() -> Vec<Pattern> {
    let sizes = [
        (512, 40),
        (1000, 40),
        (4000, 40),
        (4096, 50),
        (5000, 40),
        (8192, 36),
        (12_288, 30),
        (16_384, 28),
        (20_000, 24),
        (28_672, 20),
        (32_768, 20),
        (65_536, 16),
        (100_000, 14),
        (126_976, 12),
        (131_072, 12),
        (131_073, 12),
        (200_000, 10),
        (262_144, 8),
        (1 << 20, 6),
        (4 << 20, 4),
    ];
    let by_size = sizes.map(|(len, count)| from_start(format!("by-{len}"), len, count));
    let bytes = bytes_across_pages();
    let maxima = [0, 4, 8, 12, 16, 24, 64, 100, 256, 512, 1024, 4096];
    let by_max = maxima.into_iter().flat_map(|max_kib| {
        [4096, 16_384, 50_000].map(|len| {
            let count = if max_kib > 256 { 32 } else { 20 };
            from_start(format!("by-{len}-max-{max_kib}"), len, count).max_kib(max_kib)
        })
    });
    by_size.into_iter().chain([bytes]).chain(by_max).collect()
}

/// Returns reads of one byte that cross from one page to the next.
fn bytes_across_pages() -> Pattern {
    let mut pattern = Pattern::new("by-1-across-pages", LONG_FILE_BYTES);
    for page in 1..10 {
        pattern = pattern.reads(pages(page) - 2, 1, 1, 4);
    }
    pattern
}

/// Returns readers that begin inside the file.
pub(super) fn mid_file() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for start in [1, 2, 3, 5, 7, 31, 32, 33, 100, 1001] {
        for len in [1, 3, 8] {
            let name = format!("from-{start}-by-{len}");
            let len_bytes = request(len);
            patterns.push(Pattern::new(name, LONG_FILE_BYTES).reads(
                pages(start),
                i64::from(len_bytes),
                len_bytes,
                16,
            ));
        }
    }
    // Not aligned to pages, so that a request ends inside the page in which the next one begins.
    for (start, len) in [(100, 4096), (6000, 5000), (4095, 2), (40_000, 70_000)] {
        patterns.push(
            Pattern::new(format!("from-byte-{start}-by-{len}"), LONG_FILE_BYTES).reads(
                start,
                i64::from(len),
                len,
                16,
            ),
        );
    }
    // Reads next to a read that ended at a page boundary, and next to one that ended inside a page.
    for (end, len) in [("with", 4096), ("inside", 100)] {
        for gap in 0..4 {
            let name = format!("gap-of-{gap}-after-read-that-ends-{end}-its-page");
            patterns.push(
                Pattern::new(name, LONG_FILE_BYTES)
                    .read(0, pages(50), len)
                    .read(0, pages(51 + gap), 4096)
                    .read(0, pages(52 + gap), 4096),
            );
        }
    }
    patterns
}

/// Returns reads of small files, to their end and past it.
pub(super) fn ends_of_files() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for size in [
        1, 4095, 4096, 4097, 8192, 10_000, 16_384, 20_480, 32_768, 36_864, 50_000, 65_536, 69_632,
        83_000, 131_072, 135_168, 160_000, 262_144, 270_000, 409_600,
    ] {
        for len in [4096, 16_384] {
            let count = usize::try_from(size / u64::from(len)).unwrap_or(0) + 2;
            let pattern = Pattern::new(format!("{size}-by-{len}"), size);
            patterns.push(pattern.reads(0, i64::from(len), len, count.min(34)));
        }
    }
    for (size, len) in [(10_000, 1 << 20), (83_000, 65_536), (500_000, 131_072)] {
        let pattern = Pattern::new(format!("{size}-by-{len}"), size);
        patterns.push(pattern.reads(0, i64::from(len), len, 6));
    }
    // From the middle, so that a window begins just before the end.
    for before in [1, 2, 3, 9, 30] {
        let pattern = Pattern::new(format!("last-{before}-pages"), pages(100) - 96);
        patterns.push(pattern.reads(pages(100 - before), 4096, 4096, 8));
    }
    // A read across the end of the file is cut there. Therefore the read of the last page counts as adjacent to it, and
    // begins a stream. The marker on page 4 then no longer belongs to the last window.
    patterns.push(
        Pattern::new("across-the-end-and-back", pages(100) - 96)
            .reads(0, 4096, 4096, 4)
            .read(0, pages(98), request(10))
            .advise_range(0, Advice::DontNeed, pages(99), 0)
            .read(0, pages(99), 4096)
            .read(0, pages(4), request(4)),
    );
    patterns
}

/// Returns requests larger than the maximum window, for several maximum request sizes of the device.
pub(super) fn oversize() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for io_kib in [64, 128, 256, 512, 1280] {
        for (len, start) in [(40, 0), (100, 0), (100, 7), (500, 33)] {
            let name = format!("io-{io_kib}-by-{len}-from-{start}");
            let len_bytes = request(len);
            patterns.push(
                Pattern::new(name, LONG_FILE_BYTES)
                    .io_kib(io_kib)
                    .reads(pages(start), i64::from(len_bytes), len_bytes, 5)
                    .read(0, pages(5000), request(1))
                    .read(0, pages(5001), request(60))
                    .reads(pages(5061), 4096, 4096, 4),
            );
        }
    }
    patterns
}
