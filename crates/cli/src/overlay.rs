//! Overlays: local files that keep the changes of images. See [`larder_image::Overlay`].

use crate::args::ImageArgs;
use crate::{contents, remote};
use larder_block::{BlockDevice, FileDevice, FileRange};
use larder_console::{Failure, Result, name};
use larder_image::{Base, DiskError, Format, ImageFormat, Overlay, OverlayError, quoted};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;

/// An image that does not change.
#[derive(Clone, Debug)]
pub(crate) struct BaseImage<'a> {
    /// The path, or the label of a URL.
    pub image: &'a Path,
    /// The image, or the disk in it.
    pub device: Arc<dyn BlockDevice>,
    /// The format, if the image is a disk image.
    pub format: Option<Format>,
}

/// Creates an overlay on `base` at `path`. Does nothing if another process creates a file there at the same time.
pub(crate) fn create(path: &Path, base: &BaseImage<'_>) -> Result<()> {
    let name = if remote::is_remote(base.image) {
        base.image.to_owned()
    } else {
        fs::canonicalize(base.image).unwrap_or_else(|_| base.image.to_owned())
    };
    let name = name.as_os_str().as_bytes().to_vec();
    let raw = ImageFormat::Raw.as_str();
    let format = base.format.map_or(raw, Format::as_str).to_owned();
    let create = || -> Result<(), Box<dyn std::error::Error>> {
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let unnamed = Unnamed::new_in(directory)?;
        let file_bytes = Overlay::max_file_bytes(base.device.size_bytes())?;
        let file = FileDevice::open_growing(&unnamed.path(), file_bytes)?;
        Overlay::create(&file, &*base.device, name, format)?;
        drop(file);
        // The changes are as private as the image.
        let mode = fs::metadata(base.image).ok().filter(fs::Metadata::is_file);
        if let Some(metadata) = mode {
            let permissions = Permissions::from_mode(metadata.permissions().mode() & 0o666 | 0o600);
            unnamed.file().set_permissions(permissions)?;
        }
        match unnamed.link_as(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        Ok(File::open(directory)?.sync_all()?)
    };
    create()
        .map_err(|error| Failure::new(format!("cannot create overlay {}: {error}", path.display())))
}

/// A new file, which gets its name when it is complete.
enum Unnamed {
    /// A file without a name. It is deleted if this process is killed.
    Nameless(File),
    /// A file with a temporary name, on a file system that has no files without a name.
    Temporary(NamedTempFile),
}

impl Unnamed {
    fn new_in(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Self::Nameless(file.into())),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                NamedTempFile::new_in(directory).map(Self::Temporary)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn file(&self) -> &File {
        match self {
            Self::Nameless(file) => file,
            Self::Temporary(file) => file.as_file(),
        }
    }

    /// Returns a path with which this process can open the file.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file().as_raw_fd()))
    }

    /// Gives the file the name `path`, unless there is a file with this name.
    fn link_as(self, path: &Path) -> io::Result<()> {
        let own_path = self.path();
        match self {
            Self::Nameless(_file) => {
                let flags = AtFlags::SYMLINK_FOLLOW;
                Ok(rustix::fs::linkat(CWD, &own_path, CWD, path, flags)?)
            }
            Self::Temporary(file) => Ok(file.persist_noclobber(path).map(drop)?),
        }
    }
}

/// Returns `source` with the overlay at `path`.
pub(crate) fn with(source: &ImageArgs, path: &Path) -> Result<ImageArgs> {
    if source.volume.overlay.is_some() {
        return Err(Failure::usage(
            "--overlay cannot be used here: the overlay is the first argument",
        ));
    }
    let mut source = source.clone();
    source.volume.overlay = Some(path.to_owned());
    Ok(source)
}

/// Opens the file of the overlay at `path` for a disk of `size_bytes`.
pub(crate) fn open_file(
    path: &Path,
    size_bytes: u64,
    is_writing: bool,
) -> larder::Result<Arc<dyn BlockDevice>> {
    // `max_file_bytes` fails if the disk is too large. Then the size of the file does not matter, because
    // [`open`], which is called next, returns an error.
    let file_bytes = Overlay::max_file_bytes(size_bytes).unwrap_or(0);
    Ok(Arc::new(if is_writing {
        FileDevice::open_growing(path, file_bytes)?
    } else {
        FileDevice::open(path, FileRange::default())?
    }))
}

/// Opens an overlay on `base`. `file` is the file of the overlay, which was opened at `path`.
pub(crate) fn open(
    path: &Path,
    file: Arc<dyn BlockDevice>,
    base: BaseImage<'_>,
) -> Result<Overlay> {
    Overlay::open(file, base.device).map_err(|error| not_usable(path, base.image, &error))
}

