//! The arguments of the commands that change an image.

use super::{FilesArgs, ImageArgs, VolumeArgs};
use crate::mode;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Write a file, or standard input, into an image
///
/// The file appears when it is whole: if anything fails, the image is as it was. It takes
/// owner, permissions, attributes and flags from the file that it replaces, whose other
/// names keep the old content; a new file is yours, with the permissions of the source.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder put fstab disk.img:/etc/fstab
  larder put notes.txt disk.img:/root/     into a directory, under its name
  date | larder put - disk.img:/etc/built")]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// The file; - for standard input
    pub file: PathBuf,
    /// Where to
    #[arg(value_name = "IMAGE:/PATH")]
    pub destination: OsString,
}

/// Make directories in an image
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder mkdir disk.img /data
  larder mkdir -p disk.img /srv/www/static /srv/log
  larder mkdir --mode 700 disk.img /root/.ssh")]
pub(crate) struct MkdirArgs {
    #[command(flatten)]
    pub files: FilesArgs,
    /// Make what is missing on the way, too; a directory that is there is no failure
    #[arg(short, long)]
    pub parents: bool,
    /// Permissions, in octal [default: 777 without the umask]
    #[arg(short, long, value_name = "MODE", value_parser = mode::parse)]
    pub mode: Option<u16>,
}

/// Remove files from an image
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder rm disk.img /etc/hostname
  larder rm -rf disk.img /var/cache /var/tmp")]
pub(crate) struct RmArgs {
    #[command(flatten)]
    pub files: FilesArgs,
    /// Remove directories with all that is in them
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// What is not there is no failure
    #[arg(short, long)]
    pub force: bool,
}

/// Move or rename files in an image
///
/// A file in the way is replaced; a DEST that is a directory is moved into.
#[derive(Debug, Args)]
#[command(
    override_usage = "larder mv [OPTIONS] <IMAGE> <PATH>... <DEST>",
    after_help = "\
Examples:
  larder mv disk.img /etc/fstab.new /etc/fstab
  larder mv disk.img /a /b /attic               into a directory
  larder mv -n disk.img /old /new               not over a file that is there"
)]
pub(crate) struct MvArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Do not replace what is there
    #[arg(short, long)]
    pub no_clobber: bool,
    /// Paths inside the image, then the destination
    #[arg(required = true, num_args = 2.., value_names = ["PATH", "DEST"])]
    pub paths: Vec<OsString>,
}
