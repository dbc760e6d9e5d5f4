//! Tests of single readers and small groups with predictable results.

use std::cell::RefCell;
use std::iter;
use std::rc::Rc;
use std::time::Duration;

use larder_lab::simulator::{FileSpec, PAGE_BYTES};
use larder_lab::workload::{Jobs, OpenFileId, Operation, ReaderJob};
use larder_readahead::PolicyName;

use crate::support::{KIB, MIB, jobs, read, run_checked, run_named, sequential, simulator, thread};

#[test]
fn sequential_reader_of_an_instant_device_hits_after_the_first_page() {
    for policy in [PolicyName::OnDemand, PolicyName::Modern] {
        for request_bytes in [4 * KIB, 64 * KIB] {
            let mut simulator = simulator(policy, "instant", 64 * MIB);
            let files = simulator.add_files(&[16 * MIB]).unwrap();
            let reader = thread(sequential(0, 16 * MIB, request_bytes));
            let report = run_checked(&mut simulator, jobs(&files, vec![reader]), &[16 * MIB]);
            let pages = report.pages;
            // Only the first page of the first request is neither cached nor in flight. A later page
            // can be in flight because the reader is as fast as the device.
            assert_eq!(
                pages.page_misses - pages.page_misses_in_flight,
                1,
                "{policy}"
            );
            assert!(pages.page_misses_in_flight <= 1, "{policy} {pages:?}");
            assert_eq!(pages.pages_wasted, 0, "{policy}");
        }
    }
}

#[test]
fn sequential_reader_reads_each_byte_of_the_device_once() {
    for policy in PolicyName::ALL {
        let report = run_named("sequential:file=16M", *policy, "sata-2007", 64 * MIB);
        assert_eq!(report.device_read_bytes, 16 * MIB, "{policy}");
        assert_eq!(report.bytes_read, 16 * MIB, "{policy}");
        let mean_bytes = report.mean_device_read_bytes();
        if *policy == PolicyName::Off {
            assert!((mean_bytes - 65536.0).abs() < 1.0, "{mean_bytes}");
        } else {
            assert!(mean_bytes > 300_000.0, "{policy}: {mean_bytes}");
        }
    }
}

#[test]
fn reader_of_a_cached_file_causes_no_device_reads() {
    for policy in PolicyName::ALL {
        let mut simulator = simulator(*policy, "sata-2007", 64 * MIB);
        let files = simulator.add_files(&[8 * MIB]).unwrap();
        let pass = || jobs(&files, vec![thread(sequential(0, 8 * MIB, 64 * KIB))]);
        simulator.run(pass());
        let again = simulator.run(pass());
        assert_eq!(
            (again.device_reads, again.pages.page_misses),
            (0, 0),
            "{policy}"
        );
        simulator.evict(files[0]);
        let cold = simulator.run(pass());
        assert_eq!(cold.device_read_bytes, 8 * MIB, "{policy}");
    }
}

#[test]
fn concurrent_readers_of_one_page_share_one_device_read() {
    let mut simulator = simulator(PolicyName::Off, "sata-2007", MIB);
    let files = simulator.add_files(&[MIB]).unwrap();
    let readers = (0..5).map(|_| thread([read(0, 0, PAGE_BYTES)])).collect();
    let report = run_checked(&mut simulator, jobs(&files, readers), &[MIB]);
    assert_eq!(report.device_reads, 1);
    assert_eq!(report.pages.page_misses, 5);
    assert_eq!(report.pages.page_misses_in_flight, 4);
}

#[test]
fn request_past_the_end_of_the_file_is_shortened() {
    let size_bytes = 3 * PAGE_BYTES + 100;
    for policy in PolicyName::ALL {
        let mut simulator = simulator(*policy, "nvme", MIB);
        let files = simulator.add_files(&[size_bytes, 0]).unwrap();
        let reader = thread([
            read(0, PAGE_BYTES, 64 * KIB),
            read(0, size_bytes, 10),
            read(0, u64::MAX, u64::MAX),
            read(1, 0, 10),
            read(0, 0, 0),
        ]);
        let report = simulator.run(jobs(&files, vec![reader]));
        assert_eq!(report.bytes_read, size_bytes - PAGE_BYTES, "{policy}");
        assert_eq!(report.requests, 5);
        assert_eq!(report.pages.page_lookups, 3);
    }
}

#[test]
fn paced_reader_of_an_idle_device_gets_its_rate() {
    let mut simulator = simulator(PolicyName::OnDemand, "sata-2007", 64 * MIB);
    let files = simulator.add_files(&[8 * MIB]).unwrap();
    let reader = ReaderJob {
        start: Duration::from_millis(500),
        interval: Duration::from_millis(100),
        operations: Box::new(sequential(0, 8 * MIB, 4 * KIB).into_iter()),
    };
    let report = simulator.run(Jobs {
        stop_after: Some(Duration::from_secs(4)),
        ..jobs(&files, vec![reader])
    });
    // From 0.5 s to 3.9 s.
    assert_eq!(report.requests, 35);
    let seconds: Vec<_> = report.samples.iter().map(|sample| sample.streams).collect();
    assert_eq!(seconds, [1, 1, 1, 1]);
    let in_second = |at: usize| report.samples[at].throughput_bytes_s;
    assert!((in_second(0) - 5.0 * 4096.0).abs() < 1.0);
    assert!((in_second(1) - 10.0 * 4096.0).abs() < 1.0);
}

