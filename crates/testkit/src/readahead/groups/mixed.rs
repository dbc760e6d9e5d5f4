//! Seeded reads: random, and runs of several kinds one after the other.

use super::{LONG_FILE_BYTES, pages, request};
use crate::readahead::Pattern;
use crate::readahead::recorder::BLOCKS_FILE_BYTES;
use crate::{Random, Seed};
use larder_readahead::Advice;

/// A request of 1 to `end - 1` pages.
fn some_pages(random: &mut Random, end: u64) -> u32 {
    request(u32::try_from(random.below(end - 1)).unwrap_or(0) + 1)
}

/// Random reads: dense, so that many meet what others brought in, and sparse.
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

/// Runs, jumps, repetitions, several streams and evictions in any order.
pub(super) fn mixed() -> Vec<Pattern> {
    (1..=60)
        .map(|seed| {
            let mut random = Random::new(Seed(seed));
            let max_kib = *random
                .choose(&[128, 128, 128, 32, 64, 100, 512])
                .unwrap_or(&128);
            let io_kib = *random.choose(&[1280, 1280, 128, 400]).unwrap_or(&1280);
            let file_pages = *random.choose(&[300, 1000, 100_000]).unwrap_or(&1000);
            let odd = random.below(4096);
            let pattern = Pattern::new(format!("seed-{seed}"), pages(file_pages) - odd)
                .max_kib(max_kib)
                .io_kib(io_kib);
            runs(pattern, &mut random, file_pages, 36)
        })
        .collect()
}

/// A file whose pages the device has to read.
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
        patterns.push(runs(pattern, &mut random, file_pages, 30));
    }
    patterns
}

/// Advice that lasts, the more usual kind more often.
const LASTING: [Advice; 4] = [
    Advice::Normal,
    Advice::Normal,
    Advice::Sequential,
    Advice::Random,
];

/// Appends about `operations` of seeded kinds.
fn runs(mut pattern: Pattern, random: &mut Random, file_pages: u64, operations: usize) -> Pattern {
    let area = file_pages.min(600);
    while pattern.operations.len() < operations {
        let stream = u16::try_from(random.below(3)).unwrap_or(0);
        let at = random.below(area);
        let len = some_pages(random, 12);
        match random.below(12) {
            0..=2 => {
                // A sequential run, sometimes not at a page's start.
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
                    pattern = pattern.fault(stream, page.min(file_pages - 1));
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
