//! Tests the operations of each workload, without running it.

use std::collections::BTreeMap;
use std::time::Duration;

use larder_instruments::simulated::DeviceModel;
use larder_lab::simulator::{CpuModel, PAGE_BYTES, Simulator, SimulatorConfig};
use larder_lab::workload::{Jobs, Operation, Workload};
use larder_readahead::PolicyName;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Returns the readers of a workload.
fn jobs_of(text: &str) -> Jobs {
    jobs_of_on(text, "instant")
}

fn jobs_of_on(text: &str, device: &str) -> Jobs {
    let workload = Workload::named(text).unwrap();
    let mut simulator = Simulator::new(SimulatorConfig {
        policy: PolicyName::Off,
        device: *DeviceModel::named(device).unwrap(),
        memory_bytes: MIB,
        readahead_max_bytes: MIB,
        seed: 1,
        cpu: CpuModel::default(),
    })
    .unwrap();
    let files = simulator.add_files(&workload.file_sizes()).unwrap();
    workload.jobs(&files, 1)
}

/// Returns all operations, one reader after the other.
fn operations(text: &str) -> Vec<Operation> {
    let readers = jobs_of(text).readers;
    readers
        .into_iter()
        .flat_map(|reader| reader.operations)
        .collect()
}

/// Returns the file, offset and length of each read.
fn reads(text: &str) -> Vec<(u32, u64, u64)> {
    let place = |operation| match operation {
        Operation::Read {
            file,
            offset_bytes,
            len_bytes,
        } => Some((file.0, offset_bytes, len_bytes)),
        _ => None,
    };
    operations(text).into_iter().filter_map(place).collect()
}

/// Verifies that the sorted reads are contiguous and cover one file exactly once.
fn assert_covers_once(mut reads: Vec<(u64, u64)>, size_bytes: u64, what: &str) {
    reads.sort_unstable();
    let mut end_bytes = 0;
    for (offset_bytes, len_bytes) in reads {
        assert_eq!(offset_bytes, end_bytes, "{what}: a gap or an overlap");
        end_bytes += len_bytes;
    }
    assert!(
        end_bytes >= size_bytes && end_bytes < size_bytes + MIB,
        "{what}"
    );
}

#[test]
fn workloads_that_read_a_file_once_cover_it_once() {
    for text in [
        "sequential:file=10M,request=12K",
        "reverse:file=10M",
        "stride:file=10M,request=20K",
        "random:file=10M,request=8K,requests=1280",
        "interleaved:file=10M,streams=7,request=24K",
        "interleaved:file=1M,streams=200,request=64K",
        "shared:file=10M,streams=3",
        "ml-epoch:file=10M,workers=3",
    ] {
        let places = reads(text).into_iter().map(|(_, at, len)| (at, len));
        let size_bytes = Workload::named(text).unwrap().file_sizes()[0];
        assert_covers_once(places.collect(), size_bytes, text);
    }
}

#[test]
fn requests_follow_the_pattern() {
    let records = |text: &str| -> Vec<u64> {
        reads(text)
            .into_iter()
            .map(|(_, at, _)| at / (64 * KIB))
            .collect()
    };
    assert_eq!(records("sequential:file=256K"), [0, 1, 2, 3]);
    assert_eq!(records("reread:file=192K"), [0, 1, 2, 0, 1, 2]);
    assert_eq!(records("reverse:file=256K"), [3, 2, 1, 0]);
    assert_eq!(records("stride:file=384K,stride=4"), [0, 4, 1, 5, 2, 3]);
    let random = records("random:file=64M,request=64K,requests=1024");
    let steps = random.windows(2).filter(|pair| pair[1] == pair[0] + 1);
    assert!(steps.count() < 10, "random requests in a row");
}

#[test]
fn mixed_workload_reads_in_even_threads_and_writes_in_odd_ones() {
    let jobs = jobs_of("mixed:file=1M,requests=5,threads=4");
    for (number, reader) in jobs.readers.into_iter().enumerate() {
        let is_read = |operation| matches!(operation, Operation::Read { .. });
        let kinds: Vec<bool> = reader.operations.map(is_read).collect();
        assert_eq!(kinds, [number % 2 == 0; 5]);
    }
}

