//! The server of a mount: owns the mounted volume, and answers the kernel's requests in several threads.

use crate::activity::Activity;
use crate::mount::attach::{Attached, attach};
use crate::mount::info::server_of;
use crate::mount::unmount::unmount_own;
use crate::transport::{self, Session};
use crate::{Error, MountEntry, MountOptions, Result, Unmounted, WriteBack};
use larder::{Stats, Volume};
use larder_observe::{Answer, Listener};
use rustix::mount::UnmountFlags;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A mounted volume.
///
/// Requests wait in the kernel until [`Server::serve`] runs. If the server is dropped before that, the
/// volume is unmounted.
#[derive(Debug)]
pub struct Server {
    session: Session,
    volume: Arc<Volume>,
    activity: Arc<Activity>,
    unmounter: Unmounter,
    kernel_readahead_bytes: u64,
    has_statistics: bool,
    guard: Unserved,
}

/// A handle with which any thread can unmount the mount of a server.
#[derive(Clone, Debug)]
pub struct Unmounter {
    pub(crate) entry: MountEntry,
    /// Whether another program attached the mount, and unmounts it.
    pub(crate) is_inherited: bool,
}

impl Unmounter {
    /// Unmounts the mount. If the mount is in use, detaches it from its mount point; the mount then ends
    /// when it is no longer in use. [`Server::serve`] returns when the mount has ended.
    ///
    /// A mount that another program has attached is not unmounted. Instead, the connection to the kernel is ended, so
    /// that programs on the mount get errors. If this fails, returns an error, and the mount ends when that program
    /// unmounts it.
    pub fn unmount(&self) -> Result<Unmounted> {
        if self.is_inherited {
            return end_connection(&self.entry).map(|()| Unmounted::Now);
        }
        unmount_own(&self.entry)
    }

    /// Returns a handle with which the connection of the kernel to the server can be ended, even after the unmount. The
    /// handle never refers to a later mount with the same device number.
    ///
    /// # Errors
    /// The mount has ended, or the FUSE control file system is not mounted on `/sys/fs/fuse/connections`.
    pub fn connection(&self) -> io::Result<KernelConnection> {
        Ok(KernelConnection {
            abort: File::options()
                .write(true)
                .open(control_file(&self.entry, "abort"))?,
            waiting: File::open(control_file(&self.entry, "waiting"))?,
        })
    }
}

/// The connection of the kernel to a server.
#[derive(Debug)]
pub struct KernelConnection {
    abort: File,
    waiting: File,
}

impl KernelConnection {
    /// Ends the connection: programs that use the mount get errors, and [`Server::serve`] returns. Returns `false` if the
    /// connection had already ended.
    pub fn abort(mut self) -> io::Result<bool> {
        // The file is empty if the connection has ended.
        let exists = self.waiting.read(&mut [0; 32])? > 0;
        self.abort.write_all(b"1")?;
        Ok(exists)
    }
}

/// Returns the path of a file of the FUSE control file system.
fn control_file(entry: &MountEntry, name: &str) -> PathBuf {
    PathBuf::from(format!(
        "/sys/fs/fuse/connections/{}/{name}",
        entry.device_minor
    ))
}

