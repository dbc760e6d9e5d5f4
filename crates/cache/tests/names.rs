//! Tests that names do not share a bucket even if the author of an image chose them for this
//! purpose.

use larder_block::MemoryDevice;
use larder_cache::Caches;
use larder_cache::budget::BudgetConfig;
use larder_cache::dentry::Dentry;
use std::sync::Arc;

const NAMES: u32 = 5000;
/// With as many buckets as names, the longest chain of a random distribution has 7 or 8 names, and
/// 12 only once in 50,000 times.
const LONGEST_CHAIN: u64 = 12;

const SEEDS: [[u64; 2]; 4] = [
    [0, 0],
    [u64::MAX, u64::MAX],
    [0x0123_4567_89ab_cdef, 0x1032_5476_98ba_dcfe],
    [0x9e37_79b9_7f4a_7c15, 0x7c5f_c1c6_0476_b225],
];

fn longest_chain(seed: [u64; 2], names: impl Iterator<Item = (u32, Vec<u8>)>) -> u64 {
    let device = Arc::new(MemoryDevice::new(vec![0; 1 << 20]));
    let config = BudgetConfig {
        name_seed: seed,
        ..BudgetConfig::new(6 << 20, 4096)
    };
    let caches: Caches = Caches::new(&config, device).unwrap();
    for (parent, name) in names {
        caches.dentries.insert(parent, &name, Dentry::Negative);
        assert_eq!(caches.dentries.get(parent, &name), Some(Dentry::Negative));
    }
    caches.check_invariants();
    let histogram = caches.dentries.report().histogram;
    assert_eq!(histogram.objects(), NAMES.into());
    histogram.longest_chain()
}

/// Returns eight bytes, none of which is zero.
fn eight_bytes(number: u32) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

#[test]
fn names_with_a_crafted_factor_of_zero_do_not_share_a_bucket() {
    /// The constant that the hash function xors with words if the seed is 0.
    const WORDS: u64 = 0x2d35_8dcc_aa6c_78a5;
    for seed in SEEDS {
        for zero in [WORDS, WORDS ^ seed[0]] {
            let zero = zero.to_le_bytes();
            assert!(!zero.contains(&0), "a name of {zero:x?}");
            for before in 0..2 {
                let names = (0..NAMES).map(|number| {
                    let parts = [vec![b'x'; before * 8], eight_bytes(number), zero.to_vec()];
                    (2, parts.concat())
                });
                let longest = longest_chain(seed, names);
                assert!(longest <= LONGEST_CHAIN, "{longest} of seed {seed:x?}");
            }
        }
    }
}

#[test]
fn equal_names_in_many_directories_do_not_share_a_bucket() {
    /// A step between directory numbers. `Hash64`, which has no seed, would put these directories into few
    /// buckets.
    const CLUSTERING: u32 = 0x02d0_9bd1;
    for seed in SEEDS {
        for step in [1, 2, 16, 8192, CLUSTERING] {
            let names = (1..=NAMES).map(|i| (i.wrapping_mul(step), b"same".to_vec()));
            let longest = longest_chain(seed, names);
            assert!(
                longest <= LONGEST_CHAIN,
                "{longest} of seed {seed:x?}, step {step}"
            );
        }
    }
}

#[test]
fn seeds_differ_by_default() {
    let [a, b] = [(); 2].map(|()| BudgetConfig::new(1 << 20, 4096).name_seed);
    assert_ne!(a, b);
}
