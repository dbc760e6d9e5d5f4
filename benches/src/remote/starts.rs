//! Cold starts of programs: the time from the start of a mount until everything that was recorded has been read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::child;
use crate::remote::measure::{OfStart, Side};
use crate::remote::mount::Mount;
use crate::remote::network::Network;
use crate::remote::opened::Opened;
use crate::remote::recorded::{Replayed, Start};
use crate::remote::setup::{Samples, Setup};
use crate::remote::store::Store;
use crate::remote::worker::Job;

/// The profile of a start, and its pack.
#[derive(Debug)]
pub(super) struct Profile {
    pub profile: PathBuf,
    pub pack: PathBuf,
}

impl Profile {
    /// Records the profile of a start, and packs it, in `folder`.
    pub(super) fn record(setup: &Setup, start: Start, folder: &Path) -> Result<Self> {
        let own = Self {
            profile: folder.join(format!("{}.profile", start.name())),
            pack: folder.join(format!("{}.pack", start.name())),
        };
        let store = Store::of_file(&setup.image.path, Network::Local)?;
        let mount = Mount::default().with("--profile-record", &own.profile);
        let server = mount.start(&setup.larder, &store.url(), folder)?;
        replay(setup, Side::Larder, start, (server.mountpoint(), folder))?;
        drop(server);
        let mut command = Command::new(&setup.larder);
        command.args(["profile", "pack", "--cache-disk-size", "0"]);
        command.arg(&own.profile).arg(store.url()).arg(&own.pack);
        child::run(command, &folder.join("pack.log"), |_| {})?;
        Ok(own)
    }
}

/// Reads what a start reads, below `root`.
pub(super) fn replay(
    setup: &Setup,
    side: Side,
    start: Start,
    (root, folder): (&Path, &Path),
) -> Result<Replayed> {
    let job = Job::Replay(start, root.join(start.name()));
    let log = folder.join("reader.log");
    let replayed: Replayed = job.result(&setup.harness, setup.deadline(side), &log)?;
    ensure!(
        replayed.wrong_pages == 0,
        "{} pages are wrong",
        replayed.wrong_pages
    );
    Ok(replayed)
}

/// Measures a start on a new mount. The time includes the start of all servers.
pub(super) fn measure(
    setup: &Setup,
    (network, side): (Network, Side),
    start: Start,
    profile: &Profile,
) -> Result<Samples> {
    let packs = Store::of_file(&profile.pack, network)?;
    let mut mount = Mount::default();
    match side {
        Side::LarderProfile => mount = mount.with("--profile", &profile.profile),
        Side::LarderPack => mount = mount.with("--profile", packs.url()),
        _ => {}
    }
    let began = Instant::now();
    let opened = Opened::with(setup, (network, side), mount)?;
    let replayed = replay(setup, side, start, (opened.root(), opened.folder()))?;
    let seconds = began.elapsed().as_secs_f64();
    let requests = opened.store.take().requests + packs.take().requests;
    let of = OfStart::new(start);
    let mut samples = Samples::new(network, side);
    samples.push(of.time, seconds);
    samples.count(of.requests, requests);
    samples.push(of.p99, replayed.p99_ms);
    if matches!(side, Side::LarderProfile | Side::LarderPack) {
        let used = used_percent(setup, opened.root(), opened.folder())?;
        samples.push(of.used, used);
    }
    Ok(samples)
}

/// Returns the share of the bytes fetched for a profile that were used, in percent.
fn used_percent(setup: &Setup, mountpoint: &Path, folder: &Path) -> Result<f64> {
    let mut command = Command::new(&setup.larder);
    command.args(["stats", "--json"]).arg(mountpoint);
    let (_, json) = child::output_of(child::DEADLINE, command, &folder.join("stats.log"))?;
    let json: serde_json::Value = serde_json::from_slice(&json)?;
    let bytes = |name: &str| json["server"][name].as_f64().unwrap_or_default();
    let fetched = bytes("profile_bytes");
    ensure!(fetched > 0.0, "nothing was fetched for the profile");
    Ok(bytes("profile_used_bytes") / fetched * 100.0)
}

/// Returns the ranges that a profile lists: offsets and lengths.
pub(super) fn ranges(profile: &Path) -> Result<Vec<(u64, u64)>> {
    let text = fs::read_to_string(profile)?;
    let reads = text.lines().filter_map(|line| {
        let (offset, len) = line.strip_prefix("read ")?.split_once(' ')?;
        Some((offset.parse().ok()?, len.parse().ok()?))
    });
    Ok(reads.collect())
}
