//! Page faults through mappings.

use super::sizes::LONG_FILE_BYTES;
use crate::readahead::Pattern;
use crate::{Random, Seed};
use larder_readahead::Advice;

/// Adds faults on these pages, in turn.
fn faults(mut pattern: Pattern, touched: impl IntoIterator<Item = u64>) -> Pattern {
    for page in touched {
        pattern = pattern.fault(0, page);
    }
    pattern
}

pub(super) fn patterns() -> Vec<Pattern> {
    let long = |name: &str| Pattern::new(name, LONG_FILE_BYTES);
    let mut patterns = vec![
        faults(long("sequential"), 0..80),
        faults(long("sequential-from-100"), 100..160),
        faults(long("backward"), (0..60).rev()),
        faults(long("every-5"), (0..40).map(|n| n * 5)),
        faults(long("every-40"), (0..20).map(|n| n * 40)),
        faults(long("max-0").max_kib(0), 0..4),
        faults(long("max-4").max_kib(4), 0..8),
        faults(long("max-12").max_kib(12), 0..12),
        faults(long("max-512").max_kib(512), (0..30).map(|n| n * 9)),
        faults(Pattern::new("end-of-file", 83_000), (0..21).rev()),
        faults(Pattern::new("end-of-file-at-once", 83_000), [20, 0, 19]),
    ];
    for seed in 1..=3 {
        let mut random = Random::new(Seed(seed));
        let touched = (0..40).map(|_| random.below(300)).collect::<Vec<_>>();
        patterns.push(faults(long(&format!("random-seed-{seed}")), touched));
    }
    // So many misses that the kernel stops reading around, then hits until it resumes.
    let misses = (0..106).map(|n| n * 100 + 50);
    let hits = (0..10).map(|n| n * 100 + 51);
    let again = (200..206).map(|n| n * 100);
    patterns.push(faults(long("many-misses"), misses.chain(hits).chain(again)));
    for advice in [Advice::Sequential, Advice::Random] {
        let name = format!("{advice:?}").to_lowercase();
        let advised = |part: &str| long(&format!("{name}-{part}")).advise_mapping(0, advice);
        patterns.push(faults(advised("mapping"), 0..60));
        patterns.push(faults(advised("mapping-every-7"), (0..24).map(|n| n * 7)));
        let file = long(&format!("{name}-file")).advise(0, advice);
        patterns.push(faults(file, (0..60).map(|n| n * 3)));
    }
    patterns.push(
        faults(long("between-reads").reads(0, 4096, 4096, 8), 8..30)
            .reads(30 * 4096, 4096, 4096, 10)
            .fault(0, 500)
            .reads(40 * 4096, 4096, 4096, 10),
    );
    patterns
}
