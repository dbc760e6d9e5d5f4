//! Small random workloads in little memory: each one ends with consistent counts.

use std::time::Duration;

use larder_lab::simulator::PAGE_BYTES;
use larder_lab::workload::{Jobs, OpenFileId, Operation, ReaderJob};
use larder_readahead::PolicyName;
use larder_testkit::proptest_config;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::{run_checked, simulator};

/// The first seed of the properties, unless `LARDER_SEED` is set. Each property prints the seed
/// that it used.
const SEED: u64 = 2007;

/// Sizes of the open files, two of which are the same file.
const SIZES: [u64; 3] = [300 * PAGE_BYTES + 17, 40 * PAGE_BYTES, 40 * PAGE_BYTES];

fn operation() -> impl Strategy<Value = Operation> {
    let place = (0..3u32, 0..320 * PAGE_BYTES, 0..30 * PAGE_BYTES);
    let aligned = (0..3u32, 0..64u64, 1..8u64);
    prop_oneof![
        4 => place.clone().prop_map(|(file, offset_bytes, len_bytes)| Operation::Read {
            file: OpenFileId(file), offset_bytes, len_bytes,
        }),
        4 => aligned.clone().prop_map(|(file, page, pages)| Operation::Read {
            file: OpenFileId(file), offset_bytes: page * PAGE_BYTES, len_bytes: pages * PAGE_BYTES,
        }),
        2 => place.clone().prop_map(|(file, offset_bytes, len_bytes)| Operation::Write {
            file: OpenFileId(file), offset_bytes, len_bytes,
        }),
        3 => aligned.prop_map(|(file, page, pages)| Operation::Write {
            file: OpenFileId(file), offset_bytes: page * PAGE_BYTES, len_bytes: pages * PAGE_BYTES,
        }),
        2 => place.prop_map(|(file, offset_bytes, _)| Operation::Fault {
            file: OpenFileId(file), offset_bytes,
        }),
        1 => (0..3u32).prop_map(|file| Operation::Flush { file: OpenFileId(file) }),
        1 => (0..3u32).prop_map(|file| Operation::Evict { file: OpenFileId(file) }),
        1 => (0..3_000_000u64).prop_map(|ns| Operation::Think(Duration::from_nanos(ns))),
    ]
}

fn reader() -> impl Strategy<Value = (u64, u64, Vec<Operation>)> {
    let start_us = prop_oneof![Just(0), 0..5000u64];
    let interval_us = prop_oneof![3 => Just(0), 1 => 0..20_000u64];
    (start_us, interval_us, vec(operation(), 0..25))
}

proptest! {
    #![proptest_config(proptest_config!(SEED, cases: 2000))]

    #[test]
    fn random_readers_in_any_memory_finish_with_consistent_counts(
        readers in vec(reader(), 1..9),
        policy in select(PolicyName::ALL),
        device in select(&["scsi-1998", "sata-2007", "nvme", "network-1ms", "object-30ms", "instant"][..]),
        memory_pages in prop_oneof![1..5u64, 5..60u64, 60..2000u64],
        stop_us in prop_oneof![3 => Just(None), 1 => (0..50_000u64).prop_map(Some)],
        runs in 1..3,
    ) {
        let mut simulator = simulator(policy, device, memory_pages * PAGE_BYTES);
        let files = simulator.add_files(&SIZES[..2]).unwrap();
        for _ in 0..runs {
            let readers = readers.iter().cloned().map(|(start_us, interval_us, operations)| {
                ReaderJob {
                    start: Duration::from_micros(start_us),
                    interval: Duration::from_micros(interval_us),
                    operations: Box::new(operations.into_iter()),
                }
            });
            let jobs = Jobs {
                open_files: vec![files[0], files[1], files[1]],
                readers: readers.collect(),
                stop_after: stop_us.map(Duration::from_micros),
            };
            run_checked(&mut simulator, jobs, &SIZES);
        }
    }
}