#[test]
fn streams_start_in_turn_at_their_rate() {
    let jobs = jobs_of("streams:streams=3,rate=100K,request=4K,file=8K");
    let starts: Vec<_> = jobs.readers.iter().map(|reader| reader.start).collect();
    assert_eq!(starts, [0, 1, 2].map(Duration::from_secs));
    assert!(
        jobs.readers
            .iter()
            .all(|reader| reader.interval == Duration::from_millis(40))
    );
    assert_eq!(jobs.stop_after, Some(Duration::from_secs(3)));
    assert_eq!(jobs.open_files.len(), 3);
    let first = jobs.readers.into_iter().next().unwrap();
    assert_eq!(
        first.operations.take(100).count(),
        100,
        "the operations are endless"
    );
}

#[test]
fn file_test_keeps_three_reads_to_two_writes() {
    let (mut reads, mut writes, mut flushes) = (0u64, 0u64, 0u64);
    for operation in operations("fileio:threads=1,requests=1000,total=64M,files=8") {
        match operation {
            Operation::Read { .. } => reads += 1,
            Operation::Write { .. } => writes += 1,
            Operation::Flush { .. } => flushes += 1,
            other => panic!("{other:?}"),
        }
        assert!((reads * 2).abs_diff(writes * 3) <= 3, "{reads} {writes}");
    }
    assert_eq!((reads + writes, flushes), (1000, 10 * 8));
}

#[test]
fn transactions_favour_the_middle_of_the_table_and_some_consecutive_pages() {
    let reads = reads("oltp:transactions=1000");
    let page = |at: u64| at / (4 * PAGE_BYTES);
    assert!(
        reads
            .iter()
            .all(|(_, at, len)| at % len == 0 && *len == 4 * PAGE_BYTES)
    );
    // One hundredth of the table, in its middle.
    let pages = page(2400 * MIB);
    let is_hot = |at: u64| page(at).abs_diff(pages / 2) <= pages / 200 + 1;
    let hot = reads.iter().filter(|(_, at, _)| is_hot(*at)).count();
    assert!(
        hot * 100 > reads.len() * 70 && hot * 100 < reads.len() * 85,
        "{hot} of {}",
        reads.len()
    );
    let in_a_row = reads
        .windows(2)
        .filter(|pair| page(pair[1].1) == page(pair[0].1) + 1);
    let in_a_row = in_a_row.count();
    assert!(
        in_a_row * 100 > reads.len() * 20 && in_a_row * 100 < reads.len() * 40,
        "{in_a_row}"
    );
}

#[test]
fn memory_of_a_transaction_is_independent_of_the_table_size() {
    // The complete list would have some 800 million reads.
    let jobs = jobs_of_on(
        "oltp:file=900G,rows=1000000,range=1000000,transactions=1",
        "object-30ms",
    );
    let reader = jobs.readers.into_iter().next().unwrap();
    assert_eq!(reader.operations.take(1000).count(), 1000);
}

#[test]
fn epoch_records_have_100_to_200_kib_in_a_new_order_each_time() {
    let reads = reads("ml-epoch:file=64M,workers=1,epochs=2");
    assert!(
        reads
            .iter()
            .all(|(_, _, len)| (100 * KIB..=200 * KIB).contains(len))
    );
    let (first, second) = reads.split_at(reads.len() / 2);
    assert_ne!(first, second);
    let sorted = |reads: &[(u32, u64, u64)]| {
        let mut reads = reads.to_vec();
        reads.sort_unstable();
        reads
    };
    assert_eq!(sorted(first), sorted(second));
}

#[test]
fn tar_files_have_the_requested_mean_size() {
    let sizes = Workload::named("tar:files=2000,size=100K")
        .unwrap()
        .file_sizes();
    let mean = sizes.iter().sum::<u64>() / 2000;
    assert!(mean.abs_diff(100 * KIB) < 10 * KIB, "{mean}");
    let mut read_bytes = BTreeMap::new();
    for (file, _, len) in reads("tar:files=50,size=100K") {
        *read_bytes.entry(file).or_insert(0) += len;
    }
    assert!(read_bytes.into_values().eq(sizes[..50].iter().copied()));
}
