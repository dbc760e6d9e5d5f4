//! Measures the simulator's page accesses per second of processor time.
//!
//! `cargo bench -p larder-lab --bench simulate` runs the cases below. If workloads are given as
//! arguments, these workloads are run instead, on `sata-2007` with 128 MiB. Under the tests, all cases
//! run with tiny sizes. Counts are asserted, while time is only reported. An access is one page of one
//! request, read or written.

use std::time::Duration;

use larder_instruments::simulated::DeviceModel;
use larder_lab::run_report::RunReport;
use larder_lab::simulator::{CpuModel, PAGE_BYTES, Simulator, SimulatorConfig};
use larder_lab::workload::Workload;
use larder_readahead::PolicyName;
use rustix::time::{ClockId, clock_gettime};

/// Workload, device, memory in MiB.
const CASES: &[(&str, &str, u64)] = &[
    ("sequential:file=1G", "instant", 2048),
    ("sequential:file=1G", "sata-2007", 2048),
    ("sequential:file=4G", "sata-2007", 128),
    ("sequential:file=1G,request=4K", "nvme", 128),
    ("reread:file=1G", "sata-2007", 2048),
    ("random:requests=200000", "sata-2007", 128),
    ("random:requests=1000000", "nvme", 2048),
    ("interleaved:streams=64", "sata-2007", 128),
    ("streams", "sata-2007", 128),
    ("fileio:threads=64", "sata-2007", 2048),
    ("oltp:threads=16", "sata-2007", 2048),
    ("seqwrite:file=4G", "sata-2007", 2048),
    ("ml-epoch", "object-30ms", 2048),
    ("mmap", "nvme", 2048),
    ("tar", "sata-2007", 2048),
];

/// The same cases with tiny sizes.
const TINY_CASES: &[(&str, &str, u64)] = &[
    ("reread:file=8M", "sata-2007", 16),
    ("random:requests=100", "nvme", 1),
    ("streams:streams=3", "sata-2007", 1),
    (
        "fileio:threads=4,requests=300,total=8M,files=4",
        "sata-2007",
        4,
    ),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let own: Vec<&str> = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .map(String::as_str)
        .collect();
    for workload in &own {
        run(workload, "sata-2007", 128);
    }
    if own.is_empty() {
        let cases = if is_bench { CASES } else { TINY_CASES };
        for (workload, device, memory_mib) in cases {
            run(workload, device, *memory_mib);
        }
    }
}

fn run(workload: &str, device: &str, memory_mib: u64) {
    println!("{workload} on {device}, {memory_mib} MiB");
    for policy in PolicyName::ALL {
        let began = processor_time();
        let report = simulate(workload, device, memory_mib, *policy);
        let took = processor_time().saturating_sub(began);
        let accesses = report.pages.page_lookups + report.bytes_written / PAGE_BYTES;
        println!(
            "  {policy:9} {accesses:9} accesses in {:6.2} s: {:5.2} million per second; \
             virtual {:8.2} s, {:7.2} MB/s, {} reads of {:.0} KiB, {} ahead, {} wasted, hit rate {:.3}",
            took.as_secs_f64(),
            f64::from(u32::try_from(accesses).unwrap_or(u32::MAX)) / took.as_secs_f64() / 1e6,
            report.elapsed.as_secs_f64(),
            report.throughput_bytes_s() / 1e6,
            report.device_reads,
            report.mean_device_read_bytes() / 1024.0,
            report.pages.pages_ahead,
            report.pages.pages_wasted,
            report.hit_rate(),
        );
    }
}

/// Returns the processor time of this thread, which does not include other threads.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime)
        .try_into()
        .unwrap_or_default()
}

fn simulate(workload: &str, device: &str, memory_mib: u64, policy: PolicyName) -> RunReport {
    let workload = Workload::named(workload).unwrap();
    let mut simulator = Simulator::new(SimulatorConfig {
        policy,
        device: *DeviceModel::named(device).unwrap(),
        memory_bytes: memory_mib << 20,
        readahead_max_bytes: 1 << 20,
        seed: 1,
        cpu: CpuModel::default(),
    })
    .unwrap();
    let files = simulator.add_files(&workload.file_sizes()).unwrap();
    let report = simulator.run(workload.jobs(&files, 1));
    let pages = report.pages;
    assert_eq!(pages.page_hits + pages.page_misses, pages.page_lookups);
    assert!(pages.pages_used + pages.pages_wasted <= pages.pages_ahead);
    assert!(simulator.cached_pages() <= (memory_mib << 20) / PAGE_BYTES);
    report
}
