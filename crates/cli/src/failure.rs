//! Converts errors of images, and of paths inside images, to messages for the user.

use crate::holder::is_ending;
use crate::image_path::ImagePath;
use crate::remote;
use larder_console::{Failure, name};
use larder_image::quoted;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The hint for an image that cannot be written.
const READ_IT: &str =
    "mount it read-only with -o ro, or read it without a mount with larder ls, cat, stat or cp";

/// What to do about damage that was found after the image was opened.
pub(crate) const CHECK_IT: &str =
    "check it with e2fsck -n IMAGE, or a partition with e2fsck -n 'IMAGE?offset=BYTES'";

/// The access for which an image is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    Write,
}

/// Returns the failure for an image that cannot be opened, or whose file system at `offset_bytes` cannot be opened. The
/// message says what is wrong, and the hint names the option that helps.
pub(crate) fn of_image(
    image: &Path,
    offset_bytes: u64,
    access: Access,
    error: &larder::Error,
) -> Failure {
    use larder_block::Error as Device;
    use larder_ext4::Error as Ext4;
    let path = image.display();
    let larder::Error::Ext4(cause) = error else {
        return Failure::new(format!("{path}: {error}"));
    };
    match cause {
        Ext4::Device(Device::Open { source, .. }) => match source.kind() {
            io::ErrorKind::PermissionDenied if access == Access::Write => {
                Failure::with_hint(format!("no permission to write image {path}"), READ_IT)
            }
            io::ErrorKind::ReadOnlyFilesystem => Failure::with_hint(
                format!("image {path} is on a read-only file system or device"),
                READ_IT,
            ),
            io::ErrorKind::NotFound => Failure::with_hint(
                format!("image {path} does not exist"),
                match ImagePath::parse(image.as_os_str()) {
                    Some(inside) if inside.image.exists() => format!(
                        "this command applies to the whole image: write {}, without a path",
                        inside.image.display()
                    ),
                    _ => "IMAGE must be an image file or a block device".to_owned(),
                },
            ),
            io::ErrorKind::PermissionDenied => Failure::with_hint(
                format!("no permission to read image {path}"),
                "read permission is enough for larder mount -o ro, ls, cat, stat and cp",
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
        }) if offset_bytes > size_bytes => Failure::with_hint(
            format!("the offset is past the end of {path}"),
            "the offset is in bytes; fdisk -l shows sectors, usually of 512 bytes",
        ),
        Ext4::Device(Device::Attached { device, .. }) => {
            let device = device.display();
            Failure::with_hint(
                format!("image {path} is attached to loop device {device}"),
                format!(
                    "unmount {device}, then detach it: losetup -d {device}; to read the image \
                     without that, use -o ro, if no program writes to {device}"
                ),
            )
        }
        Ext4::Device(Device::Locked { .. }) => of_lock(image, access),
        Ext4::NotExt => Failure::with_hint(
            format!("{path} is not an ext2, ext3 or ext4 image"),
            "the file system may be at another place: check --offset or \
             --partition",
        ),
        Ext4::Corrupt(_) | Ext4::Device(Device::OutOfRange { .. }) => {
            let check = match e2fsprogs_name(image, offset_bytes) {
                Some(name) => format!("check the file system with e2fsck -n {name}"),
                None => "check the image with e2fsck -n".to_owned(),
            };
            Failure::with_hint(
                format!("{path}: {error}"),
                format!("{check}; --noload ignores the journal"),
            )
        }
        _ => {
            let message = format!("{path}: {error}");
            let hint = e2fsprogs_hint(&message, image, offset_bytes);
            Failure::Message { message, hint }
        }
    }
}

/// Returns a hint for a `message` that advises the use of e2fsck or tune2fs, if the file system does not start at the
/// beginning of the image.
pub(crate) fn e2fsprogs_hint(message: &str, image: &Path, offset_bytes: u64) -> Option<String> {
    let advises = ["e2fsck", "tune2fs"]
        .iter()
        .any(|program| message.contains(program));
    let name = e2fsprogs_name(image, offset_bytes).filter(|_| advises)?;
    Some(format!("for e2fsck and tune2fs, the file system is {name}"))
}

/// Returns the name by which the programs of e2fsprogs find the file system at `offset_bytes` of `image`, as a word for a
/// shell. Returns `None` if the name is that of the image, or if the image is not local.
fn e2fsprogs_name(image: &Path, offset_bytes: u64) -> Option<String> {
    let is_inside = offset_bytes > 0 && !remote::is_remote(image);
    is_inside.then(|| quoted(&format!("{}?offset={offset_bytes}", image.display())))
}

/// Returns the failure for an image that is locked by another process.
fn of_lock(image: &Path, access: Access) -> Failure {
    let path = image.display();
    let holder = larder_block::lock_holder(image);
    let is_ending = holder
        .as_ref()
        .is_some_and(|holder| is_ending(image, holder));
    let user = match holder {
        Some(holder) if holder.name.is_empty() => format!("process {}", holder.pid),
        Some(holder) => format!(
            "process {} ({})",
            holder.pid,
            name::escaped(holder.name.as_bytes())
        ),
        None => "another process, or is mounted by the kernel".to_owned(),
    };
    Failure::with_hint(
        format!("image {path} is in use by {user}"),
        match access {
            _ if is_ending => {
                "the process has no mount of the image: wait until it ends, or close the files that \
                 are open on its former mount"
            }
            Access::Write => {
                "writing requires exclusive access to the image: unmount it (larder umount, umount), \
                 or end the process"
            }
            Access::Read => {
                "the image is open for writing: unmount it (larder umount), or read the files through \
                 its mount"
            }
        },
    )
}

/// Returns the failure for a path inside an image.
pub(crate) fn of_path(path: &[u8], error: &larder::Error) -> Failure {
    let path = name::escaped(path);
    match error {
        larder::Error::NotFound(_) => Failure::with_hint(
            format!("{path}: no such file or directory in the image"),
            "larder ls IMAGE DIRECTORY lists the files of a directory",
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

/// Returns the failure for `error`, which an iterator over a directory or a tree has returned. `path` is the path to which
/// it applies if the error has no other.
pub(crate) fn of_cause(path: &[u8], error: &io::Error) -> Failure {
    match cause(error) {
        Some(larder::Error::At { path, source, .. }) => {
            of_cause(path.as_os_str().as_bytes(), source)
        }
        Some(error) => of_path(path, error),
        None => Failure::new(error.to_string()).at(path),
    }
}

/// Returns the error of the image that caused `error`.
pub(crate) fn cause(error: &io::Error) -> Option<&larder::Error> {
    error.get_ref()?.downcast_ref()
}

/// Returns the message of `error`, without the inode number with which it may begin. The number is left out
/// because the message is shown after the path. If the image is damaged, the number is kept.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_to_use_e2fsprogs_names_the_offset_of_a_partition() {
        let hint =
            |message, offset_bytes| e2fsprogs_hint(message, Path::new("disk.img"), offset_bytes);
        for message in ["run e2fsck first", "run tune2fs -f -E clear_mmp"] {
            assert_eq!(
                hint(message, 512).as_deref(),
                Some("for e2fsck and tune2fs, the file system is 'disk.img?offset=512'")
            );
        }
        assert_eq!(hint("run e2fsck first", 0), None);
        assert_eq!(hint("the feature is unknown", 512), None);
    }
}
