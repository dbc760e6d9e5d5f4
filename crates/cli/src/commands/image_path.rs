//! Paths of the form `IMAGE:/path`, and functions shared by the commands that change images.

use crate::args::{ImageArgs, VolumeArgs};
use crate::failure::of_path;
use crate::reporting_clock::ReportingClock;
use crate::{mount_options, opening};
use larder::{FileKind, Ino, NewFile, Volume};
use larder_console::{Failure, Result, name};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The path of an image, and a path inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImagePath<'a> {
    /// The path of the image file.
    pub image: &'a Path,
    /// The path inside the image, which begins with a slash.
    pub path: &'a [u8],
}

impl<'a> ImagePath<'a> {
    /// Parses `IMAGE:/path`. The path begins after the first colon that is followed by a slash.
    pub(crate) fn parse(text: &'a OsStr) -> Option<Self> {
        let bytes = text.as_bytes();
        let at = bytes.windows(2).position(|pair| pair == b":/")?;
        (at > 0).then(|| Self {
            image: Path::new(OsStr::from_bytes(&bytes[..at])),
            path: &bytes[at + 1..],
        })
    }

    /// Returns the arguments that open the image with the options `volume`.
    pub(super) fn source(&self, volume: &VolumeArgs) -> ImageArgs {
        ImageArgs {
            volume: volume.clone(),
            image: self.image.to_owned(),
        }
    }

    /// Parses an argument with [`ImagePath::parse`]. Fails if the argument does not have the form
    /// `IMAGE:/path`.
    pub(super) fn required(text: &'a OsStr) -> Result<Self> {
        Self::parse(text).ok_or_else(|| Failure::Usage {
            message: format!(
                "'{}' is not a path in an image",
                name::escaped(text.as_bytes())
            ),
            hint: Some("write IMAGE:/PATH, as in disk.img:/etc/fstab".to_owned()),
        })
    }
}

/// Opens an image, runs `change`, and writes all changes to the image. If the changes cannot be written, the
/// command fails.
pub(super) fn change(
    args: &ImageArgs,
    change: impl FnOnce(&Volume) -> Result<ExitCode>,
) -> Result<ExitCode> {
    if args.volume.noload {
        return Err(Failure::usage(
            "--noload cannot be used with commands that change the image",
        ));
    }
    let mut options = mount_options::open_options(&args.volume);
    options.read_write = true;
    options.clock = Arc::new(ReportingClock);
    let volume = opening::open(args.into(), &options)?;
    let changed = change(&volume);
    let closed = volume
        .close()
        .map_err(|error| Failure::new(format!("{}: {error}", args.image.display())));
    let code = changed?;
    closed.map(|()| code)
}

/// Returns the attributes of a new file, which belongs to the caller.
pub(super) fn new_file(permissions: u16) -> NewFile {
    NewFile {
        permissions,
        umask: 0,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    }
}

/// Returns the umask of this process. The umask can be read only by setting it, so this function must be
/// called once, before other threads start.
pub(super) fn umask() -> u16 {
    let present = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(present);
    u16::try_from(present.bits() & 0o777).unwrap_or(0o022)
}

/// A directory of the image, and a name in it at which a file is created, replaced or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The directory.
    pub parent: Ino,
    /// The name, whether it exists or not.
    pub name: Vec<u8>,
}

impl Target {
    /// Returns the target at `path`. The directory before the last name must exist.
    pub(super) fn of(volume: &Volume, path: &[u8]) -> Result<Self> {
        let (directory, name) = split(path).ok_or_else(|| {
            Failure::new(format!(
                "{}: the path must end in a file name",
                name::escaped(path)
            ))
        })?;
        let parent = volume
            .resolve(directory)
            .map_err(|error| of_path(directory, &error))?;
        Ok(Self {
            parent,
            name: name.to_vec(),
        })
    }

    /// Returns the target for the destination `path`, as cp(1) and mv(1) choose it: `name` in `path` if
    /// `path` is a directory, otherwise `path` itself.
    pub(super) fn in_or_at(volume: &Volume, path: &[u8], name: Option<&[u8]>) -> Result<Self> {
        match (directory(volume, path), name) {
            (Some(parent), Some(name)) => Ok(Self {
                parent,
                name: name.to_vec(),
            }),
            _ => Self::of(volume, path),
        }
    }

    /// Returns the target at `path`, which must exist. If the last name is a symbolic link, returns the
    /// target to which the link leads.
    pub(super) fn followed(volume: &Volume, path: &[u8]) -> Result<Self> {
        let mut path = path.to_vec();
        // This loop ends: the caller has already resolved the path, which fails if there are too many
        // links.
        loop {
            let target = Self::of(volume, &path)?;
            let present = target.present(volume);
            let present = present.map_err(|error| of_path(&path, &error))?;
            let Some(link) = present.filter(|file| file.kind == FileKind::Symlink) else {
                return Ok(target);
            };
            let to = volume
                .read_link(link.ino)
                .map_err(|error| of_path(&path, &error))?;
            // The text of a link is relative to the link's directory, unless it begins with a slash.
            let directory = split(&path).map_or(0, |(directory, _)| directory.len());
            path.truncate(if to.starts_with(b"/") { 0 } else { directory });
            path.extend_from_slice(&to);
        }
    }

    /// Returns the metadata of the file at the target, or `None` if the target does not exist.
    pub(super) fn present(&self, volume: &Volume) -> larder::Result<Option<larder::Metadata>> {
        match volume.lookup(self.parent, &self.name) {
            Ok(ino) => volume.metadata(ino).map(Some),
            Err(larder::Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the directory at `path`, if it exists.
pub(super) fn directory(volume: &Volume, path: &[u8]) -> Option<Ino> {
    let ino = volume.resolve(path).ok()?;
    let metadata = volume.metadata(ino).ok()?;
    (metadata.kind == FileKind::Directory).then_some(ino)
}

/// Splits a path into its directory and its last name. Returns `None` if the path has no last name, or if
/// the last name is `.` or `..`, which cannot be created or removed.
pub(super) fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = path.iter().rposition(|&byte| byte != b'/')? + 1;
    let start = path[..end]
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    let name = &path[start..end];
    (!matches!(name, b"." | b"..")).then_some((&path[..start], name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_path_is_split_at_the_first_colon_before_a_slash() {
        for (text, image, path) in [
            ("disk.img:/", "disk.img", "/"),
            ("a:b.img:/etc/x:/y", "a:b.img", "/etc/x:/y"),
            ("/srv/disk.img://etc", "/srv/disk.img", "//etc"),
        ] {
            let image_path = ImagePath::parse(OsStr::new(text)).unwrap();
            assert_eq!(
                (image_path.image, image_path.path),
                (Path::new(image), path.as_bytes())
            );
        }
        for text in ["disk.img", "disk.img:etc", ":/etc", "/etc", ""] {
            assert_eq!(ImagePath::parse(OsStr::new(text)), None, "{text:?}");
        }
    }

    #[test]
    fn path_is_split_before_its_last_name() {
        for (path, expected) in [
            ("/etc/passwd", Some(("/etc/", "passwd"))),
            ("/etc//new//", Some(("/etc//", "new"))),
            ("/new", Some(("/", "new"))),
            ("new", Some(("", "new"))),
            ("/", None),
            ("", None),
            ("/etc/..", None),
        ] {
            let expected =
                expected.map(|(directory, name)| (directory.as_bytes(), name.as_bytes()));
            assert_eq!(split(path.as_bytes()), expected, "{path:?}");
        }
    }
}
