//! Tests that resident memory stays within the budget. The test has a process of its own, because
//! other tests would change the measurement.

use larder_block::MemoryDevice;
use larder_cache::Caches;
use larder_cache::budget::BudgetConfig;
use larder_cache::dentry::Dentry;
use larder_cache::mbcache::Variant;
use larder_cache::page::{Entry, PageKey};
use std::sync::Arc;

/// Returns the resident memory of this process, on a machine with pages of 4 KiB.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn resident_memory_with_every_cache_full_stays_within_budget() {
    /// Memory for code that runs for the first time, counters, and wait queues.
    const SLACK_BYTES: u64 = 2 << 20;
    for (budget_bytes, block) in [(2 << 20, 1024), (16 << 20, 4096), (64 << 20, 65536)] {
        let device = Arc::new(MemoryDevice::new(vec![7; 8 << 20]));
        let before = resident_bytes();
        let config = BudgetConfig {
            shared_blocks: Variant::Referenced,
            shared_inodes: Variant::Clock,
            ..BudgetConfig::new(budget_bytes, block)
        };
        let caches: Caches = Caches::new(&config, device).unwrap();
        let untouched = resident_bytes() - before;
        assert!(untouched < SLACK_BYTES, "{untouched} bytes before any use");
        for round in 0..2 {
            for index in 0..budget_bytes / 2048 {
                if let Entry::New(mut page) = caches.pages.get_or_insert(PageKey { ino: 12, index })
                {
                    page.fill(1);
                    page.complete();
                }
                let number = u32::try_from(index).unwrap();
                for part in 0..8 {
                    let name = format!("{index}-{part}");
                    caches
                        .dentries
                        .insert(number, name.as_bytes(), Dentry::Negative);
                }
                let long = [b'x'; 200];
                caches.dentries.insert(number, &long, Dentry::Negative);
                caches.inodes.insert(number, &[1; 20]);
                caches.attributes.blocks.insert(number, index, true);
                caches.attributes.inodes.insert(number, index, true);
            }
            for number in 0..(8 << 20) / block as u64 {
                let read = caches
                    .buffers
                    .read(number, |_| Ok::<_, larder_block::Error>(()));
                assert_eq!(read.unwrap()[0], 7);
            }
            let resident = resident_bytes() - before;
            assert!(
                resident < budget_bytes + SLACK_BYTES,
                "{resident} bytes of {budget_bytes} in round {round}"
            );
        }
        caches.check_invariants();
    }
}
