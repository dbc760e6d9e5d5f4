//! The arguments and the help of `larder shrink`.

use clap::Args;
use larder_console::size;
use std::path::PathBuf;

/// Make an image as small as its content permits
///
/// IMAGE must be a local file that contains an ext2, ext3 or ext4 file system and no partitions. It must not be in use, and
/// its file system must be clean. The command prints the old and the new size.
///
/// The programs e2fsck and resize2fs (package e2fsprogs) check and shrink a copy in the directory of IMAGE. The copy then
/// replaces IMAGE. If the command fails or is interrupted, IMAGE is unchanged. The copy needs as much free space as the
/// content of the image, unless the file system of the host can share blocks between files, as Btrfs and XFS can. After
/// SIGKILL, the copy remains as .larder-shrink-*, and can be removed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder shrink disk.img
  larder shrink --size 2G disk.img

If IMAGE is a symbolic link, the target of the link is replaced. Other hard
links to the replaced file keep the old image.")]
pub(crate) struct ShrinkArgs {
    /// Size of the new image (suffixes K, M, G, T) [default: the smallest one]
    ///
    /// The size is rounded down to whole blocks of the file system.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub size: Option<u64>,
    /// Image file
    pub image: PathBuf,
}
