//! Opens images for all commands. If a server that was unmounted still uses the image, the functions wait
//! until the server ends, at most [`TIMEOUT`]. [`open_or_fall_back`] opens an image read-only if the image cannot
//! be written.
//!
//! If an image is a disk image of another format, such as qcow2, the disk in it is opened. The format is the one that was
//! given, or that an overlay records. Otherwise it is guessed. If an image has partitions, the requested one is opened, or
//! the only one with an ext file system.

use crate::args::ImageArgs;
use crate::contents;
use crate::failure::{self, Access};
use crate::holder::is_ending;
use crate::mount_options;
use crate::overlay;
use crate::remote::{self, RemoteArgs, RemoteSettings};
use larder::{OpenOptions, Volume};
use larder_block::{
    BlockDevice, DeadlineDevice, DirectDevice, Error as DeviceError, FileDevice, FileRange,
    PartDevice, lock_holder,
};
use larder_console::{Failure, Result, print_hint, print_note, print_warning};
use larder_ext4::Error as Ext4Error;
use larder_image::{
    Contents, DiskError, DiskInfo, ImageFormat, Medium, Overlay, Partition, PartitionTable,
    device_memory_bytes,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum time for which a command waits for the end of a server that was unmounted.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between attempts to open the image.
const INTERVAL: Duration = Duration::from_millis(50);

/// With a profile, the memory for parts of an image at a URL is the memory for all caches divided by this number, but
/// at most [`MAX_PROFILE_BYTES`]. The parts may have to stay in memory until they are needed.
const PROFILE_DIVISOR: u64 = 4;
const MAX_PROFILE_BYTES: u64 = 128 << 20;

/// An image, and how the file system in it is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// The image: a path, or the label of a URL.
    pub image: &'a Path,
    /// The number of the requested partition.
    pub partition: Option<u32>,
    /// The format of the image, if it was given.
    pub format: Option<ImageFormat>,
    /// The file with the changes of the image, if they are not in the image.
    pub overlay: Option<&'a Path>,
    /// Whether the overlay is only read, although another process may have locked it for writing.
    pub ignores_lock: bool,
    /// How an image at a URL is accessed.
    pub remote: &'a RemoteArgs,
}

impl<'a> From<&'a ImageArgs> for Source<'a> {
    fn from(args: &'a ImageArgs) -> Self {
        Self {
            image: &args.image,
            partition: args.volume.partition,
            format: args.volume.format,
            overlay: args.volume.overlay.as_deref(),
            ignores_lock: false,
            remote: &args.volume.remote,
        }
    }
}

/// The result of opening an image.
pub(crate) struct Opened {
    /// What the image is, if it is a disk image of another format.
    pub disk: Option<DiskInfo>,
    pub content: Content,
    /// Whether another process had locked the image for writing. What was read may be out of date.
    pub is_in_use: bool,
}

/// The content of an image.
pub(crate) enum Content {
    /// The image, or the requested partition, has an ext file system.
    Volume(Box<Volume>),
    /// No partition was requested, and one of the partitions has an ext file system.
    OnlyPartition {
        /// The file system.
        volume: Box<Volume>,
        /// All partitions.
        table: PartitionTable,
        /// The number of the partition with the file system.
        number: u32,
    },
    /// The image has something else.
    Other(Contents),
}

/// The reason why an image was not opened.
enum Error {
    /// The file system or the device has failed.
    Volume {
        /// What has failed.
        error: larder::Error,
        /// The offset of the partition that was found in the image, or 0.
        offset_bytes: u64,
    },
    /// The image was to be written, but Larder only reads its format.
    ReadOnlyFormat(DiskInfo),
    /// The request cannot be met.
    Failure(Failure),
}

