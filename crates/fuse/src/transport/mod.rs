//! The FUSE protocol: receives requests from the kernel and sends the replies.
//!
//! Only this module uses the crate `fuser`. Another transport (a ring shared with the kernel, or virtio-fs)
//! can therefore replace this module. A transport must provide [`start`] and [`Session::run`], and call
//! [`Operations`].

mod attributes;
mod capabilities;
mod filesystem;
mod ioctl;
mod linger;
mod parking;
mod workers;

use crate::mount::attach::DEVICE;
use crate::operations::Operations;
use crate::{Error, MountOptions, Result};
use filesystem::Requests;
use larder::Volume;
use parking::Parking;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use workers::Workers;

/// The maximum number of threads that receive requests, except with `-o sync`. [`Workers`] answer the
/// requests that wait for the device.
const RECEIVERS: usize = 6;

/// A connection to the kernel after the handshake.
#[derive(Debug)]
pub(crate) struct Session {
    inner: fuser::Session<Requests>,
}

/// Performs the handshake with the kernel over `device`.
pub(crate) fn start(
    volume: Arc<Volume>,
    device: OwnedFd,
    options: &MountOptions,
) -> Result<Session> {
    let all_threads = options.thread_count();
    // With `-o sync`, the threads that receive changes also wait for their commits.
    let most = if options.sync { all_threads } else { RECEIVERS };
    let threads = all_threads.min(most);
    let workers = (all_threads > 1).then(|| Workers::new(all_threads));
    let mut config = fuser::Config::default();
    config.n_threads = Some(threads);
    // If this process may open the device, each thread gets its own descriptor. If only fusermount3 may open
    // the device, all threads share one descriptor.
    config.clone_fd = threads > 1
        && OpenOptions::new()
            .read(true)
            .write(true)
            .open(DEVICE)
            .is_ok();
    // The kernel decides which users have access. It does not know `allow_root`; for this option, `fuser`
    // checks each request.
    let acl = if options.allow_root && !options.allow_other {
        fuser::SessionACL::RootAndOwner
    } else {
        fuser::SessionACL::All
    };
    config.acl = acl;
    tracing::debug!(
        threads,
        own_descriptors = config.clone_fd,
        "starting the FUSE session"
    );
    let checks_each_request = acl == fuser::SessionACL::RootAndOwner;
    let parking =
        (options.read_write && threads > 1).then(|| Parking::new(threads, device.try_clone().ok()));
    let operations = Operations::new(volume, options);
    let filesystem = Requests::new(operations, parking, workers, checks_each_request, options);
    let notifier = filesystem.notifier();
    let inner = fuser::Session::from_fd(filesystem, device, acl, config).map_err(Error::Session)?;
    notifier.get_or_init(|| inner.notifier());
    Ok(Session { inner })
}

impl Session {
    /// Answers requests, on several threads, until the volume is unmounted.
    pub(crate) fn run(self) -> Result<()> {
        self.inner.run().map_err(Error::Session)
    }
}
