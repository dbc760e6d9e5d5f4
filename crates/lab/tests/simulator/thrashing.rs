//! Too little memory: pages that are read ahead are evicted before their reader needs them.

use larder_lab::run_report::RunReport;
use larder_readahead::PolicyName;

use crate::support::{MIB, run_named};

/// Runs the document's test: streams of 100 KB/s in 128 MB of memory. One stream starts each second,
/// up to 200.
fn thrashing(policy: PolicyName) -> RunReport {
    run_named("streams", policy, "sata-2007", 128 * MIB)
}

fn most_throughput(report: &RunReport) -> f64 {
    let rates = report
        .samples
        .iter()
        .map(|sample| sample.throughput_bytes_s);
    rates.fold(0.0, f64::max)
}

/// Returns the smallest mean size of a device read in one second, among seconds with many reads.
fn least_mean_read(report: &RunReport) -> f64 {
    let loaded = report.samples.iter().filter(|sample| sample.streams >= 50);
    loaded
        .map(|sample| sample.mean_read_bytes)
        .fold(f64::MAX, f64::min)
}

#[test]
fn thrashing_streams_are_faster_with_ondemand_than_with_legacy() {
    let (legacy, ondemand) = (
        thrashing(PolicyName::Legacy),
        thrashing(PolicyName::OnDemand),
    );
    assert!(legacy.pages.pages_wasted > 0 && ondemand.pages.pages_wasted > 0);
    let (slow, fast) = (most_throughput(&legacy), most_throughput(&ondemand));
    println!("most throughput: {slow:.0} and {fast:.0} bytes a second");
    assert!(fast > slow * 1.5, "{slow} {fast}");
    let (small, large) = (least_mean_read(&legacy), least_mean_read(&ondemand));
    println!("least mean read: {small:.0} and {large:.0} bytes");
    assert!(large > small * 3.0, "{small} {large}");
}

#[test]
fn streams_in_less_memory_waste_more() {
    for policy in [PolicyName::Legacy, PolicyName::OnDemand, PolicyName::Modern] {
        let wasted = |memory_bytes| {
            let workload = "interleaved:file=64M,streams=32,request=16K";
            run_named(workload, policy, "sata-2007", memory_bytes)
                .pages
                .pages_wasted
        };
        let (roomy, tight) = (wasted(128 * MIB), wasted(8 * MIB));
        assert_eq!(roomy, 0, "{policy}");
        assert!(tight > 1000, "{policy}: {tight}");
    }
}
