//! Failures as the user sees them: a line `error:` and, if something can be done
//! about it, a line `hint:`.

use crate::{name, opening};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to tell.
    Told {
        /// What failed.
        message: String,
        /// What can be done about it.
        hint: Option<String>,
    },
    /// Arguments that make no sense together.
    Usage {
        /// What is wrong with them.
        message: String,
        /// What can be done about it.
        hint: Option<String>,
    },
    /// Whoever read our output has had enough.
    BrokenPipe,
}

/// The result of a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::Told {
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Told {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// The same failure, with the path inside the image that it befell.
    pub(crate) fn at(self, path: &[u8]) -> Self {
        match self {
            Self::Told { message, hint } => Self::Told {
                message: format!("{}: {message}", name::escaped(path)),
                hint,
            },
            other => other,
        }
    }

    /// Tells the user, and returns the exit code; `failed` is the one for plain failures.
    pub(crate) fn tell(&self, failed: u8) -> ExitCode {
        match self {
            Self::Told { message, hint } | Self::Usage { message, hint } => {
                tell_error(message);
                if let Some(hint) = hint {
                    tell("hint", hint);
                }
                let is_usage = matches!(self, Self::Usage { .. });
                ExitCode::from(if is_usage { 2 } else { failed })
            }
            Self::BrokenPipe => ExitCode::SUCCESS,
        }
    }
}

/// Prints one line `error:` and lets the command go on.
pub(crate) fn tell_error(message: &str) {
    tell("error", message);
}

/// Prints one line `warning:`.
pub(crate) fn tell_warning(message: &str) {
    tell("warning", message);
}

/// Prints one line `hint:`.
pub(crate) fn tell_hint(message: &str) {
    tell("hint", message);
}

/// Prints one line `note:`.
pub(crate) fn tell_note(message: &str) {
    tell("note", message);
}

fn tell(what: &str, message: &str) {
    // There is nowhere left to report that standard error is closed.
    let _ = writeln!(io::stderr(), "{what}: {message}");
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::new(error.to_string())
        }
    }
}

