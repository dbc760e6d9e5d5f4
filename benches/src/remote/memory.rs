//! Memory of a mount with many open files.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::child::DEADLINE;
use crate::measure::as_f64;
use crate::remote::image::small_file;
use crate::remote::measure::{Measure, Side};
use crate::remote::mount::{Mount, memory_bytes};
use crate::remote::network::Network;
use crate::remote::setup::{Samples, Setup};
use crate::remote::store::Store;
use crate::remote::worker::Job;
use crate::tree::BIG_FILE;

/// The caches of the mount, in bytes.
pub(super) const CACHE_BYTES: u64 = 256 << 20;

/// Reads many small files, which stay open, and then the big file. Measures the maximum memory of the server minus its
/// memory after the mount.
pub(super) fn measure(setup: &Setup, network: Network) -> Result<Samples> {
    raise_open_files()?;
    let store = Store::of_file(&setup.image.path, network)?;
    let folder = setup.new_folder()?;
    let mount = Mount::default().with("--cache-size", CACHE_BYTES.to_string());
    let server = mount.start(&setup.larder, &store.url(), folder.path())?;
    let before = memory_bytes(&server, "VmRSS")?;
    let mut opened = Vec::new();
    for number in 0..setup.plan.open_files {
        let path = server.mountpoint().join(small_file(&setup.plan, number));
        let mut file = File::open(&path).with_context(|| path.display().to_string())?;
        file.read_to_end(&mut Vec::new())?;
        opened.push(file);
    }
    let job = Job::Sequential(server.mountpoint().join(BIG_FILE));
    setup.read(&job, DEADLINE, &folder.path().join("reader.log"))?;
    let most = memory_bytes(&server, "VmHWM")?;
    drop(opened);
    let mut samples = Samples::new(network, Side::Larder);
    let grown = as_f64(most.saturating_sub(before));
    samples.push(Measure::Memory, grown / 1e6);
    Ok(samples)
}

/// Allows this process as many open files as the system permits.
fn raise_open_files() -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
