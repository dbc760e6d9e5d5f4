//! The arguments that name an image and files of it, and how the image is opened.

use crate::remote::RemoteArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, Args};
use larder_console::size;
use larder_image::ImageFormat;
use std::ffi::OsString;
use std::path::PathBuf;

/// How an image is opened, for every command that opens one.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct VolumeArgs {
    /// Offset of the file system (suffixes K, M, G, T)
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub offset: Option<u64>,
    /// Number of the partition, from 1 [default: the partition with an ext file system, if there is exactly one]
    ///
    /// Partitions are numbered as in the kernel: for example, 2 for the device sda2. With 0, the file
    /// system of the whole image is used, even if there is a partition table.
    #[arg(long, value_name = "N", conflicts_with = "offset")]
    pub partition: Option<u32>,
    /// Format of the image [default: detected from its first bytes]
    ///
    /// With raw, the bytes of the image are those of the disk, even if they look like another format. Always give
    /// --format raw for a raw disk to which someone else can write, such as the user of a virtual machine. With --overlay,
    /// and in the command 'larder overlay', the default is the format that the overlay records.
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<ImageFormat>,
    /// Total memory of all caches [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_cache)]
    pub cache_size: Option<u64>,
    /// Ignore the journal
    ///
    /// With this option, a mount is read-only, and the commands of larder that change the image, such as put, fail.
    #[arg(long)]
    pub noload: bool,
    /// Store all changes in FILE instead of the image
    ///
    /// FILE is a local qcow2 file, called an overlay. If FILE does not exist, it is created by a read-write mount or
    /// by a command that changes files, such as larder put. The overlay belongs to this image: if the image changes,
    /// the overlay can no longer be used.
    #[arg(long, value_name = "FILE")]
    pub overlay: Option<PathBuf>,
    #[command(flatten)]
    pub remote: RemoteArgs,
}

fn formats() -> impl TypedValueParser<Value = ImageFormat> {
    PossibleValuesParser::new(ImageFormat::ALL.map(ImageFormat::as_str))
        .try_map(|name| name.parse::<ImageFormat>())
}

/// An image that a command reads or changes, and how it is opened.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImageArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Image file, block device or URL
    pub image: PathBuf,
}

/// Files of an image, in the form `IMAGE PATH...` or `IMAGE:/PATH...`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FilesArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Paths inside the image
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
}

/// Returns the option `--help` for commands in which `-h` has another meaning.
pub(crate) fn long_help_flag() -> Arg {
    Arg::new("help")
        .long("help")
        .action(ArgAction::HelpLong)
        .help("Print help")
}
