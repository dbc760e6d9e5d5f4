//! Tests of writers: dirty memory is limited, flushes wait, and written data reaches the device
//! once.

use std::time::Duration;

use larder_lab::simulator::PAGE_BYTES;
use larder_lab::workload::Operation;
use larder_readahead::PolicyName;

use crate::support::{
    KIB, MIB, flush, jobs, read, run_checked, run_named, simulator, thread, write,
};

#[test]
fn writes_that_fit_in_memory_do_not_wait() {
    let mut simulator = simulator(PolicyName::OnDemand, "sata-2007", 64 * MIB);
    let files = simulator.add_files(&[4 * MIB]).unwrap();
    let writer = thread((0..64).map(|number| write(0, number * 64 * KIB, 64 * KIB)));
    let report = simulator.run(jobs(&files, vec![writer]));
    assert_eq!((report.device_writes, report.device_reads), (0, 0));
    assert!(report.latency.max_ns < 1_000_000, "{:?}", report.latency);
    simulator.sync();
    let after = simulator.run(jobs(&files, vec![thread([read(0, 0, 4 * MIB)])]));
    assert_eq!(after.pages.page_misses, 0, "written pages stay cached");
}

#[test]
fn writer_of_more_than_memory_is_throttled_to_the_device() {
    let mut simulator = simulator(PolicyName::OnDemand, "sata-2007", 8 * MIB);
    let files = simulator.add_files(&[64 * MIB]).unwrap();
    let writer = thread((0..1024).map(|number| write(0, number * 64 * KIB, 64 * KIB)));
    let report = simulator.run(jobs(&files, vec![writer]));
    // 40% of memory, and no less: the writer is faster than the disk.
    let limit = 8 * MIB / PAGE_BYTES * 40 / 100;
    let dirty = simulator.dirty_pages();
    assert!(dirty <= limit && dirty > limit / 2, "{dirty} of {limit}");
    assert!(report.throughput_bytes_s() < 100e6, "{report:?}");
    let mean_bytes = report.device_written_bytes / report.device_writes;
    assert!(mean_bytes > 256 * KIB, "{mean_bytes}");
    simulator.sync();
    assert_eq!(simulator.dirty_pages(), 0);
}

#[test]
fn flush_waits_for_written_data_to_reach_the_device() {
    let mut simulator = simulator(PolicyName::Off, "sata-2007", 64 * MIB);
    let files = simulator.add_files(&[MIB, MIB]).unwrap();
    let writer = thread([
        write(0, 0, 64 * KIB),
        write(1, 0, 64 * KIB),
        flush(0),
        flush(0),
    ]);
    let report = simulator.run(jobs(&files, vec![writer]));
    assert_eq!(report.device_written_bytes, 64 * KIB, "the one file only");
    assert_eq!(report.requests, 4);
    let sizes = [MIB, MIB];
    let report = run_checked(
        &mut simulator,
        jobs(&files, vec![thread([flush(1)])]),
        &sizes,
    );
    assert_eq!(report.device_written_bytes, 64 * KIB);
}

#[test]
fn only_partially_written_pages_are_read_first() {
    let mut simulator = simulator(PolicyName::OnDemand, "sata-2007", 64 * MIB);
    let size_bytes = 10 * PAGE_BYTES + 5;
    let files = simulator.add_files(&[size_bytes]).unwrap();
    let writer = thread([
        write(0, 100, 10),
        write(0, PAGE_BYTES + 1, 3 * PAGE_BYTES),
        // Up to the end of the file, whose last page is partial.
        write(0, 9 * PAGE_BYTES, PAGE_BYTES + 5),
    ]);
    let report = run_checked(&mut simulator, jobs(&files, vec![writer]), &[size_bytes]);
    assert_eq!(report.device_read_bytes, 3 * PAGE_BYTES);
}

#[test]
fn page_redirtied_during_write_back_is_written_again() {
    let mut simulator = simulator(PolicyName::Off, "sata-2007", 64 * MIB);
    let files = simulator.add_files(&[MIB]).unwrap();
    let flusher = thread([write(0, 0, PAGE_BYTES), flush(0)]);
    let writer = thread([
        Operation::Think(Duration::from_micros(50)),
        write(0, 0, PAGE_BYTES),
    ]);
    let report = simulator.run(jobs(&files, vec![flusher, writer]));
    assert_eq!(report.device_written_bytes, PAGE_BYTES);
    simulator.evict(files[0]);
    assert_eq!(simulator.cached_pages(), 1, "it is dirty again");
    let report = run_checked(
        &mut simulator,
        jobs(&files, vec![thread([flush(0)])]),
        &[MIB],
    );
    assert_eq!(report.device_written_bytes, PAGE_BYTES);
}

#[test]
fn flush_of_a_page_under_write_back_writes_it_again() {
    let mut simulator = simulator(PolicyName::Off, "sata-2007", 64 * MIB);
    let files = simulator.add_files(&[MIB]).unwrap();
    let first = thread([write(0, 0, PAGE_BYTES), flush(0)]);
    let second = thread([
        Operation::Think(Duration::from_micros(50)),
        write(0, 0, PAGE_BYTES),
        flush(0),
    ]);
    let report = simulator.run(jobs(&files, vec![first, second]));
    assert_eq!(report.device_written_bytes, 2 * PAGE_BYTES);
    assert_eq!(simulator.dirty_pages(), 0);
}

#[test]
fn file_test_flushes_all_files_every_hundred_requests_and_at_the_end() {
    let workload = "fileio:threads=1,requests=250,total=64M,files=4";
    let report = run_named(workload, PolicyName::OnDemand, "sata-2007", 256 * MIB);
    // After 100 and 200 requests, and at the end.
    assert_eq!(report.requests, 250 + 3 * 4);
    assert_eq!(report.bytes_read, 150 * 64 * KIB);
    assert_eq!(report.bytes_written, 100 * 64 * KIB);
    assert!(report.device_written_bytes <= report.bytes_written);
    assert!(
        report.device_written_bytes > 80 * 64 * KIB,
        "all but what was written twice"
    );
}
