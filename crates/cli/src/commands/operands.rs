//! The operands of commands: an image and paths inside it; and functions shared by the commands that change images.

use crate::args::ImageArgs;
use crate::failure::of_path;
use crate::image_path::ImagePath;
use crate::reporting_clock::ReportingClock;
use crate::{mount_options, opening, remote};
use larder::{FileKind, Ino, NewFile, Volume};
use larder_console::{Failure, Result, name};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// An image, and paths inside it.
#[derive(Clone, Debug)]
pub(super) struct Operands {
    pub source: ImageArgs,
    pub paths: Vec<OsString>,
}

impl Operands {
    /// Returns the operands of a command, which have one of two forms: `IMAGE PATH...`, or `IMAGE:/PATH...` with the same
    /// image in all of them. `default` is the path if there is only an image; if it is `None`, a path is required.
    pub(super) fn new(
        first: &ImageArgs,
        others: &[OsString],
        default: Option<&str>,
    ) -> Result<Self> {
        let Some(own) = ImagePath::parse(first.image.as_os_str()) else {
            return Self::after_image(first, others, default);
        };
        let mut paths = vec![OsStr::from_bytes(own.path).to_owned()];
        for other in others {
            let found = ImagePath::required(other, || {
                format!(
                    "write {}, or the image and then only paths inside it",
                    in_image(own.image, other.as_bytes())
                )
            })?;
            if !is_same_image(found.image, own.image) {
                let (one, other) = (shown(own.image), shown(found.image));
                return Err(Failure::usage_with_hint(
                    format!("{one} and {other} are two images"),
                    "run the command once for each image",
                ));
            }
            paths.push(OsStr::from_bytes(found.path).to_owned());
        }
        Ok(Self {
            source: own.source(&first.volume),
            paths,
        })
    }

    /// Returns the operands in the form `IMAGE PATH...`.
    fn after_image(source: &ImageArgs, paths: &[OsString], default: Option<&str>) -> Result<Self> {
        let image = &*source.image;
        check_slash(image)?;
        let repeated = paths.iter().find(|path| {
            ImagePath::split(path).is_some_and(|found| found.image.as_os_str() == image.as_os_str())
        });
        if let Some(repeated) = repeated {
            let repeated = name::escaped(repeated.as_bytes());
            return Err(Failure::usage_with_hint(
                format!("'{repeated}' names the image again"),
                format!("write only {repeated}, without {} before it", shown(image)),
            ));
        }
        let mut paths = paths.to_vec();
        if paths.is_empty() {
            let default = default.ok_or_else(|| {
                Failure::usage_with_hint(
                    "there is no path inside the image",
                    format!("write {0}:/PATH, or {0} PATH", shown(image)),
                )
            })?;
            paths.push(default.into());
        }
        Ok(Self {
            source: source.clone(),
            paths,
        })
    }
}

/// Returns whether two paths name the same image. Two files of the same block device are one image.
pub(super) fn is_same_image(one: &Path, other: &Path) -> bool {
    if one == other {
        return true;
    }
    let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) else {
        return false;
    };
    let is_same_file = (one.dev(), one.ino()) == (other.dev(), other.ino());
    let are_devices = one.file_type().is_block_device() && other.file_type().is_block_device();
    is_same_file || (are_devices && one.rdev() == other.rdev())
}

/// Fails if `text` has the form `IMAGE:path`, in which the slash is missing, and only the part before the colon exists.
pub(super) fn check_slash(text: &Path) -> Result<()> {
    match without_slash(text) {
        Some((image, path)) => Err(Failure::usage_with_hint(
            format!("image {} does not exist", shown(text)),
            format!("write {}", in_image(image, path)),
        )),
        None => Ok(()),
    }
}

/// Splits `IMAGE:path`, in which the slash is missing, if only the part before the colon exists.
fn without_slash(text: &Path) -> Option<(&Path, &[u8])> {
    if remote::is_url(text.as_os_str()) {
        return None;
    }
    let bytes = text.as_os_str().as_bytes();
    let at = bytes.iter().position(|&byte| byte == b':')?;
    let image = Path::new(OsStr::from_bytes(&bytes[..at]));
    let is_image = image.exists() && !image.is_dir();
    (is_image && !text.exists()).then_some((image, &bytes[at + 1..]))
}

/// Returns how `path` in `image` is written, for a hint.
pub(super) fn in_image(image: &Path, path: &[u8]) -> String {
    let start = path.iter().position(|&byte| byte != b'/');
    let path = path.get(start.unwrap_or(path.len())..).unwrap_or_default();
    format!("{}:/{}", shown(image), name::escaped(path))
}

fn shown(image: &Path) -> String {
    name::escaped(image.as_os_str().as_bytes())
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
    use crate::args::VolumeArgs;
    use std::path::PathBuf;

    fn operands(args: &[&str]) -> Result<(PathBuf, Vec<OsString>), (String, Option<String>)> {
        let first = ImageArgs {
            volume: VolumeArgs::default(),
            image: args[0].into(),
        };
        let others: Vec<OsString> = args[1..].iter().map(OsString::from).collect();
        match Operands::new(&first, &others, None) {
            Ok(operands) => Ok((operands.source.image, operands.paths)),
            Err(Failure::Usage { message, hint }) => Err((message, hint)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn both_forms_of_operands_are_equal() {
        let expected = Ok(("x.img".into(), vec!["/a".into(), "/b:/c".into()]));
        assert_eq!(operands(&["x.img", "/a", "/b:/c"]), expected);
        assert_eq!(operands(&["x.img:/a", "x.img:/b:/c"]), expected);
    }

    #[test]
    fn wrong_forms_are_answered_with_the_right_one() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("disk.img");
        std::fs::write(&image, "").unwrap();
        let image = image.to_str().unwrap();
        for (args, hint) in [
            (&["IMG"] as &[&str], "write IMG:/PATH, or IMG PATH"),
            (&["IMG:etc"], "write IMG:/etc"),
            (&["IMG:"], "write IMG:/"),
            (
                &["IMG", "IMG:/etc"],
                "write only IMG:/etc, without IMG before it",
            ),
            (
                &["IMG:/a", "b"],
                "write IMG:/b, or the image and then only paths inside it",
            ),
            (
                &["IMG:/a", "other.img:/b"],
                "run the command once for each image",
            ),
        ] {
            let args: Vec<String> = args.iter().map(|arg| arg.replace("IMG", image)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let (_, found) = operands(&args).unwrap_err();
            assert_eq!(found, Some(hint.replace("IMG", image)), "{args:?}");
        }
    }

    #[test]
    fn image_can_be_written_in_two_ways() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("disk.img");
        std::fs::write(&image, "").unwrap();
        let image = image.to_str().unwrap();
        let folder = folder.path().to_str().unwrap();
        let (_, name) = folder.rsplit_once('/').unwrap();
        let (one, other) = (
            format!("{image}:/a"),
            format!("{folder}/../{name}/disk.img:/b"),
        );
        let expected = Ok((image.into(), vec!["/a".into(), "/b".into()]));
        assert_eq!(operands(&[&*one, &*other]), expected);
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