impl From<larder_fuse::Error> for Failure {
    fn from(error: larder_fuse::Error) -> Self {
        Self::Told {
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

/// What to do with an image that cannot be written.
const READ_IT: &str =
    "to read it only, mount it with -o ro; ls, cat, stat and cp look inside without a mount";

/// What an image is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading alone.
    Read,
    /// Writing too.
    Write,
}

/// An image that cannot be opened: what is wrong with it, and which flag helps.
pub(crate) fn of_image(image: &Path, access: Access, error: &larder::Error) -> Failure {
    use larder_block::Error as Device;
    use larder_ext4::Error as Ext4;
    let path = image.display();
    let cause = match error {
        larder::Error::Ext4(cause) => cause,
        larder::Error::Option(what) => {
            return Failure::Usage {
                message: what.clone(),
                hint: Some(
                    "the flags are --offset, --cache-size, --readahead and --readahead-max, \
                     or the options of -o with the same names"
                        .to_owned(),
                ),
            };
        }
        _ => return Failure::new(format!("{path}: {error}")),
    };
    match cause {
        Ext4::Device(Device::Open { source, .. }) => match source.kind() {
            io::ErrorKind::PermissionDenied if access == Access::Write => {
                Failure::with_hint(format!("no permission to write image {path}"), READ_IT)
            }
            io::ErrorKind::ReadOnlyFilesystem => Failure::with_hint(
                format!("image {path} lies on a read-only file system or device"),
                READ_IT,
            ),
            io::ErrorKind::NotFound => Failure::with_hint(
                format!("image {path} does not exist"),
                "give the path of a file or a block device",
            ),
            io::ErrorKind::PermissionDenied => Failure::with_hint(
                format!("no permission to read image {path}"),
                "reading is enough, to mount it with -o ro or to look inside",
            ),
            io::ErrorKind::IsADirectory => Failure::with_hint(
                format!("{path} is a directory, not an image"),
                "IMAGE must be an image file or a block device",
            ),
            _ => Failure::new(format!("cannot open image {path}: {source}")),
        },
        Ext4::Device(Device::OutOfRange {
            offset_bytes,
            len_bytes: 0,
            size_bytes,
        }) if offset_bytes > size_bytes => {
            Failure::new(format!("the offset lies behind the end of {path}"))
        }
        Ext4::Device(Device::Attached { device, .. }) => {
            let device = device.display();
            Failure::with_hint(
                format!("image {path} is attached to loop device {device}"),
                format!(
                    "detach it (umount what is mounted from it, then losetup -d {device}); \
                     to look inside meanwhile, -o ro, where nobody writes it"
                ),
            )
        }
        Ext4::Device(Device::Locked { .. }) => of_lock(image, access),
        Ext4::NotExt => Failure::with_hint(
            format!("{path} is not an ext2, ext3 or ext4 image"),
            "if the file system starts further inside, as in a disk image with partitions, \
             give --offset BYTES (fdisk -l shows sectors of 512 bytes)",
        ),
        Ext4::Corrupt(_) | Ext4::Device(Device::OutOfRange { .. }) => Failure::with_hint(
            format!("{path}: {error}"),
            "see what e2fsck -n says; --noload skips the journal",
        ),
        _ => Failure::new(format!("{path}: {error}")),
    }
}

/// An image that somebody else uses.
fn of_lock(image: &Path, access: Access) -> Failure {
    let path = image.display();
    let holder = larder_block::lock_holder(image);
    let is_ending = holder
        .as_ref()
        .is_some_and(|holder| opening::is_ending(image, holder));
    let who = match holder {
        Some(holder) if holder.name.is_empty() => format!("process {}", holder.pid),
        Some(holder) => format!(
            "process {} ({})",
            holder.pid,
            name::escaped(holder.name.as_bytes())
        ),
        None => "another process, or mounted by the system".to_owned(),
    };
    Failure::with_hint(
        format!("image {path} is in use by {who}"),
        match access {
            _ if is_ending => {
                "it has no mount here: it still writes the image, or files are open on its former mount; \
                 close them, and try again when it has ended"
            }
            Access::Write => {
                "who writes an image has it alone: unmount it where it is mounted \
                 (larder umount, umount), or end what uses it"
            }
            Access::Read => {
                "something has it open for writing: unmount it where it is mounted \
                 (larder umount), or look at the files there"
            }
        },
    )
}

/// A failure at a path inside an image.
pub(crate) fn of_path(path: &[u8], error: &larder::Error) -> Failure {
    let path = name::escaped(path);
    match error {
        larder::Error::NotFound(_) => Failure::with_hint(
            format!("{path}: no such file or directory in the image"),
            "larder ls IMAGE lists what is there",
        ),
        larder::Error::IsDirectory(_) => Failure::new(format!("{path}: is a directory")),
        larder::Error::NotRegular(_) => Failure::new(format!("{path}: not a regular file")),
        larder::Error::Ext4(larder_ext4::Error::NotDirectory(_)) => {
            Failure::new(format!("{path}: part of the path is not a directory"))
        }
        larder::Error::TooManyLinks(_) => Failure::new(format!("{path}: too many symbolic links")),
        _ => Failure::new(format!("{path}: {}", without_inode(error))),
    }
}

/// What went wrong, for those who name the path: which inode it is they need to know of damage alone.
pub(crate) fn without_inode(error: &larder::Error) -> String {
    use larder_ext4::Error as Ext4;
    let message = error.to_string();
    if matches!(
        error,
        larder::Error::Ext4(Ext4::Corrupt(_) | Ext4::Unreadable { .. })
    ) {
        return message;
    }
    let plain = message
        .strip_prefix("inode ")
        .and_then(|rest| rest.split_once(": "))
        .map(|(_, what)| what.to_owned());
    plain.unwrap_or(message)
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Told { message, .. } | Self::Usage { message, .. } => f.write_str(message),
            Self::BrokenPipe => f.write_str("broken pipe"),
        }
    }
}
