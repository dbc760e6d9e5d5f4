//! Unmounts mounts, including those whose server was killed.

use super::{fusermount, info};
use crate::{Error, MountEntry, Result};
use larder_observe::{Answer, Closing};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// The maximum time for which an unmount waits until the server no longer listens on its socket. This wait begins
/// after the server has reported the result of closing the volume.
const SERVER_EXIT: Duration = Duration::from_secs(5);

/// The result of an unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// The mount has ended.
    Now,
    /// The mount is detached from its mount point. It ends when it is no longer in use.
    WhenUnused,
}

/// Unmounts the mount at `mountpoint`, and waits until its server has written all data to the image
/// and closed it.
///
/// If `lazy`, a mount in use is detached from its mount point immediately, and ends when it is no longer in
/// use. If the server was killed, a mount in use is detached even without `lazy`, and the socket of the
/// server is removed.
///
/// # Errors
/// Returns [`Error::NotMounted`], [`Error::NotLarder`], [`Error::Busy`], [`Error::NotOwner`] or the error of
/// the system call if the mount cannot be unmounted. Returns [`Error::ServerClose`] if the mount was unmounted
/// and some data was not written. Returns [`Error::Unrecorded`] if the mount was unmounted and its recording
/// had ended early.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<Unmounted> {
    let entry = info::find_mount(mountpoint)?;
    let server = info::server_of(&entry)?;
    let path = &entry.mountpoint;
    let closing = server.request_close();
    let outcome = unmount_or_detach(path, lazy)?;
    if outcome == Unmounted::Now {
        if let Some(failure) = closing.and_then(|closing| close_failure(closing, path)) {
            return Err(failure);
        }
        server.await_server_exit(Instant::now() + SERVER_EXIT);
    }
    server.remove_stale_socket();
    Ok(outcome)
}

/// Waits until the server has closed the volume that was mounted at `path`. Returns the error that the server
/// reports, if there is one.
fn close_failure(closing: Closing, path: &Path) -> Option<Error> {
    let mountpoint = path.to_owned();
    let what = match closing.wait() {
        Ok(Answer::Closed(failure)) => failure?,
        Ok(Answer::Unrecorded(what)) => return Some(Error::Unrecorded { mountpoint, what }),
        // A server that does not know the request cannot write, so it has nothing to report.
        Ok(_) => return None,
        Err(error) => format!("the server did not report the result: {error}"),
    };
    Some(Error::ServerClose { mountpoint, what })
}

/// Unmounts the mount `entry` of this server, unless it is already unmounted. Another mount may exist at the
/// same mount point; it is not changed.
pub(crate) fn unmount_own(entry: &MountEntry) -> Result<Unmounted> {
    let path = &entry.mountpoint;
    let is_own_mount = info::mounted_at(path)?.is_some_and(|present| {
        (present.device_major, present.device_minor) == (entry.device_major, entry.device_minor)
    });
    if !is_own_mount {
        return Ok(Unmounted::Now);
    }
    unmount_or_detach(path, true)
}

/// Unmounts the topmost mount at `path`. Detaches a mount in use if `lazy` is set or its server has ended.
fn unmount_or_detach(path: &Path, lazy: bool) -> Result<Unmounted> {
    let outcome = match detach(path, false) {
        Err(error) if is_busy(&error) && (lazy || is_server_dead(path)) => {
            detach(path, true).map(|()| Unmounted::WhenUnused)
        }
        outcome => outcome.map(|()| Unmounted::Now),
    };
    outcome.map_err(|source| failure(path, source))
}

/// Unmounts the topmost mount at `path`. If `lazy`, detaches the mount even if it is in use.
pub(super) fn detach(path: &Path, lazy: bool) -> io::Result<()> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazy);
    match rustix::mount::unmount(path, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => {
            let program = fusermount::find().map_err(io::Error::other)?;
            fusermount::unmount(&program, path, lazy)
        }
        Err(errno) => Err(errno.into()),
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

/// Returns whether the server of the mount at `path` has ended. Without a server, the first request fails with
/// `ECONNABORTED`, and later requests with `ENOTCONN`.
pub(super) fn is_server_dead(path: &Path) -> bool {
    let Err(error) = std::fs::metadata(path) else {
        return false;
    };
    let errno = Errno::from_io_error(&error);
    matches!(errno, Some(Errno::NOTCONN | Errno::CONNABORTED))
}

/// Returns the owner of the mount at `path`, if this is another user than the caller and the caller is not
/// root.
fn other_owner(path: &Path) -> Option<u32> {
    let caller = rustix::process::geteuid();
    let owner = info::mounted_at(path).ok()??.owner()?;
    (!caller.is_root() && owner != caller.as_raw()).then_some(owner)
}

fn failure(path: &Path, source: io::Error) -> Error {
    let mountpoint = path.to_owned();
    if is_busy(&source) {
        Error::Busy(mountpoint)
    } else if let Some(owner) = other_owner(path) {
        Error::NotOwner { mountpoint, owner }
    } else {
        match source.downcast::<Error>() {
            Ok(error) => error,
            Err(source) => Error::Unmount { mountpoint, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_without_a_mount_is_reported_as_not_mounted() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(
            unmount(dir.path(), false),
            Err(Error::NotMounted(_))
        ));
    }

    #[test]
    fn mount_of_another_type_is_not_unmounted() {
        assert!(matches!(
            unmount(Path::new("/proc"), false),
            Err(Error::NotLarder { .. })
        ));
    }
}
