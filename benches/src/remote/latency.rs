//! Waves of requests: of a mount, of the first byte of a file, and of a path.

use std::fs;

use anyhow::Result;

use crate::child;
use crate::remote::image::{TOP_FILE, chain_paths};
use crate::remote::measure::{Measure, Side};
use crate::remote::mount::Mount;
use crate::remote::network::Network;
use crate::remote::setup::{Samples, Setup};
use crate::remote::store::{Store, Traffic};
use crate::remote::worker::Job;

/// Measures a mount and the first byte of a file at the root.
pub(super) fn first_byte(setup: &Setup, network: Network, side: Side) -> Result<Samples> {
    let store = Store::of_file(&setup.image.path, network)?;
    let folder = setup.new_folder()?;
    let mut mount = Mount::default();
    match side {
        Side::LarderProfile => {
            let profile = folder.path().join("top.profile");
            first(
                setup,
                &store,
                &Mount::default().with("--profile-record", &profile),
            )?;
            mount = mount.with("--profile", profile);
        }
        Side::LarderDisk => {
            mount = mount.with("--cache-dir", folder.path().join("cache"));
            first(setup, &store, &mount)?;
        }
        _ => {}
    }
    let (mounted, read) = first(setup, &store, &mount)?;
    let mut samples = Samples::new(network, side);
    samples.count(Measure::MountWaves, mounted.waves);
    samples.count(Measure::FirstByteWaves, read.waves);
    let data_requests = mounted.data_requests + read.data_requests;
    samples.count(Measure::DataRequests, data_requests);
    let requests = mounted.requests + read.requests;
    samples.count(Measure::Revalidations, requests - data_requests);
    Ok(samples)
}

/// Mounts, and reads the first byte. Returns what each of the two requested.
fn first(setup: &Setup, store: &Store, mount: &Mount) -> Result<(Traffic, Traffic)> {
    let folder = setup.new_folder()?;
    store.take();
    let server = mount.start(&setup.larder, &store.url(), folder.path())?;
    let mounted = store.take();
    let job = Job::FirstByte(server.mountpoint().join(TOP_FILE));
    let log = folder.path().join("reader.log");
    let _: f64 = job.result(&setup.harness, child::DEADLINE, &log)?;
    let read = store.take();
    drop(server);
    // What the end of the mount requests belongs to neither.
    store.take();
    Ok((mounted, read))
}

/// Measures the waves of each further component of a path.
pub(super) fn path(setup: &Setup, network: Network) -> Result<Samples> {
    let store = Store::of_file(&setup.image.path, network)?;
    let folder = setup.new_folder()?;
    let server = Mount::default().start(&setup.larder, &store.url(), folder.path())?;
    let mut most = 0;
    let root = server.mountpoint();
    let paths = chain_paths();
    if let Some(parent) = paths.first().and_then(|path| path.parent()) {
        fs::metadata(root.join(parent))?;
    }
    for path in paths {
        store.take();
        fs::metadata(root.join(path))?;
        most = most.max(store.take().waves);
    }
    let mut samples = Samples::new(network, Side::Larder);
    samples.count(Measure::PathWaves, most);
    Ok(samples)
}
