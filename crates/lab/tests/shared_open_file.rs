//! Tests readers that share an open file, and thus its readahead state.

use std::time::Duration;

use larder_instruments::simulated::DeviceModel;
use larder_lab::run_report::RunReport;
use larder_lab::simulator::{CpuModel, Simulator, SimulatorConfig};
use larder_lab::workload::{Jobs, OpenFileId, Operation, ReaderJob};
use larder_readahead::PolicyName;

const REQUESTS: u64 = 100;
const REQUEST_BYTES: u64 = 16 << 10;
const HOT_BYTES: u64 = 2 << 20;

/// Runs two readers of one open file, which alternately read a cached part and a piece that no
/// other reader reads. Their first reads are omitted.
fn two_readers(policy: PolicyName) -> RunReport {
    let mut simulator = Simulator::new(SimulatorConfig {
        policy,
        device: *DeviceModel::named("network-1ms").unwrap(),
        memory_bytes: 512 << 20,
        readahead_max_bytes: 1 << 20,
        seed: 1,
        cpu: CpuModel::default(),
    })
    .unwrap();
    let open_files = simulator.add_files(&[1 << 30]).unwrap();
    let mut run = |reads: Vec<Vec<Operation>>| {
        let readers = reads.into_iter().map(|operations| ReaderJob {
            start: Duration::ZERO,
            interval: Duration::ZERO,
            operations: Box::new(operations.into_iter()),
        });
        simulator.run(Jobs {
            open_files: open_files.clone(),
            readers: readers.collect(),
            stop_after: None,
        })
    };
    let hot = || (0..HOT_BYTES / REQUEST_BYTES).map(|request| read(request * REQUEST_BYTES));
    run(vec![hot().collect()]);
    let own = |reader: u64| (1..=REQUESTS).map(move |request| (2 * request + reader) * (4 << 20));
    let both = [0, 1].map(|reader| {
        let rounds = own(reader).map(|offset_bytes| hot().chain([read(offset_bytes)]));
        rounds.flatten().collect()
    });
    run(both.into())
}

fn read(offset_bytes: u64) -> Operation {
    Operation::Read {
        file: OpenFileId(0),
        offset_bytes,
        len_bytes: REQUEST_BYTES,
    }
}

/// After many hits, 2.6.20 reads the first missing page alone, and the rest of the request in one
/// piece. Another reader must not reset this state.
#[test]
fn readers_of_one_open_file_do_not_split_each_others_requests() {
    let report = two_readers(PolicyName::Legacy);
    assert!(
        report.device_reads <= 2 * 2 * REQUESTS,
        "{}",
        report.device_reads
    );
    assert!(
        report.device_reads >= 2 * REQUESTS,
        "{}",
        report.device_reads
    );
}
