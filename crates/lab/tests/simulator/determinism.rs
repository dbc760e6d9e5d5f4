//! Tests that the same seed gives byte-identical results.

use larder_instruments::simulated::DeviceModel;
use larder_lab::compare::{CompareConfig, compare};
use larder_lab::simulator::CpuModel;
use larder_lab::workload::Workload;
use larder_readahead::PolicyName;

use crate::support::{MIB, run_named};

/// A small workload of each kind, and its device.
pub const SMALL: &[(&str, &str)] = &[
    ("sequential:file=8M", "sata-2007"),
    ("reread:file=8M,request=5000", "network-1ms"),
    ("reverse:file=3M", "sata-2007"),
    ("stride:file=8M", "sata-2007"),
    ("random:file=8M,requests=300,threads=3", "sata-2007"),
    ("mixed:file=8M,requests=60,threads=4", "sata-2007"),
    ("seqwrite:file=8M,flush=1", "sata-2007"),
    ("rndwrite:file=8M,requests=60,threads=2,flush=1", "nvme"),
    ("mmap:file=8M,faults=1000", "nvme"),
    ("interleaved:file=16M,streams=5,request=12K", "sata-2007"),
    ("shared:file=16M,streams=5,request=12K", "sata-2007"),
    ("streams:streams=8,stagger=200ms,file=1M", "sata-2007"),
    (
        "fileio:threads=5,requests=250,total=16M,files=4",
        "sata-2007",
    ),
    (
        "oltp:threads=4,transactions=20,file=64M,rows=300000",
        "sata-2007",
    ),
    ("ml-epoch:file=8M,workers=3,epochs=2", "object-30ms"),
    ("tar:files=40", "nvme"),
    ("cursors:file=16M,cursors=4", "object-30ms"),
];

#[test]
fn small_workloads_include_every_kind() {
    for info in Workload::all() {
        let is_of_kind =
            |(text, _): &(&str, &str)| Workload::named(text).unwrap().name() == info.name;
        assert!(SMALL.iter().any(is_of_kind), "{}", info.name);
    }
}

#[test]
fn every_workload_and_policy_is_consistent_and_deterministic() {
    for (workload, device) in SMALL {
        for policy in PolicyName::ALL {
            for memory_bytes in [MIB, 64 * MIB] {
                let run = || {
                    let report = run_named(workload, *policy, device, memory_bytes);
                    serde_json::to_string(&report).unwrap()
                };
                assert_eq!(run(), run(), "{workload} {policy} {memory_bytes}");
            }
        }
    }
}

#[test]
fn parallel_comparison_keeps_the_requested_order_and_is_deterministic() {
    let config = CompareConfig {
        workload: Workload::named("interleaved:file=8M,streams=4").unwrap(),
        device: DeviceModel::named("sata-2007").unwrap(),
        memory_bytes: MIB,
        readahead_max_bytes: MIB,
        seed: 3,
        cpu: CpuModel::default(),
    };
    let policies: Vec<_> = PolicyName::ALL.iter().rev().copied().collect();
    let comparison = compare(&config, &policies).unwrap();
    let order: Vec<_> = comparison.reports.iter().map(|run| run.policy).collect();
    assert_eq!(order, policies);
    assert_eq!(comparison, compare(&config, &policies).unwrap());
}

#[test]
fn different_seeds_give_different_results() {
    let of_seed = |seed| {
        let config = CompareConfig {
            workload: Workload::named("random:file=64M,requests=100").unwrap(),
            device: DeviceModel::named("sata-2007").unwrap(),
            memory_bytes: MIB,
            readahead_max_bytes: MIB,
            seed,
            cpu: CpuModel::default(),
        };
        compare(&config, &[PolicyName::Off]).unwrap().reports
    };
    assert_ne!(of_seed(1)[0].elapsed, of_seed(2)[0].elapsed);
}
