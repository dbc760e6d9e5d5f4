//! Seeded reads: random reads, and runs of several kinds.

use super::sizes::{LONG_FILE_BYTES, pages, request};
use crate::readahead::Pattern;
use crate::readahead::pattern::{BLOCKS_FILE_BYTES, PAGE_BYTES};
use crate::{Random, Seed};
use larder_readahead::Advice;

/// Returns a request of 1 to `end - 1` pages.
fn some_pages(random: &mut Random, end: u64) -> u32 {
    request(u32::try_from(random.below(end - 1)).unwrap_or(0) + 1)
}

/// Random reads: dense ones, of which many hit pages of earlier reads, and sparse ones.
pub(super) fn random() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for (area, len) in [
        (60, 1),
        (60, 3),
        (200, 1),
        (200, 2),
        (200, 5),
        (300, 16),
        (500, 40),
        (5000, 1),
        (5000, 4),
        (100_000, 8),
    ] {
        for seed in 1..=2 {
            let mut random = Random::new(Seed(seed).part(area + u64::from(len)));
            let mut pattern =
                Pattern::new(format!("in-{area}-by-{len}-seed-{seed}"), LONG_FILE_BYTES);
            for _ in 0..30 {
                pattern = pattern.read(0, pages(random.below(area)), request(len));
            }
            patterns.push(pattern);
        }
    }
    patterns
}

/// Some of the patterns of [`seeded`].
pub(super) fn mixed() -> Vec<Pattern> {
    (1..=60).map(|seed| seeded(Seed(seed))).collect()
}

/// Returns reads of all kinds, faults, advice and evictions by several streams in any order. The file
/// and the limits also depend on `seed`.
#[must_use]
pub fn seeded(seed: Seed) -> Pattern {
    let mut random = Random::new(seed);
    let mut one_of = |choices: &[u32]| random.choose(choices).copied().unwrap_or(0);
    let max_kib = one_of(&[128, 128, 128, 32, 64, 100, 512, 20, 2048]);
    let io_kib = one_of(&[1280, 1280, 128, 400]);
    let file_pages = one_of(&[300, 1000, 100_000]).into();
    let area_pages = u64::from(one_of(&[200, 600, 600, 4000])).min(file_pages);
    let odd_bytes = random.below(PAGE_BYTES);
    let pattern = Pattern::new(format!("seed-{}", seed.0), pages(file_pages) - odd_bytes)
        .max_kib(max_kib)
        .io_kib(io_kib);
    runs(pattern, &mut random, area_pages, 36)
}

/// A file whose pages must be read from the device.
pub(super) fn blocks() -> Vec<Pattern> {
    let on_blocks = |name: &str| Pattern::new(name, BLOCKS_FILE_BYTES).blocks();
    let file_pages = BLOCKS_FILE_BYTES / pages(1);
    let mut patterns = vec![
        on_blocks("by-1").reads(0, 4096, 4096, 60),
        on_blocks("by-5").reads(0, 20_480, 20_480, 30),
        on_blocks("by-100000").reads(0, 100_000, 100_000, 20),
        on_blocks("backward").reads(pages(100), -4096, 4096, 24),
    ];
    for seed in 101..=104 {
        let mut random = Random::new(Seed(seed));
        let pattern = on_blocks(&format!("seed-{seed}"));
        patterns.push(runs(pattern, &mut random, file_pages.min(600), 30));
    }
    patterns
}

/// Lasting advice, with the more usual kinds repeated.
const LASTING: [Advice; 4] = [
    Advice::Normal,
    Advice::Normal,
    Advice::Sequential,
    Advice::Random,
];

/// Appends random operations in the first `area_pages` pages of the file, until the pattern has at least
/// `operations` of them.
fn runs(mut pattern: Pattern, random: &mut Random, area_pages: u64, operations: usize) -> Pattern {
    while pattern.operations.len() < operations {
        let stream = u16::try_from(random.below(3)).unwrap_or(0);
        let at = random.below(area_pages);
        let len = some_pages(random, 12);
        match random.below(12) {
            0..=2 => {
                // A sequential run, sometimes not aligned to a page.
                let mut offset = pages(at) + random.below(2) * random.below(4096);
                for _ in 0..random.below(10) {
                    pattern = pattern.read(stream, offset, len);
                    offset += u64::from(len);
                }
            }
            3 => {
                for step in 0..random.below(4) {
                    pattern = pattern.read(stream, pages(at.saturating_sub(step * 3)), len);
                }
            }
            4 => pattern = pattern.read(stream, pages(at), some_pages(random, 200)),
            5 => {
                let len = pages(random.below(30) + 1);
                pattern = pattern.advise_range(stream, Advice::DontNeed, pages(at), len);
            }
            6 => {
                for step in 0..random.below(6) {
                    let page = at + step * (random.below(2) + 1);
                    pattern = pattern.fault(stream, page.min(area_pages - 1));
                }
            }
            7 => {
                let advice = *random.choose(&LASTING).unwrap_or(&Advice::Normal);
                pattern = if random.below(2) == 0 {
                    pattern.advise(stream, advice)
                } else {
                    pattern.advise_mapping(stream, advice)
                };
            }
            8 => pattern = pattern.advise_range(stream, Advice::WillNeed, pages(at), len.into()),
            _ => pattern = pattern.read(stream, pages(at), len),
        }
    }
    pattern
}