#[test]
fn late_reader_continues_without_catching_up() {
    let mut simulator = simulator(PolicyName::Off, "network-1ms", 64 * MIB);
    let files = simulator.add_files(&[8 * MIB]).unwrap();
    // Every second request is cached. The others take longer than the interval.
    let operations = (0..50).flat_map(|page| [read(0, page * PAGE_BYTES, 10); 2]);
    let reader = ReaderJob {
        start: Duration::ZERO,
        interval: Duration::from_micros(800),
        operations: Box::new(operations),
    };
    let report = run_checked(&mut simulator, jobs(&files, vec![reader]), &[8 * MIB]);
    let least = Duration::from_micros(49 * (1000 + 800));
    assert!(report.elapsed > least, "{:?}", report.elapsed);
}

#[test]
fn processors_are_shared_by_running_threads() {
    let elapsed = |threads: u32| {
        let mut simulator = simulator(PolicyName::Off, "instant", 64 * MIB);
        let files = simulator.add_files(&[MIB]).unwrap();
        let pass = |_| thread(sequential(0, MIB, 64 * KIB));
        simulator.run(jobs(&files, vec![pass(0)]));
        simulator
            .run(jobs(&files, (0..threads).map(pass).collect()))
            .elapsed
    };
    let one = elapsed(1);
    assert_eq!(elapsed(2), one, "one for each of two processors");
    let (four, eight) = (elapsed(4), elapsed(8));
    assert!(
        four > one * 19 / 10 && four < one * 21 / 10,
        "{one:?} {four:?}"
    );
    assert!(
        eight > one * 39 / 10 && eight < one * 41 / 10,
        "{one:?} {eight:?}"
    );
}

#[test]
fn think_time_uses_no_processor() {
    let mut simulator = simulator(PolicyName::Off, "instant", MIB);
    let files = simulator.add_files(&[MIB]).unwrap();
    let think = Operation::Think(Duration::from_millis(10));
    let readers = (0..20).map(|_| thread([think, read(0, 0, 10), think]));
    let report = run_checked(&mut simulator, jobs(&files, readers.collect()), &[MIB]);
    assert!(report.elapsed >= Duration::from_millis(20));
    assert!(
        report.elapsed < Duration::from_millis(21),
        "{:?}",
        report.elapsed
    );
    assert_eq!(report.requests, 20);
}

#[test]
fn run_of_many_days_has_a_day_of_samples() {
    let mut simulator = simulator(PolicyName::Off, "instant", MIB);
    let files = simulator.add_files(&[MIB]).unwrap();
    let day = Operation::Think(Duration::from_hours(24));
    let reader = thread([day, day, read(0, 0, 100), day]);
    let report = run_checked(&mut simulator, jobs(&files, vec![reader]), &[MIB]);
    assert_eq!(report.samples.len(), 86_400 + 1);
    assert!(report.elapsed > Duration::from_hours(72));
}

#[test]
fn readers_get_scarce_memory_in_order_of_arrival() {
    const READERS: u64 = 50;
    let mut simulator = simulator(PolicyName::Off, "network-1ms", PAGE_BYTES);
    let files = simulator.add_files(&[MIB]).unwrap();
    let ended = Rc::new(RefCell::new(Vec::new()));
    let readers = (0..READERS).map(|number| {
        let ended = Rc::clone(&ended);
        // When the second operation is drawn, the first is done.
        let end = iter::from_fn(move || {
            ended.borrow_mut().push(number);
            None
        });
        thread(iter::once(read(0, number * PAGE_BYTES, PAGE_BYTES)).chain(end))
    });
    run_checked(&mut simulator, jobs(&files, readers.collect()), &[MIB]);
    assert!(ended.borrow().iter().copied().eq(0..READERS), "{ended:?}");
}

#[test]
fn evicted_file_is_read_again() {
    let mut simulator = simulator(PolicyName::OnDemand, "nvme", MIB);
    let files = simulator.add_files(&[MIB]).unwrap();
    let evict = Operation::Evict {
        file: OpenFileId(0),
    };
    let reader = thread([read(0, 0, 100), read(0, 0, 100), evict, read(0, 0, 100)]);
    let report = simulator.run(jobs(&files, vec![reader]));
    assert_eq!((report.pages.page_hits, report.pages.page_misses), (1, 2));
}

#[test]
fn file_larger_than_the_device_is_rejected() {
    let mut simulator = simulator(PolicyName::Off, "instant", MIB);
    let size_bytes = simulator.config().device.size_bytes.value;
    let at = |device_offset_bytes, size_bytes| FileSpec {
        size_bytes,
        device_offset_bytes,
    };
    assert!(simulator.add_file(at(0, size_bytes / 4096 * 4096)).is_ok());
    assert!(simulator.add_file(at(4096, size_bytes)).is_err());
    assert!(simulator.add_file(at(u64::MAX, 1)).is_err());
    let error = simulator.add_file(at(0, u64::MAX)).unwrap_err();
    assert!(
        error.to_string().contains("does not fit on instant"),
        "{error}"
    );
}