impl From<larder::Error> for Error {
    fn from(error: larder::Error) -> Self {
        Self::Volume {
            error,
            offset_bytes: 0,
        }
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        larder::Error::from(error).into()
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Error {
    fn describe(self, image: &Path, options: &OpenOptions) -> Failure {
        let access = if options.read_write {
            Access::Write
        } else {
            Access::Read
        };
        match self {
            Self::Volume {
                error,
                offset_bytes,
            } => {
                let offset_bytes = offset_bytes.max(options.offset_bytes);
                failure::of_image(image, offset_bytes, access, &error)
            }
            Self::ReadOnlyFormat(disk) => contents::not_writable(image, disk),
            Self::Failure(failure) => failure,
        }
    }
}

/// Opens an image read-only, for the commands that do not mount.
pub(crate) fn open_image(args: &ImageArgs) -> Result<Volume> {
    open(args.into(), &read_options(args))
}

/// Opens an image read-only like [`open_image`]. Also returns whether offsets in the disk with the file system are
/// offsets in the local file. This is so without an overlay, unless the image is at a URL or is a disk image of another
/// format.
pub(crate) fn open_raw(args: &ImageArgs) -> Result<(Volume, bool)> {
    let source = Source::from(args);
    let options = read_options(args);
    let opened = open_source(source, &options).and_then(|opened| {
        let is_raw =
            opened.disk.is_none() && source.overlay.is_none() && !remote::is_remote(source.image);
        Ok((volume_in(opened, source)?, is_raw))
    });
    opened.map_err(|error| error.describe(&args.image, &options))
}

/// Opens an image read-only like [`open_image`], but succeeds if the image has no ext file system, or if another process
/// has locked it, or its overlay, for writing.
pub(crate) fn open_any(args: &ImageArgs) -> Result<Opened> {
    let source = Source::from(args);
    let options = read_options(args);
    let opened = open_source(source, &options).or_else(|error| {
        let is_in_use = match (source.overlay, &error) {
            (Some(path), _) => {
                overlay::open_file(path, 0, false).is_err_and(|error| is_locked(&error))
            }
            (None, Error::Volume { error, .. }) => is_locked(error),
            (None, _) => false,
        };
        if is_in_use {
            open_in_use(source, &options)
        } else {
            Err(error)
        }
    });
    opened.map_err(|error| error.describe(&args.image, &options))
}

/// Opens the image of `source`, which another process has locked for writing or, if it has an overlay, whose overlay is
/// locked. The journal is not replayed, because the other process writes to it.
fn open_in_use(source: Source<'_>, options: &OpenOptions) -> Result<Opened, Error> {
    let source = Source {
        ignores_lock: true,
        ..source
    };
    let (device, mut options) = if source.overlay.is_some() {
        open_device(source, options)?
    } else {
        let file = FileDevice::open_unlocked(source.image, FileRange::default())?;
        let file: Arc<dyn BlockDevice> = Arc::new(file);
        (file, options.clone())
    };
    options.noload = true;
    let opened = Disk::new(source, &device, &options)?.open(source)?;
    Ok(Opened {
        is_in_use: true,
        ..opened
    })
}

/// Opens the whole disk of `args` for reading, with the changes of its overlay.
pub(crate) fn open_disk_of(args: &ImageArgs) -> Result<Arc<dyn BlockDevice>> {
    let options = read_options(args);
    let opened = open_device(args.into(), &options)
        .and_then(|(device, options)| Disk::new(args.into(), &device, &options));
    let disk = opened.map_err(|error| error.describe(&args.image, &options))?;
    Ok(disk.medium.device)
}

/// Returns the format of the image of `source`, if it is known: the one that its overlay records, or the one that was given.
///
/// # Errors
/// If the two differ, or if the overlay cannot be read.
pub(crate) fn format_of(source: Source<'_>) -> Result<Option<ImageFormat>> {
    let Some(path) = source.overlay.filter(|path| path.exists()) else {
        return Ok(source.format);
    };
    let file = open_overlay(source, path, 0, false)?;
    let info =
        Overlay::info(&*file).map_err(|error| overlay::not_usable(path, source.image, &error))?;
    overlay::format_of_base(path, &info.base, source.format).map(Some)
}

/// Opens the file at `path`, which is the overlay of `source`, for a disk of `size_bytes`.
fn open_overlay(
    source: Source<'_>,
    path: &Path,
    size_bytes: u64,
    is_writing: bool,
) -> Result<Arc<dyn BlockDevice>> {
    let opened: larder::Result<Arc<dyn BlockDevice>> = if source.ignores_lock {
        FileDevice::open_unlocked(path, FileRange::default())
            .map(|file| Arc::new(file) as _)
            .map_err(larder::Error::from)
    } else {
        when_free(path, source.image, || {
            overlay::open_file(path, size_bytes, is_writing)
        })
    };
    opened.map_err(|error| overlay::not_opened(path, &error))
}

/// Returns the options for reading the image of `args`.
fn read_options(args: &ImageArgs) -> OpenOptions {
    let options = mount_options::open_options(&args.volume);
    if remote::is_remote(&args.image) {
        options.for_server()
    } else {
        options
    }
}

/// Opens the image of `source` with `options`.
pub(crate) fn open(source: Source<'_>, options: &OpenOptions) -> Result<Volume> {
    volume_of(source, options).map_err(|error| error.describe(source.image, options))
}

/// Opens the image of `source` with `options`. If `options` request writing and the image cannot be written, prints
/// a warning, opens the image read-only, and changes `options` to read-only.
pub(crate) fn open_or_fall_back(source: Source<'_>, options: &mut OpenOptions) -> Result<Volume> {
    if remote::is_remote(source.image) && source.overlay.is_none() {
        options.read_write = false;
        return open(source, options);
    }
    let error = match volume_of(source, options) {
        Ok(volume) => return Ok(volume),
        Err(error) => error,
    };
    let refused = match &error {
        Error::Volume {
            error,
            offset_bytes,
        } if options.read_write => {
            read_only_reason(error).map(|why| (why.to_owned(), *offset_bytes))
        }
        Error::ReadOnlyFormat(disk) => Some((format!("it is {}", disk.format.description()), 0)),
        _ => None,
    };
    let Some((why, offset_bytes)) = refused else {
        return Err(error.describe(source.image, options));
    };
    options.read_write = false;
    let volume = open(source, options)?;
    print_warning(&format!(
        "image {} is mounted read-only: {why}",
        source.image.display()
    ));
    let offset_bytes = offset_bytes.max(options.offset_bytes);
    let hint = failure::e2fsprogs_hint(&why, source.image, offset_bytes);
    if let Some(hint) = hint.filter(|_| source.overlay.is_none()) {
        print_hint(&hint);
    }
    Ok(volume)
}

/// Opens the image of `source`, which must have an ext file system.
fn volume_of(source: Source<'_>, options: &OpenOptions) -> Result<Volume, Error> {
    volume_in(open_source(source, options)?, source)
}

fn volume_in(opened: Opened, source: Source<'_>) -> Result<Volume, Error> {
    match opened.content {
        Content::Volume(volume) | Content::OnlyPartition { volume, .. } => Ok(*volume),
        Content::Other(contents) => {
            Err(contents::not_ext(source.image, opened.disk, &contents).into())
        }
    }
}

/// Opens the image of `source`.
fn open_source(source: Source<'_>, options: &OpenOptions) -> Result<Opened, Error> {
    let image = source.image;
    check_profile(image, source.remote)?;
    let (device, opened_options) = open_device(source, options)?;
    let disk = Disk::new(source, &device, &opened_options)?;
    drop(device);
    if remote::is_remote(image) || disk.medium.disk.is_some() || source.overlay.is_some() {
        return disk.open(source);
    }
    let Medium {
        contents, device, ..
    } = disk.medium;
    // The device has a lock, which would prevent opening the image for writing.
    drop(device);
    let content = open_found(source, options, None, contents, |options| {
        Ok(when_free(image, image, || Volume::open(image, options))?)
    })?;
    Ok(Opened {
        disk: None,
        content,
        is_in_use: false,
    })
}

/// Opens the whole file or block device at `path` for reading.
fn open_file(path: &Path, options: &OpenOptions) -> larder::Result<Arc<dyn BlockDevice>> {
    let range = FileRange::default();
    let file: Arc<dyn BlockDevice> = if options.direct_device {
        Arc::new(DirectDevice::open(path, range)?)
    } else {
        Arc::new(FileDevice::open(path, range)?)
    };
    Ok(match options.device_timeout {
        // A disk in the file has threads that read the file. They must also stop waiting.
        Some(timeout) => Arc::new(DeadlineDevice::new(file, timeout)),
        None => file,
    })
}

/// Opens the whole image of `source` for reading. Also returns the options for its volume.
fn open_device(
    source: Source<'_>,
    options: &OpenOptions,
) -> Result<(Arc<dyn BlockDevice>, OpenOptions), Error> {
    let Source { image, remote, .. } = source;
    if !remote::is_remote(image) {
        let file = when_free(image, image, || open_file(image, options))?;
        return Ok((file, options.clone()));
    }
    if options.read_write && source.overlay.is_none() {
        let hint = "give --overlay FILE to keep the changes in a local file";
        let message = format!(
            "image {} is not local, and cannot be written",
            image.display()
        );
        return Err(Failure::with_hint(message, hint).into());
    }
    let settings = RemoteSettings {
        args: remote.clone(),
        deadline: options.device_timeout,
        memory_bytes: memory_bytes(options, remote),
    };
    let device = remote::open(image, &settings)?;
    let mut options = options.clone();
    options.cache_size_bytes -= settings.memory_bytes;
    Ok((device, options))
}

/// A whole image: a file, an object on a server, or the disk in one of these; with the changes of an overlay, if there is
/// one.
struct Disk {
    medium: Medium,
    /// The options for the volume, in which the cache size is reduced by the memory that the device uses.
    options: OpenOptions,
}

impl Disk {
    /// Examines `device`, which has the image of `source`. If this is a disk image, opens the disk in it. Adds the overlay of
    /// `source`.
    fn new(
        source: Source<'_>,
        device: &Arc<dyn BlockDevice>,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let mut options = options.clone();
        let memory_bytes = device_memory_bytes(options.cache_size_bytes);
        let format = format_of(source)?;
        let opened = Medium::open(Arc::clone(device), format, source.partition, memory_bytes);
        let mut medium =
            opened.map_err(
                |(format, error)| match (source.overlay, source.format, &error) {
                    (Some(path), None, DiskError::OtherFormat) => {
                        overlay::of_other_format(path, source.image, format)
                    }
                    _ => overlay::explained(source.image, format, device, &error),
                },
            )?;
        if medium.disk.is_some() {
            options.cache_size_bytes -= memory_bytes;
        }
        if let Some(path) = source.overlay {
            let base = overlay::BaseImage {
                image: source.image,
                device: Arc::clone(&medium.device),
                format: medium.disk.map(|disk| disk.format),
            };
            if options.read_write && !path.exists() {
                check_base(source, &medium, &options)?;
                overlay::create(path, &base)?;
            }
            let size_bytes = base.device.size_bytes();
            let file = open_overlay(source, path, size_bytes, options.read_write)?;
            let changed = Arc::new(overlay::open(path, file, base)?);
            medium = if format == Some(ImageFormat::Raw) {
                Medium::raw(changed, source.partition)
            } else {
                Medium::new(changed, medium.disk, source.partition)
            };
        }
        Ok(Self { medium, options })
    }

    /// Opens the file system of `source` on the device. The device can be written to only if there is an overlay.
    fn open(self, source: Source<'_>) -> Result<Opened, Error> {
        let Self { medium, options } = self;
        let Medium {
            device,
            disk,
            contents,
        } = medium;
        if let Some(disk) = disk
            && options.read_write
            && !device.is_writable()
        {
            return Err(Error::ReadOnlyFormat(disk));
        }
        let opened = open_found(source, &options, disk, contents, |options| {
            let range = FileRange {
                offset_bytes: options.offset_bytes,
                size_bytes: options.size_bytes,
            };
            let part: Arc<dyn BlockDevice> = if range == FileRange::default() {
                device
            } else {
                Arc::new(PartDevice::new(device, range)?)
            };
            Ok(Volume::open_device(part, options)?)
        });
        let content = opened.map_err(|error| match error {
            // The programs of e2fsprogs do not find a file system in a disk image, and do not know overlays.
            Error::Volume { error, .. } if disk.is_some() || source.overlay.is_some() => {
                failure::of_image(&named(source), 0, Access::Read, &error).into()
            }
            error => error,
        })?;
        Ok(Opened {
            disk,
            content,
            is_in_use: false,
        })
    }
}

/// Checks that the image of `source`, which is `medium`, has the file system that is to be opened. Otherwise, a new overlay
/// would belong to the wrong image.
fn check_base(source: Source<'_>, medium: &Medium, options: &OpenOptions) -> Result<(), Error> {
    // If the partition is given, no note about it is printed.
    let only = || Some(medium.contents.place(None).ok()??.number);
    let source = Source {
        partition: source.partition.or_else(only),
        overlay: None,
        ..source
    };
    let mut options = options.clone();
    options.read_write = false;
    options.noload = true;
    options.tape = None;
    let disk = Disk {
        medium: medium.clone(),
        options,
    };
    volume_in(disk.open(source)?, source).map(drop)
}

/// Returns the name of the disk of `source` in messages.
fn named(source: Source<'_>) -> PathBuf {
    let mut name = source.image.as_os_str().to_owned();
    if let Some(overlay) = source.overlay {
        name.push(" with overlay ");
        name.push(overlay);
    }
    name.into()
}

/// Finds the file system of `source`, whose image has these `contents`, unless the user has given its place. Opens it by
/// `open`, whose argument is `options` with the place of the file system. If a partition was found that the user has not
/// requested, reports it. If the image is a disk image of another format, `disk` describes it.
fn open_found(
    source: Source<'_>,
    options: &OpenOptions,
    disk: Option<DiskInfo>,
    contents: Contents,
    open: impl FnOnce(&OpenOptions) -> Result<Volume, Error>,
) -> Result<Content, Error> {
    if source.partition == Some(0) || options.offset_bytes > 0 {
        return Ok(Content::Volume(Box::new(open(options)?)));
    }
    let found = match contents.place(source.partition) {
        Ok(found) => found,
        Err(_) if source.partition.is_none() => return Ok(Content::Other(contents)),
        Err(error) => {
            return Err(contents::not_found(source.image, disk, &contents, &error).into());
        }
    };
    let opened = match found {
        Some(found) => open(&within(options, found)),
        None => open(options),
    };
    let volume = match opened {
        Ok(volume) => Box::new(volume),
        Err(Error::Volume {
            error: larder::Error::Ext4(Ext4Error::NotExt),
            ..
        }) if found.is_none() => return Ok(Content::Other(contents)),
        Err(Error::Volume { error, .. }) => {
            let offset_bytes = found.map_or(0, |found| found.offset_bytes);
            return Err(Error::Volume {
                error,
                offset_bytes,
            });
        }
        Err(failure) => return Err(failure),
    };
    let only = found.filter(|_| source.partition.is_none());
    if let Some(only) = only {
        print_note(&format!(
            "using partition {}, the only one with an ext file system",
            contents::described(only)
        ));
    }
    let number = only.map(|only| only.number);
    Ok(match (number, contents) {
        (Some(number), Contents::Partitions(table)) => Content::OnlyPartition {
            volume,
            table,
            number,
        },
        _ => Content::Volume(volume),
    })
}

/// Returns `options` for the file system in `partition`.
fn within(options: &OpenOptions, partition: &Partition) -> OpenOptions {
    let mut options = options.clone();
    options.offset_bytes = partition.offset_bytes;
    options.size_bytes = Some(partition.size_bytes);
    options
}

/// Returns the part of the memory for all caches that holds parts of an image at a URL, in bytes.
fn memory_bytes(options: &OpenOptions, args: &RemoteArgs) -> u64 {
    if args.profile.is_some() {
        MAX_PROFILE_BYTES.min(options.cache_size_bytes / PROFILE_DIVISOR)
    } else {
        device_memory_bytes(options.cache_size_bytes)
    }
}

/// Checks that the options for profiles can be used with `image`.
fn check_profile(image: &Path, remote: &RemoteArgs) -> Result<()> {
    let has_profile = remote.profile.is_some() || remote.profile_record.is_some();
    if has_profile && !remote::is_remote(image) {
        return Err(Failure::usage(
            "--profile and --profile-record need an image at a URL",
        ));
    }
    if remote.profile.is_some() && remote.offline {
        return Err(Failure::Usage {
            message: "--profile and --offline cannot be used together".to_owned(),
            hint: Some(
                "omit --profile: --offline reads only the disk cache, and fetches nothing"
                    .to_owned(),
            ),
        });
    }
    Ok(())
}

/// Returns whether a file cannot be opened because another process has locked it.
fn is_locked(error: &larder::Error) -> bool {
    matches!(
        error,
        larder::Error::Ext4(Ext4Error::Device(DeviceError::Locked { .. }))
    )
}

/// Opens `file`, which is `image` or its overlay, by `open`. If a process of larder has locked the file, and the image is not
/// mounted, waits until the file is unlocked, at most [`TIMEOUT`]. The process is then a server that was unmounted, or a
/// command.
fn when_free<T>(
    file: &Path,
    image: &Path,
    open: impl Fn() -> larder::Result<T>,
) -> larder::Result<T> {
    let start = Instant::now();
    let mut has_noted = false;
    loop {
        let opened = open();
        if !opened.as_ref().is_err_and(is_locked) || start.elapsed() >= TIMEOUT {
            return opened;
        }
        match lock_holder(file) {
            // The process that held the lock may have ended after the first attempt.
            None => return open(),
            Some(holder) if !is_ending(image, &holder) => return opened,
            Some(holder) if !has_noted => {
                has_noted = true;
                print_note(&format!(
                    "waiting for process {} ({}) to finish with {}",
                    holder.pid,
                    holder.name,
                    file.display()
                ));
            }
            Some(_) => {}
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Returns the reason why an image can be read but not written, or `None` if `error` has another cause.
fn read_only_reason(error: &larder::Error) -> Option<&str> {
    let larder::Error::Ext4(error) = error else {
        return None;
    };
    match error {
        Ext4Error::Device(DeviceError::Open { source, .. }) => match source.kind() {
            io::ErrorKind::PermissionDenied => Some("no permission to write it"),
            io::ErrorKind::ReadOnlyFilesystem => Some("it is on a read-only file system or device"),
            _ => None,
        },
        Ext4Error::NotWritable(why) => Some(why),
        Ext4Error::ReadOnly(_) => Some("the device is read-only"),
        _ => None,
    }
}
