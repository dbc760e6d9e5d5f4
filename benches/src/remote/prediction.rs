//! The devices `object-30ms` and `object-tail` of the lab beside the links that they model: the same requests, simulated
//! and measured. Larder sends them for random reads of a mount, and the plain client on its own.

use anyhow::{Context, Result};
use larder_instruments::simulated::{
    DeviceModel, Request, RequestKind, SimulatedDevice, VirtualTime,
};

use crate::child::DEADLINE;
use crate::remote::measure::{Measure, Side};
use crate::remote::network::{Network, SEED};
use crate::remote::opened::Opened;
use crate::remote::setup::{Samples, Setup};
use crate::remote::store::Store;
use crate::remote::worker::Job;
use crate::tree::BIG_FILE;

/// The length of the parts of an image that Larder requests.
const UNIT_BYTES: u64 = 64 << 10;

/// The cases of the plain client: the length of a read, the number of reads at once, and the number of reads.
const CASES: [(Measure, u64, u32, u64); 4] = [
    (Measure::Predicted4K1, 4 << 10, 1, 40),
    (Measure::Predicted4K64, 4 << 10, 64, 2560),
    (Measure::Predicted128K64, 128 << 10, 64, 1280),
    (Measure::Predicted8M8, 8 << 20, 8, 64),
];

/// The measures of the cases.
pub(super) const MEASURES: [Measure; CASES.len()] =
    [CASES[0].0, CASES[1].0, CASES[2].0, CASES[3].0];

/// Measures the time of reads of the plain client, relative to the predicted time.
pub(super) fn plain(setup: &Setup, network: Network) -> Result<Samples> {
    let model = DeviceModel::named(network.name())?;
    let mut samples = Samples::new(network, Side::Plain);
    for (measure, range_bytes, connections, count) in CASES {
        let count = count.min((setup.plan.big_file_bytes / range_bytes).max(1));
        let store = Store::of_file(&setup.image.path, network)?;
        let job = Job::Plain {
            address: store.address(),
            bytes: count * range_bytes,
            range_bytes,
            connections,
        };
        let folder = setup.new_folder()?;
        let measured = setup.read(&job, DEADLINE, &folder.path().join("reader.log"))?;
        let predicted = predicted_seconds(model, (range_bytes, connections), count)
            .context("the simulation has ended early")?;
        samples.push(measure, measured.seconds / predicted);
    }
    Ok(samples)
}

/// Measures the time of random reads of a mount, relative to the predicted time of the requests that Larder sends for
/// them.
pub(super) fn mounted(setup: &Setup, network: Network) -> Result<Samples> {
    let model = DeviceModel::named(network.name())?;
    let opened = Opened::new(setup, network, Side::Larder)?;
    let mut samples = Samples::new(network, Side::Larder);
    let read = |run, threads, reads_each| -> Result<(f64, u64)> {
        let job = Job::Random {
            file: opened.root().join(BIG_FILE),
            run,
            threads,
            reads_each,
        };
        opened.store.take();
        let reading = setup.read(&job, DEADLINE, &opened.log("reader.log"))?;
        Ok((reading.seconds, opened.store.take().requests))
    };
    // The first read also needs the metadata of the file.
    read(0, 1, 1)?;
    let plan = &setup.plan;
    for (measure, run, threads, reads_each) in [
        (Measure::Predicted4K1, 1, 1, plan.random_reads),
        (Measure::Predicted4K64, 2, 64, plan.random_reads_each),
    ] {
        // Each thread has its own reads. If latencies differ, the slowest thread determines the time, and not the device.
        if threads > 1 && network == Network::ObjectTail {
            continue;
        }
        let (seconds, requests) = read(run, threads, reads_each)?;
        // In a small file, all parts may be in memory.
        if requests > 0 {
            let predicted = predicted_seconds(model, (UNIT_BYTES, threads), requests)
                .context("the simulation has ended early")?;
            samples.push(measure, seconds / predicted);
        }
    }
    Ok(samples)
}

/// Returns the simulated time of `count` reads of `len_bytes`, of which `at_once` are in flight.
fn predicted_seconds(
    model: &DeviceModel,
    (len_bytes, at_once): (u64, u32),
    count: u64,
) -> Option<f64> {
    let mut device = SimulatedDevice::new(model, SEED);
    let mut now = VirtualTime(0);
    let (mut submitted, mut completed) = (0, 0);
    while completed < count {
        while submitted < count && submitted - completed < u64::from(at_once) {
            let request = Request {
                kind: RequestKind::Read,
                process: 0,
                // Not adjacent, so that no requests are merged.
                offset_bytes: submitted * 2 * len_bytes,
                len_bytes,
            };
            device.submit(now, request);
            submitted += 1;
        }
        now = now.max(device.next_event()?);
        while device.complete(now).is_some() {
            completed += 1;
        }
    }
    Some(now.since(VirtualTime(0)).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prediction_follows_the_latency_and_the_link() {
        let model = DeviceModel::named("object-30ms").unwrap();
        let seconds =
            |len, at_once, count| predicted_seconds(model, (len, at_once), count).unwrap();
        assert!((0.3..0.31).contains(&seconds(4096, 1, 10)));
        // 1 GiB at 10 Gbit/s takes 0.86 s.
        assert!((0.86..1.1).contains(&seconds(8 << 20, 64, 128)));
    }
}
