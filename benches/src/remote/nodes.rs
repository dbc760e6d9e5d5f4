//! Many nodes that start the same program at once: what they request from the server, and how much a cache between
//! the nodes of a zone and the server requests for them.
//!
//! The simulated nodes open the image with a pack in this process, and read all that the program reads. The cache is
//! nginx. Each of its clients consists of two processes: a mount, and a reader.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use larder_block::BlockDevice;
use larder_remote::profile::Location;
use larder_remote::{ImageUrl, RemoteDevice, RemoteOptions};

use crate::measure::{as_f64, megabytes};
use crate::remote::measure::{Measure, Side};
use crate::remote::mount::Mount;
use crate::remote::network::Network;
use crate::remote::nginx;
use crate::remote::recorded::Start;
use crate::remote::setup::{Samples, Setup};
use crate::remote::starts::{Profile, ranges, replay};
use crate::remote::store::Store;

/// The number of simulated nodes that read at the same time: more would need more memory than this machine has.
const AT_ONCE: u32 = 16;

/// Measures the requests and the bytes of simulated nodes, for each node.
pub(super) fn simulated(setup: &Setup, network: Network, profile: &Profile) -> Result<Samples> {
    let store = Store::of_file(&setup.image.path, network)?;
    let packs = Store::of_file(&profile.pack, network)?;
    let mut options = RemoteOptions::default();
    options.profile = Some(Location::Url(ImageUrl::parse(&packs.url())?));
    let url = ImageUrl::parse(&store.url())?;
    let ranges = ranges(&profile.profile)?;
    let (nodes, next) = (setup.plan.nodes, AtomicU32::new(0));
    in_threads(AT_ONCE, |_| {
        let mut buf = Vec::new();
        while next.fetch_add(1, Relaxed) < nodes {
            let device = RemoteDevice::open(&url, &options)?;
            for &(offset_bytes, len_bytes) in &ranges {
                buf.resize(usize::try_from(len_bytes)?, 0);
                device.read_at(&mut buf, offset_bytes)?;
            }
        }
        Ok(())
    })?;
    let (image, pack) = (store.take(), packs.take());
    let mut samples = Samples::new(network, Side::LarderPack);
    let of_node = |sum: f64| sum / f64::from(nodes);
    let requests = as_f64(image.requests + pack.requests);
    samples.push(Measure::NodeRequests, of_node(requests));
    samples.push(
        Measure::NodeBytes,
        of_node(megabytes(image.bytes + pack.bytes)),
    );
    Ok(samples)
}

/// Measures what nginx requests from the server while processes start through it.
pub(super) fn zone(setup: &Setup, network: Network, profile: &Profile) -> Result<Samples> {
    let folder = setup.new_folder()?;
    let store = Store::of_file(&setup.image.path, network)?;
    let cache = nginx::start(folder.path(), &location(&store.url()))?;
    let url = format!("http://{}/disk.img", cache.address);
    store.take();
    let began = Instant::now();
    in_threads(setup.plan.processes, |number| {
        let folder = folder.path().join(format!("process-{number}"));
        let mount = Mount::default().with("--profile", &profile.profile);
        let server = mount.start(&setup.larder, &url, &folder)?;
        replay(
            setup,
            Side::LarderProfile,
            Start::Python,
            (server.mountpoint(), &folder),
        )?;
        Ok(())
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let sent = store.take();
    ensure!(sent.requests > 0, "the cache requested nothing");
    let mut samples = Samples::new(network, Side::LarderProfile);
    samples.count(Measure::ZoneRequests, sent.requests);
    samples.push(Measure::ZoneBytes, megabytes(sent.bytes));
    samples.push(Measure::ZoneStart, seconds);
    Ok(samples)
}

/// Runs `work` in `count` threads, each with its number.
fn in_threads(count: u32, work: impl Fn(u32) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok(())
    })
}

/// Returns nginx's `location` of a cache that stores the image in parts of 1 MiB. Each part is requested once, even if
/// several clients need it at once.
fn location(upstream: &str) -> String {
    format!(
        "location = /disk.img {{
            slice 1m;
            proxy_cache images;
            proxy_cache_lock on;
            proxy_cache_key $uri$slice_range;
            proxy_set_header Range $slice_range;
            proxy_set_header Connection \"\";
            proxy_http_version 1.1;
            proxy_cache_valid 200 206 1h;
            proxy_pass {upstream};
        }}"
    )
}
