//! A mounted volume and the threads that answer for it.

use crate::mount::attach::{Attached, attach};
use crate::mount::unmount::unmount_own;
use crate::transport::{self, Session};
use crate::{Error, MountEntry, MountOptions, Result, Unmounted};
use larder::Volume;
use larder_observe::{Answer, Listener};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A mounted volume.
///
/// Requests wait in the kernel until [`Server::serve`] runs. Dropped before, the
/// mount goes away.
#[derive(Debug)]
pub struct Server {
    session: Session,
    volume: Arc<Volume>,
    unmounter: Unmounter,
    kernel_readahead_bytes: u64,
    guard: Unserved,
}

/// Takes a server's mount away, from any thread.
#[derive(Clone, Debug)]
pub struct Unmounter {
    entry: MountEntry,
}

impl Unmounter {
    /// Takes the mount away, or detaches it if it is in use; then
    /// [`Server::serve`] returns once its last user is gone.
    pub fn unmount(&self) -> Result<Unmounted> {
        unmount_own(&self.entry)
    }
}

/// Takes the mount away when dropped, unless it went away while it was served.
#[derive(Debug)]
struct Unserved(Option<Unmounter>);

impl Drop for Unserved {
    fn drop(&mut self) {
        if let Some(unmounter) = self.0.take()
            && let Err(error) = unmounter.unmount()
        {
            tracing::warn!("{error}");
        }
    }
}

impl Server {
    /// Mounts `volume` on `mountpoint`.
    pub fn mount(volume: Arc<Volume>, mountpoint: &Path, options: &MountOptions) -> Result<Self> {
        if let Some(threads) = options.threads
            && threads.get() > MountOptions::MOST_THREADS
        {
            return Err(Error::TooManyThreads(threads.get()));
        }
        let Attached { device, entry } = attach(mountpoint, options)?;
        let unmounter = Unmounter { entry };
        let guard = Unserved(Some(unmounter.clone()));
        let session = transport::start(Arc::clone(&volume), device, options)?;
        Ok(Self {
            session,
            volume,
            unmounter,
            kernel_readahead_bytes: options.kernel_readahead_bytes,
            guard,
        })
    }

    /// Where the volume is mounted, as the kernel names it.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        &self.unmounter.entry.mountpoint
    }

    /// Something that can take the mount away while [`Server::serve`] runs.
    #[must_use]
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Answers requests until the mount is gone. `ready` is called once, when
    /// the threads are about to start and the statistics socket answers. What it
    /// returns is dropped when the mount is gone; if it fails, the mount goes away unserved.
    ///
    /// The volume is closed before the socket goes away, so that a socket where
    /// nobody listens tells that the image is free; whoever asked through the
    /// socket is told how the closing went, and what `end_recording` returns, which is called
    /// when the volume is closed: why not all was recorded.
    ///
    /// # Errors
    /// [`Error::Session`] if the connection to the kernel broke;
    /// [`Error::NotReady`] if `ready` failed; [`Error::Close`] if what was written
    /// could not all be brought to the image.
    pub fn serve<T>(
        self,
        ready: impl FnOnce() -> io::Result<T>,
        end_recording: impl FnOnce() -> Option<String>,
    ) -> Result<()> {
        let Self {
            session,
            volume,
            unmounter,
            kernel_readahead_bytes,
            mut guard,
        } = self;
        raise_kernel_readahead(&unmounter.entry, kernel_readahead_bytes);
        let listener = unmounter
            .entry
            .server()
            .and_then(|mount| Ok(Listener::start(&mount, Arc::downgrade(&volume))?))
            .inspect_err(|error| tracing::warn!("no statistics: {error}"));
        let outcome = match ready() {
            Ok(_served) => session.run(),
            Err(error) => {
                // Whoever waits for an answer is told that there will be none.
                drop(session);
                Err(Error::NotReady(error))
            }
        };
        if outcome.is_ok() {
            guard.0 = None;
        }
        drop(guard);
        let closed = volume.close().map_err(Error::Close);
        let unrecorded = end_recording();
        drop(volume);
        if let Ok(listener) = listener {
            listener.stop(&match (&closed, unrecorded) {
                (Err(error), _) => Answer::Closed(Some(error.to_string())),
                (Ok(()), Some(why)) => Answer::Unrecorded(why),
                (Ok(()), None) => Answer::Closed(None),
            });
        }
        outcome.and(closed)
    }
}

/// Lets the kernel read ahead more than its 128 KiB: only root may, and only on
/// a real /sys.
fn raise_kernel_readahead(entry: &MountEntry, wanted_bytes: u64) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let path = format!(
        "/sys/class/bdi/{}:{}/read_ahead_kb",
        entry.device_major, entry.device_minor
    );
    let wanted_kib = wanted_bytes / 1024;
    if let Err(error) = fs::write(&path, wanted_kib.to_string()) {
        tracing::info!("the kernel's readahead stays as it is: {path}: {error}");
    }
}
