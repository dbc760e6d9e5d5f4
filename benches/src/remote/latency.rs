//! Waves of requests: of a mount, of the first byte of a file, and of a path.

use std::fs;
use std::time::Instant;

use anyhow::Result;
use larder_testkit::http::waves;

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
    let first = first(setup, &store, &mount)?;
    let mut samples = Samples::new(network, side);
    samples.count(Measure::MountWaves, first.mount_waves);
    let waves = first.traffic.waves.saturating_sub(first.mount_waves);
    samples.count(Measure::FirstByteWaves, waves);
    if side != Side::LarderProfile {
        let Traffic {
            requests,
            data_requests,
            ..
        } = first.traffic;
        samples.count(Measure::DataRequests, data_requests);
        samples.count(Measure::Revalidations, requests - data_requests);
    }
    Ok(samples)
}

/// What a mount and the first byte requested.
struct First {
    /// The number of waves that were answered before the image was mounted.
    mount_waves: u32,
    /// All requests.
    traffic: Traffic,
}

/// Mounts, and reads the first byte.
fn first(setup: &Setup, store: &Store, mount: &Mount) -> Result<First> {
    let folder = setup.new_folder()?;
    store.take();
    let server = mount.start(&setup.larder, &store.url(), folder.path())?;
    let ready = Instant::now();
    let job = Job::FirstByte(server.mountpoint().join(TOP_FILE));
    let log = folder.path().join("reader.log");
    let _: f64 = job.result(&setup.harness, child::DEADLINE, &log)?;
    let exchanges = store.take_exchanges();
    drop(server);
    // Requests during the unmount are not counted.
    store.take();
    let answered = exchanges.iter().zip(waves(&exchanges));
    let of_mount = answered.filter(|(one, _)| one.answered.is_some_and(|at| at <= ready));
    Ok(First {
        mount_waves: of_mount.filter_map(|(_, wave)| wave).max().unwrap_or(0),
        traffic: Traffic::of(&exchanges),
    })
}

/// Measures the maximum number of waves of one more component of a path.
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
