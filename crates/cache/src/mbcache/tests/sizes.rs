//! Tests that a cache takes the memory that the budget reserves for it.

use super::*;
use crate::budget::{BudgetConfig, Division};

/// A probe that reports one processor.
#[derive(Clone, Debug)]
struct OneProcessor;

impl Probe for OneProcessor {
    fn processors(&self) -> usize {
        1
    }
}

/// The size of a list head, which is not part of the budget.
const LIST_BYTES: u64 = 128;

#[test]
fn full_cache_takes_the_memory_of_its_budget() {
    const FRAME_BYTES: u32 = 4096;
    each(|variant| {
        for budget_bytes in [1 << 20, 8 << 20] {
            let config = BudgetConfig {
                shared_blocks: variant,
                ..BudgetConfig::new(budget_bytes, FRAME_BYTES as usize)
            };
            let division = Division::new(&config, 192);
            let shared = division.shared_blocks.unwrap();
            let charged = Arc::new(Chunks(AtomicU32::new(u32::MAX)));
            let growth = Growth::Charged {
                chunk: shared.arena.chunk,
                charge: charged.clone(),
            };
            let config = Config {
                limit_entries: shared.limit_entries,
                bits: shared.arena.bits,
            };
            let cache = build(variant, config, growth, OneProcessor).unwrap();
            let mut held = Vec::new();
            for key in 0.. {
                if cache.insert(key, key.into(), true) == Inserted::NoRoom {
                    break;
                }
                held.extend(cache.find_first(key));
            }
            let bytes = cache.stats().bytes;
            assert_eq!(held.len(), shared.arena.slots as usize, "{variant}");
            assert!(bytes <= budget_bytes / 64 + LIST_BYTES, "{bytes}");
            let slots = u64::from(shared.arena.slots) * cache.stats().entry_bytes;
            let buckets = (shared.arena.bucket_bytes << shared.arena.bits) as u64;
            let budgeted = slots + buckets;
            assert!(
                (budgeted..=budgeted + LIST_BYTES).contains(&bytes),
                "{bytes}"
            );
            let chunks = shared.arena.slots.div_ceil(shared.arena.chunk);
            assert_eq!(u32::MAX - charged.0.load(SeqCst), chunks - 1, "{variant}");
        }
    });
}

#[test]
fn limit_equals_linux_if_the_budget_allows_it() {
    for (variant, enough) in [
        (Variant::Old, 48 << 20),
        (Variant::Referenced, 73 << 20),
        (Variant::Clock, 28 << 20),
    ] {
        let limit = |budget_bytes| {
            let config = BudgetConfig {
                shared_blocks: variant,
                ..BudgetConfig::new(budget_bytes, 4096)
            };
            let shared = Division::new(&config, 192).shared_blocks;
            shared.unwrap().limit_entries
        };
        assert_eq!(limit(1 << 40), Config::LINUX_LIMIT_ENTRIES);
        assert_eq!(limit(enough), Config::LINUX_LIMIT_ENTRIES, "{variant}");
        assert!(limit(enough - (1 << 20)) < Config::LINUX_LIMIT_ENTRIES);
    }
}
