//! Errors of statistics queries and metrics, with hints for the user.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The result of a statistics query, or of listening for queries.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error in a query to a mount's server, or in serving statistics or metrics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The mount belongs to another user. Errno: `EACCES`.
    #[error("{} was mounted by user {owner}; only this user and root can read its statistics", .mountpoint.display())]
    NotOwner {
        /// The mount point.
        mountpoint: PathBuf,
        /// The user ID of the owner.
        owner: u32,
    },
    /// No server responds for the mount. Errno: `ECONNREFUSED`.
    #[error("no larder server answers for {}", .0.display())]
    NoServer(PathBuf),
    /// The statistics socket failed or returned an invalid response. Errno: `EPROTO`.
    #[error("cannot get statistics: {0}")]
    Stats(String),
    /// Metrics cannot be served at an address. Errno: the errno of `source`.
    #[error("cannot serve metrics at {address}: {source}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// No directory for the statistics socket is safe to use. Errno: `EACCES`.
    #[error("cannot use {} for the statistics socket: {what}", .directory.display())]
    SocketDirectory {
        /// The directory.
        directory: PathBuf,
        /// The problem.
        what: String,
    },
}

impl Error {
    /// Returns advice on what the user can do about the error, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotOwner { owner, .. } => format!("run the command as user {owner} or as root"),
            Self::NoServer(path) => format!(
                "if the server was killed, clean up: larder umount {}",
                path.display()
            ),
            Self::Metrics { source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => "use another port, or 0 for any free port",
                io::ErrorKind::AddrNotAvailable => "use an address of this machine, or only a port",
                io::ErrorKind::PermissionDenied => "use a port of at least 1024, or run as root",
                _ => return None,
            }
            .to_owned(),
            Self::Stats(_) | Self::SocketDirectory { .. } => return None,
        })
    }
}
