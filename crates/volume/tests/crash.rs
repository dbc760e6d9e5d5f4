//! The power cut at every write of seeded workloads: see [`larder_testkit::crash`].
//!
//! `LARDER_SEED` replaces the seed of every workload. With `LARDER_CRASH=full` (`make crash`)
//! every write boundary is looked at, and many reorderings at each; else a few thousand states.

use larder_testkit::crash::{Plan, Tally, layout, report};
use larder_testkit::operation::Mix;
use larder_testkit::{Requirement, Seed, skip};

const OPERATIONS: usize = 500;
const MIX: Mix = Mix {
    most_nodes: 60,
    most_bytes: 1 << 20,
    syncs_one_in: 6,
    reopens: false,
    far: true,
};

/// Some hundred states a layout.
const SHORT: Plan = Plan {
    every: 2,
    reorderings: 2,
    check_every: 4,
    replay_every: 40,
    again_every: 40,
};

/// All boundaries.
const FULL: Plan = Plan {
    every: 1,
    reorderings: 3,
    check_every: 1,
    replay_every: 8,
    again_every: 8,
};

/// States that the full run looks at, at least, on each layout.
const FULL_STATES: usize = 12_500;

fn survive(name: &str, number: u64) {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let layout = layout(name).unwrap_or_else(|| panic!("no layout {name}"));
    let is_full = std::env::var("LARDER_CRASH").is_ok_and(|value| value == "full");
    let plan = if is_full { FULL } else { SHORT };
    let mut total = Tally::default();
    let mut part = 0;
    while part == 0 || (is_full && total.states < FULL_STATES) {
        let seed = Seed::from_environment(0x4000 + number).part(part);
        match report(layout, seed, MIX, OPERATIONS, &plan) {
            Ok(tally) => total.add(&tally),
            Err(what) => panic!("{what}"),
        }
        part += 1;
    }
    println!("{name}: {part} workloads of {OPERATIONS} operations, {total:?}");
    // A workload that writes next to nothing proves nothing.
    assert!(total.states >= 100, "{name}: {total:?}");
}

macro_rules! survives {
    ($($number:literal $test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                survive($name, $number);
            }
        )*
    };
}

survives! {
    0 ext4_survives_power_cuts "ext4"
    1 ext3_1k_survives_power_cuts "ext3-1k"
    2 ext4_1k_no_checksums_survives_power_cuts "ext4-1k-no-checksums"
    3 inline_data_survives_power_cuts "inline-data"
    4 bigalloc_survives_power_cuts "bigalloc"
    5 meta_bg_1k_survives_power_cuts "meta-bg-1k"
    6 inode_128_2k_survives_power_cuts "inode-128-2k"
    7 orphan_file_survives_power_cuts "orphan-file"
    8 small_journal_1k_survives_power_cuts "small-journal-1k"
}
