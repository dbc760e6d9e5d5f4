//! Readers of a new mount by any side: of the big file, and find(1) over the small files.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::child;
use crate::measure::as_f64;
use crate::remote::image::SMALL_FILES;
use crate::remote::measure::{Measure, Side};
use crate::remote::network::Network;
use crate::remote::opened::Opened;
use crate::remote::setup::{Samples, Setup, megabytes_per_second};
use crate::remote::store::Store;
use crate::remote::worker::Job;
use crate::tree::BIG_FILE;
use crate::work::Reading;

/// The number of readers of `interleaved-8`.
const INTERLEAVED: u32 = 8;
/// The number of threads of `random-64`.
const RANDOM_THREADS: u32 = 64;
/// The numbers of connections of the plain client. The best of them counts.
const CONNECTIONS: [u32; 3] = [4, 8, 16];

/// The length of the ranges that the plain client requests.
const RANGE_BYTES: u64 = 8 << 20;

/// Measures one reader of the big file, from start to end.
pub(super) fn sequential(setup: &Setup, network: Network, side: Side) -> Result<Samples> {
    let opened = Opened::new(setup, network, side)?;
    let job = Job::Sequential(opened.root().join(BIG_FILE));
    rate(setup, (network, side), &opened, Measure::Sequential, &job)
}

/// Measures eight readers, each of its own region.
pub(super) fn interleaved(setup: &Setup, network: Network, side: Side) -> Result<Samples> {
    let opened = Opened::new(setup, network, side)?;
    let job = Job::Interleaved {
        file: opened.root().join(BIG_FILE),
        readers: INTERLEAVED,
    };
    rate(setup, (network, side), &opened, Measure::Interleaved8, &job)
}

fn rate(
    setup: &Setup,
    (network, side): (Network, Side),
    opened: &Opened,
    measure: Measure,
    job: &Job,
) -> Result<Samples> {
    let reading = read(setup, side, opened, job)?;
    let mut samples = Samples::new(network, side);
    samples.push(
        measure,
        megabytes_per_second(reading.bytes, reading.seconds),
    );
    Ok(samples)
}

fn read(setup: &Setup, side: Side, opened: &Opened, job: &Job) -> Result<Reading> {
    setup.read(job, setup.deadline(side), &opened.log("reader.log"))
}

/// Measures the plain client, which receives as many bytes as the big file has and discards them.
pub(super) fn plain(setup: &Setup, network: Network) -> Result<Samples> {
    let mut most: f64 = 0.0;
    for connections in CONNECTIONS {
        let store = Store::of_file(&setup.image.path, network)?;
        let job = Job::Plain {
            address: store.address(),
            bytes: setup.plan.big_file_bytes,
            range_bytes: RANGE_BYTES,
            connections,
        };
        let folder = setup.new_folder()?;
        let log = folder.path().join("reader.log");
        let reading = setup.read(&job, child::DEADLINE, &log)?;
        most = most.max(megabytes_per_second(reading.bytes, reading.seconds));
    }
    let mut samples = Samples::new(network, Side::Plain);
    samples.push(Measure::Sequential, most);
    Ok(samples)
}

/// Measures random reads of the big file, first by one thread, and then of other pages by many.
pub(super) fn random(setup: &Setup, network: Network, side: Side) -> Result<Samples> {
    let opened = Opened::new(setup, network, side)?;
    let mut samples = Samples::new(network, side);
    for (measure, run, threads, reads_each) in [
        (Measure::Random1, 1, 1, setup.plan.random_reads),
        (
            Measure::Random64,
            2,
            RANDOM_THREADS,
            setup.plan.random_reads_each,
        ),
    ] {
        let job = Job::Random {
            file: opened.root().join(BIG_FILE),
            run,
            threads,
            reads_each,
        };
        opened.store.take();
        let reading = read(setup, side, &opened, &job)?;
        let sent = opened.store.take().bytes;
        samples.push(measure, as_f64(reading.bytes >> 12) / reading.seconds);
        if measure == Measure::Random64 {
            samples.push(Measure::RandomBytes, as_f64(sent) / as_f64(reading.bytes));
            let rate = megabytes_per_second(sent, reading.seconds);
            samples.push(Measure::RandomRate, rate);
        }
    }
    Ok(samples)
}

/// Measures find(1) over the small files.
pub(super) fn find(setup: &Setup, network: Network, side: Side) -> Result<Samples> {
    let opened = Opened::new(setup, network, side)?;
    let mut command = Command::new(child::find("find")?);
    command.arg(opened.root().join(SMALL_FILES));
    command.args(["-printf", "%s %P\\n"]);
    let mut names = 0;
    opened.store.take();
    let deadline = setup.deadline(side);
    let seconds = child::run_for(deadline, command, &opened.log("find.log"), |block| {
        names += block.split(|byte| *byte == b'\n').count() as u64 - 1;
    })?;
    let waves = opened.store.take().waves;
    let expected = setup.image.names;
    ensure!(names == expected, "find listed {names} of {expected} names");
    let mut samples = Samples::new(network, side);
    samples.count(Measure::FindWaves, waves);
    samples.push(Measure::Find, seconds);
    Ok(samples)
}
