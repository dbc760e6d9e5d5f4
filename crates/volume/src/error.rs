//! Errors of a volume, and the errno for each.

use larder_ext4::Ino;
use rustix::io::Errno;
use std::path::PathBuf;

/// The result of a volume operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The cause of a failed operation, with the inode or name where there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the file system or of the device. The errno depends on the cause.
    #[error(transparent)]
    Ext4(#[from] larder_ext4::Error),
    /// The name does not exist. Errno: `ENOENT`.
    #[error("{0}: no such file or directory")]
    NotFound(String),
    /// The path contains too many symbolic links. Errno: `ELOOP`.
    #[error("{0}: too many symbolic links")]
    TooManyLinks(String),
    /// The inode is a directory, and the operation requires a file. Errno: `EISDIR`.
    #[error("inode {0}: is a directory")]
    IsDirectory(Ino),
    /// The inode is neither a regular file nor a directory, and the operation requires a regular
    /// file. Errno: `EINVAL`.
    #[error("inode {0}: not a regular file")]
    NotRegular(Ino),
    /// The flags or the type of the file forbid the operation. Errno: `EPERM`.
    #[error("inode {0}: {1}")]
    NotPermitted(Ino, &'static str),
    /// "." and ".." cannot be renamed or replaced. Errno: `EBUSY`.
    #[error("inode {0}: the entries . and .. cannot be renamed or replaced")]
    Busy(Ino),
    /// A file cannot be linked into a directory whose files belong to another project. Errno:
    /// `EXDEV`.
    #[error("inode {0}: the file and the directory belong to different projects")]
    OtherProject(Ino),
    /// Only a directory can have a default access control list. Errno: `EACCES`.
    #[error("inode {0}: only directories can have a default access control list")]
    DefaultAclOfFile(Ino),
    /// The operation searched for data, or for a hole, and there is none at or after the offset.
    /// Errno: `ENXIO`.
    #[error("inode {0}: no data at or after the offset")]
    NoMoreData(Ino),
    /// The caches could not be created. Errno: `EINVAL` if the configured tables are too large,
    /// otherwise `ENOMEM`.
    #[error(transparent)]
    Cache(#[from] larder_cache::Error),
    /// The arguments do not fit the file or each other. Errno: the value of the field, which gives the reason.
    #[error("{0}")]
    Errno(Errno),
    /// A file was not copied, for the reason in the text. Errno: the value of the field.
    #[error("{1}")]
    NotCopied(Errno, &'static str),
    /// The image begins like another format, from which the crate larder-image reads the file system. Errno: `EINVAL`.
    #[error("not an ext2, ext3 or ext4 file system: it begins like {0}; larder-image can open it")]
    OtherFormat(&'static str),
    /// The path contains a NUL byte. Errno: `EINVAL`.
    #[error("the path contains a NUL byte")]
    NulByte,
    /// The file at `path`, of the image or of the host, could not be copied. Errno: the errno of the cause.
    #[error("{}: {}{source}", path.display(), prefix(what))]
    At {
        /// The path of the file.
        path: PathBuf,
        /// What failed. Empty if the cause needs no explanation.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A thread could not be started. Errno: the errno of the cause.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl From<larder_block::Error> for Error {
    fn from(error: larder_block::Error) -> Self {
        Self::Ext4(error.into())
    }
}

/// The kind is that of the errors with the same errno that [`std::fs`] returns. The inner error of
/// the [`std::io::Error`] is the [`Error`]:
///
/// ```
/// let error = std::io::Error::from(larder::Error::NotFound("/etc".to_owned()));
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<larder::Error>());
/// assert_eq!(inner.unwrap().errno(), larder::Errno::NOENT);
/// ```
impl From<Error> for std::io::Error {
    #[cold]
    fn from(error: Error) -> Self {
        let kind = Self::from(error.errno()).kind();
        Self::new(kind, error)
    }
}

impl Error {
    pub(crate) fn not_found(name: &[u8]) -> Self {
        Self::NotFound(String::from_utf8_lossy(name).into_owned())
    }

    /// Returns whether the operation failed for lack of free blocks.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Self::Ext4(larder_ext4::Error::NoSpace))
    }

    /// Returns whether the operation failed because the device did not answer within its timeout.
    pub(crate) fn is_deadline(&self) -> bool {
        use larder_block::Error::Deadline;
        use larder_ext4::Error::{Device, Unreadable};
        matches!(
            self,
            Self::Ext4(
                Device(Deadline(_))
                    | Unreadable {
                        source: Deadline(_),
                        ..
                    }
            )
        )
    }

    /// Returns the errno with which a system call would report the error.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Ext4(error) => ext4_errno(error),
            Self::NotFound(_) => Errno::NOENT,
            Self::TooManyLinks(_) => Errno::LOOP,
            Self::IsDirectory(_) => Errno::ISDIR,
            Self::NotRegular(_)
            | Self::NulByte
            | Self::OtherFormat(_)
            | Self::Cache(larder_cache::Error::Tables { .. }) => Errno::INVAL,
            &(Self::Errno(errno) | Self::NotCopied(errno, _)) => errno,
            Self::At { source, .. } => errno_of(source),
            Self::NotPermitted(..) => Errno::PERM,
            Self::DefaultAclOfFile(_) => Errno::ACCESS,
            Self::Busy(_) => Errno::BUSY,
            Self::OtherProject(_) => Errno::XDEV,
            Self::NoMoreData(_) => Errno::NXIO,
            Self::Cache(_) => Errno::NOMEM,
            Self::Thread(source) => Errno::from_io_error(source).unwrap_or(Errno::AGAIN),
        }
    }
}

/// Returns the text before the cause of an error.
pub(crate) fn prefix(what: &str) -> String {
    if what.is_empty() {
        String::new()
    } else {
        format!("{what}: ")
    }
}

/// Returns the errno of an error, which may contain an [`Error`].
fn errno_of(error: &std::io::Error) -> Errno {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    inner
        .map(Error::errno)
        .or_else(|| Errno::from_io_error(error))
        .unwrap_or(Errno::IO)
}

/// Returns whether `source` is an error that only a device with an image on a server reports.
fn is_server_error(source: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(source);
    matches!(errno, Some(Errno::STALE | Errno::ACCESS))
}

fn ext4_errno(error: &larder_ext4::Error) -> Errno {
    use larder_block::Error as Device;
    use larder_ext4::Error as Ext4;
    match error {
        Ext4::Device(Device::Locked { .. } | Device::Attached { .. }) | Ext4::InUse(_) => {
            Errno::BUSY
        }
        Ext4::Device(Device::Open { source, .. }) => {
            Errno::from_io_error(source).unwrap_or(Errno::IO)
        }
        // An image on a server was replaced, or access to it ended.
        Ext4::Device(Device::Io { source, .. })
        | Ext4::Unreadable {
            source: Device::Io { source, .. },
            ..
        } if is_server_error(source) => Errno::from_io_error(source).unwrap_or(Errno::IO),
        Ext4::NotInMemory(_) | Ext4::WouldWait => Errno::AGAIN,
        Ext4::NotExt | Ext4::NotSymlink(_) | Ext4::Invalid(..) => Errno::INVAL,
        Ext4::UnsupportedFeature(_) | Ext4::Casefolded(_) | Ext4::ExternalJournal => {
            Errno::OPNOTSUPP
        }
        Ext4::Corrupt(_) => Errno::UCLEAN,
        Ext4::Encrypted(_) => Errno::NOKEY,
        Ext4::NotDirectory(_) => Errno::NOTDIR,
        Ext4::ReadOnly(_) | Ext4::NotWritable(_) | Ext4::Device(Device::ReadOnly) => Errno::ROFS,
        Ext4::NoSpace | Ext4::NoInodes | Ext4::HandleTooLarge | Ext4::AttributeTooLarge(_) => {
            Errno::NOSPC
        }
        Ext4::Exists(_) => Errno::EXIST,
        Ext4::NotEmpty(_) => Errno::NOTEMPTY,
        Ext4::TooManyLinks(_) => Errno::MLINK,
        Ext4::NameTooLong(_) | Ext4::TargetTooLong(_) => Errno::NAMETOOLONG,
        Ext4::FileTooLarge(_) => Errno::FBIG,
        Ext4::NoAttribute(_) => Errno::NODATA,
        Ext4::AttributeName(_) => Errno::RANGE,
        Ext4::NotSupported(..) | Ext4::DeviceCannot(_) => Errno::OPNOTSUPP,
        Ext4::StaleInode(_) => Errno::STALE,
        // The errno of a device error would be misleading. For example, `ENOENT` from a network
        // file system does not refer to a file in the image.
        _ => Errno::IO,
    }
}