/// Returns the format of `base`, which the overlay at `path` records. If a format was `given`, it must be the same.
pub(crate) fn format_of_base(
    path: &Path,
    base: &Base,
    given: Option<ImageFormat>,
) -> Result<ImageFormat> {
    let overlay = path.display();
    let Ok(recorded) = base.format.parse::<ImageFormat>() else {
        let format = name::escaped(base.format.as_bytes());
        return Err(Failure::new(format!(
            "overlay {overlay} was created for an image of the format {format}, which larder does not read"
        )));
    };
    match given {
        Some(given) if given != recorded => Err(Failure::with_hint(
            format!(
                "overlay {overlay} was created for an image of the format {recorded}, and the given format is {given}"
            ),
            "omit the format, or create another overlay",
        )),
        _ => Ok(recorded),
    }
}

/// Returns the failure for `image`, which does not have the `format` that the overlay at `path` records.
pub(crate) fn of_other_format(path: &Path, image: &Path, format: Format) -> Failure {
    Failure::with_hint(
        format!(
            "overlay {} was created for an image of the format {}, and {} does not have this format",
            path.display(),
            format.as_str(),
            image.display()
        ),
        "restore the image, or create another overlay",
    )
}

/// Returns the failure for the overlay at `path`, whose file cannot be opened.
pub(crate) fn not_opened(path: &Path, error: &larder::Error) -> Failure {
    let message = format!("overlay {}: {error}", path.display());
    if path.exists() {
        return Failure::new(message);
    }
    Failure::with_hint(
        message,
        "larder mount --overlay creates it, as do the commands that change files of an image",
    )
}

/// Returns the failure for the overlay at `path`, which cannot be used on `image`.
pub(crate) fn not_usable(path: &Path, image: &Path, error: &OverlayError) -> Failure {
    let overlay = path.display();
    match error {
        OverlayError::OtherBase { recorded, given } => Failure::with_hint(
            format!(
                "overlay {overlay} does not belong to this state of {}: it was created for {} ({} image, {}), not for \
                 {given}",
                image.display(),
                name::escaped(&recorded.name),
                name::escaped(recorded.format.as_bytes()),
                name::escaped(recorded.version.as_bytes()),
            ),
            "restore the image, or create another overlay",
        ),
        OverlayError::Committing { recorded } => {
            let (message, hint) = committing(path, recorded);
            Failure::with_hint(message, hint)
        }
        OverlayError::ChangedInCommit {
            recorded,
            offset_bytes,
        } => Failure::with_hint(
            format!(
                "overlay {overlay}: the interrupted commit to {} was not continued: since the interruption, {} was changed \
                 at byte {offset_bytes}, or it is another image",
                name::escaped(recorded),
                image.display(),
            ),
            format!(
                "restore the image, and commit again; or remove the overlay with larder overlay discard --force {}: the \
                 image then still contains a part of the changes",
                quoted(&overlay.to_string())
            ),
        ),
        OverlayError::Base(error) => Failure::new(format!("image {}: {error}", image.display())),
        OverlayError::Device(error) => Failure::with_hint(
            format!("overlay {overlay}: {error}"),
            "check the storage device of the overlay, not that of the image; restore the overlay from a copy",
        ),
        OverlayError::Truncated | OverlayError::Damaged(_) => Failure::with_hint(
            format!("overlay {overlay}: {error}"),
            format!(
                "restore the overlay from a copy; to give up the changes, remove it with larder overlay discard --force {}",
                quoted(&overlay.to_string())
            ),
        ),
        OverlayError::Committed => Failure::with_hint(
            format!("overlay {overlay}: {error}"),
            format!(
                "remove it with larder overlay discard {}",
                quoted(&overlay.to_string())
            ),
        ),
        OverlayError::Foreign => Failure::with_hint(
            format!("overlay {overlay}: {error}"),
            "qemu-img convert writes the disk with the changes to a new image",
        ),
        _ => Failure::new(format!("overlay {overlay}: {error}")),
    }
}

/// Returns the message and the hint for the overlay at `path`, whose commit to the image `recorded` was interrupted.
pub(crate) fn committing(path: &Path, recorded: &[u8]) -> (String, String) {
    let overlay = path.display().to_string();
    let message = format!(
        "overlay {overlay}: its commit was interrupted, so {} has only a part of the changes",
        name::escaped(recorded)
    );
    let hint = format!(
        "complete it with larder overlay commit {} IMAGE, where IMAGE is this image",
        quoted(&overlay)
    );
    (message, hint)
}

/// Returns the failure for `image`, a disk image of `format` in `file` that cannot be opened. If it is an overlay, explains
/// how it is used.
pub(crate) fn explained(
    image: &Path,
    format: Format,
    file: &Arc<dyn BlockDevice>,
    error: &DiskError,
) -> Failure {
    match Overlay::info(&**file) {
        Ok(info) if matches!(error, DiskError::OtherFile { .. }) => {
            let path = image.display();
            Failure::with_hint(
                format!(
                    "{path} is an overlay, which has only the changes of {}",
                    name::escaped(&info.base.name)
                ),
                format!(
                    "if you trust it, give the image, too: larder mount --overlay {} IMAGE MOUNTPOINT",
                    quoted(&path.to_string()),
                ),
            )
        }
        _ => contents::unusable(image, format, error),
    }
}
