//! Errors of a volume, and the errno for each.

use larder_ext4::Ino;
use rustix::io::Errno;

/// The result of a volume operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation, with the cause and the place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system or the device failed. Errno: depends on the cause.
    #[error(transparent)]
    Ext4(#[from] larder_ext4::Error),
    /// The name does not exist. Errno: `ENOENT`.
    #[error("{0}: no such file or directory")]
    NotFound(String),
    /// A path with too many symbolic links. Errno: `ELOOP`.
    #[error("{0}: too many symbolic links")]
    TooManyLinks(String),
    /// The content of a directory cannot be read as a file. Errno: `EISDIR`.
    #[error("inode {0}: is a directory")]
    IsDirectory(Ino),
    /// The inode has no content that can be read. Errno: `EINVAL`.
    #[error("inode {0}: not a regular file")]
    NotRegular(Ino),
    /// The file's flags, or its type, forbid the operation. Errno: `EPERM`.
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
    /// There is no data, or no hole, at or after the offset. Errno: `ENXIO`.
    #[error("inode {0}: no data at or after the offset")]
    NoMoreData(Ino),
    /// The value of an option is invalid. Errno: `EINVAL`.
    #[error("{0}")]
    Option(String),
    /// The caches could not be created. Errno: `ENOMEM`, or `EINVAL` for tables that are too large.
    #[error(transparent)]
    Cache(#[from] larder_cache::Error),
    /// A thread could not be started. Errno: that of the cause.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl From<larder_block::Error> for Error {
    fn from(error: larder_block::Error) -> Self {
        Self::Ext4(error.into())
    }
}

impl Error {
    pub(crate) fn not_found(name: &[u8]) -> Self {
        Self::NotFound(String::from_utf8_lossy(name).into_owned())
    }

    /// Returns whether the error is a lack of free blocks.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Self::Ext4(larder_ext4::Error::NoSpace))
    }

    /// Returns the errno that a system call would return.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Ext4(error) => ext4_errno(error),
            Self::NotFound(_) => Errno::NOENT,
            Self::TooManyLinks(_) => Errno::LOOP,
            Self::IsDirectory(_) => Errno::ISDIR,
            Self::NotRegular(_)
            | Self::Option(_)
            | Self::Cache(larder_cache::Error::Tables { .. }) => Errno::INVAL,
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

fn ext4_errno(error: &larder_ext4::Error) -> Errno {
    use larder_block::Error as Device;
    use larder_ext4::Error as Ext4;
    match error {
        Ext4::Device(Device::Locked { .. }) | Ext4::InUse(_) => Errno::BUSY,
        Ext4::Device(Device::Open { source, .. }) => {
            Errno::from_io_error(source).unwrap_or(Errno::IO)
        }
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
        Ext4::NotSupported(..) => Errno::OPNOTSUPP,
        Ext4::StaleInode(_) => Errno::STALE,
        // The device's own errno would be misleading: ENOENT of a network file system does not
        // refer to a file in the image.
        _ => Errno::IO,
    }
}