/// A guard that unmounts the mount when it is dropped. If the session ended because the mount was unmounted, the
/// guard is set to `None`, and does nothing when it is dropped.
#[derive(Debug)]
pub(crate) struct Unserved(pub(crate) Option<Unmounter>);

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
    /// Mounts `volume` on `mountpoint`. The mount is not served before [`Server::serve`] is called.
    ///
    /// If `mountpoint` is `/dev/fd/N`, as in libfuse 3, descriptor N of this process must be an open /dev/fuse on which
    /// another program has mounted. The descriptor must stay open until the server ends. The options that concern the
    /// kernel are those of that program. But the kernel checks permissions even if that program has not set
    /// `default_permissions`, unless `fakeroot` is set.
    pub fn mount(volume: Arc<Volume>, mountpoint: &Path, options: &MountOptions) -> Result<Self> {
        if let Some(threads) = options.threads
            && threads.get() > MountOptions::MAX_THREADS
        {
            return Err(Error::TooManyThreads(threads.get()));
        }
        let Attached {
            device,
            entry,
            is_inherited,
        } = attach(mountpoint, options)?;
        let mut options = options.clone();
        // A signal ends the connection of such a mount, and then the kernel cannot send what it has collected.
        if is_inherited && options.write_back == WriteBack::Auto {
            options.write_back = WriteBack::Off;
        }
        let unmounter = Unmounter {
            entry,
            is_inherited,
        };
        let guard = Unserved(Some(unmounter.clone()));
        let activity = Arc::default();
        let session = transport::start(
            Arc::clone(&volume),
            &activity,
            device,
            &unmounter.entry,
            &options,
        )?;
        Ok(Self {
            session,
            volume,
            activity,
            unmounter,
            kernel_readahead_bytes: options.kernel_readahead_bytes,
            has_statistics: options.has_statistics,
            guard,
        })
    }

    /// Returns the canonical path of the mount point.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        &self.unmounter.entry.mountpoint
    }

    /// Returns an [`Unmounter`], which can unmount while [`Server::serve`] runs.
    #[must_use]
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Returns whether the kernel collects written data before it sends the data
    /// ([`MountOptions::write_back`]).
    #[must_use]
    pub fn collects_writes(&self) -> bool {
        self.session.collects_writes()
    }

    /// Returns a function that returns the statistics of the mount, or `None` after the volume is closed. They contain
    /// neither the names of files and programs ([`Stats::hot`]) nor the longest chains ([`Volume::counts`]).
    pub fn statistics(&self) -> impl Fn() -> Option<Stats> + Send + 'static + use<> {
        let (volume, complete) = (Arc::downgrade(&self.volume), self.completion());
        move || {
            let mut stats = volume.upgrade()?.counts();
            complete(&mut stats);
            Some(stats)
        }
    }

    /// Returns a function that sets the statistics that the volume does not know, except [`Stats::hot`].
    fn completion(&self) -> impl Fn(&mut Stats) + Send + 'static + use<> {
        let (transport, collects_writes) =
            (self.session.transport(), self.session.collects_writes());
        let (activity, entry) = (Arc::clone(&self.activity), self.unmounter.entry.clone());
        move |stats: &mut Stats| {
            stats.transport = Some(transport);
            stats.collects_writes = Some(collects_writes);
            stats.requests = Some(activity.requests(waiting_requests(&entry)));
        }
    }

    /// Answers requests until the volume is unmounted.
    ///
    /// `ready` is called once, after the statistics socket is open ([`MountOptions::has_statistics`]) and before
    /// the threads start. The value that it returns is dropped after the unmount. If `ready` fails, the volume is
    /// unmounted without being served.
    ///
    /// After the unmount, the volume is closed, `end_recording` is called, and the socket is removed, in
    /// this order. Therefore the image is not in use if no process listens on the socket. If the
    /// recording is incomplete, `end_recording` must return the reason. Clients that wait on the socket
    /// receive this reason, or the error of the close.
    ///
    /// # Errors
    /// Returns [`Error::Session`] if the connection to the kernel failed, [`Error::NotReady`] if `ready`
    /// failed, and [`Error::Close`] if some written data did not reach the image.
    pub fn serve<T>(
        self,
        ready: impl FnOnce() -> io::Result<T>,
        end_recording: impl FnOnce() -> Option<String>,
    ) -> Result<()> {
        let complete = self.completion();
        let Self {
            session,
            volume,
            activity,
            unmounter,
            kernel_readahead_bytes,
            has_statistics,
            mut guard,
        } = self;
        raise_kernel_readahead(&unmounter.entry, kernel_readahead_bytes);
        let start_listener = || -> Result<Listener> {
            let mount = server_of(&unmounter.entry)?;
            let complete = move |volume: &Volume, stats: &mut Stats| {
                complete(stats);
                stats.hot = Some(activity.hot(volume));
            };
            Ok(Listener::start(&mount, Arc::downgrade(&volume), complete)?)
        };
        let listener = has_statistics.then(start_listener).and_then(|started| {
            started
                .inspect_err(|error| tracing::warn!("statistics are not available: {error}"))
                .ok()
        });
        let outcome = match ready() {
            Ok(_served) => session.run(|| abort(&unmounter.entry)),
            Err(error) => {
                // This ends the connection, so programs that wait for a reply get an error.
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
        if let Some(listener) = listener {
            listener.stop(&match (&closed, unrecorded) {
                (Err(error), _) => Answer::Closed(Some(error.to_string())),
                (Ok(()), Some(why)) => Answer::Unrecorded(why),
                (Ok(()), None) => Answer::Closed(None),
            });
        }
        outcome.and(closed)
    }
}

/// Returns the number of requests that wait for an answer, or `None` if the kernel does not show it.
fn waiting_requests(entry: &MountEntry) -> Option<u64> {
    let text = fs::read_to_string(control_file(entry, "waiting")).ok()?;
    text.trim().parse().ok()
}

/// Ends the connection of the kernel to the server, so that programs on the mount get errors instead of waiting. A failure
/// is logged.
pub(crate) fn abort(entry: &MountEntry) {
    if let Err(error) = end_connection(entry) {
        tracing::error!("{error}");
    }
}

/// Ends the connection of the kernel to the server.
fn end_connection(entry: &MountEntry) -> Result<()> {
    let path = control_file(entry, "abort");
    let Err(source) = fs::write(&path, "1") else {
        return Ok(());
    };
    // The mount point of a mount that is not listed is a symbolic link to /dev/fuse, which can be a mount itself.
    let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    rustix::mount::unmount(&entry.mountpoint, flags).map_err(|error| {
        tracing::debug!("cannot unmount {}: {error}", entry.mountpoint.display());
        Error::NotEnded { path, source }
    })
}

/// Sets the maximum readahead of the kernel for the mount, which is 128 KiB by default. This requires root and
/// a writable /sys.
pub(crate) fn raise_kernel_readahead(entry: &MountEntry, wanted_bytes: u64) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let path = format!(
        "/sys/class/bdi/{}:{}/read_ahead_kb",
        entry.device_major, entry.device_minor
    );
    let wanted_kib = wanted_bytes / 1024;
    if let Err(error) = fs::write(&path, wanted_kib.to_string()) {
        tracing::info!("cannot set the kernel's readahead: {path}: {error}");
    }
}
