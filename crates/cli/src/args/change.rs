//! The arguments of the commands that change an image.

use super::{FilesArgs, VolumeArgs};
use crate::{mode, remote};
use clap::{Arg, Args};
use std::ffi::OsString;
use std::path::PathBuf;

/// Hides what a command that changes an image cannot use: `--noload`, and the options for images at URLs.
fn hide_unusable(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "image" => arg.help("Image file or block device; with --overlay, also a URL"),
        "noload" => arg.hide(true),
        _ if arg.get_help_heading() == Some(remote::HEADING) => arg.hide(true),
        _ => arg,
    }
}

/// Write a file, or standard input, into an image
///
/// The file gets its name in the image only when it is complete. If the command fails before that, the
/// files in the image are unchanged.
///
/// If the destination does not exist, the file belongs to you and has the permissions of the source,
/// without the source's set-id and sticky bits. For standard input, the permissions are 666 minus the
/// umask. A set-group-ID bit or default ACL of the destination directory applies to the new file as usual.
///
/// If the destination is an existing file, its content is replaced, and its owner, permissions, extended
/// attributes and the flags A, c, d, j, s, S, t and u of chattr(1) are kept. Other hard links to the
/// existing file keep the old content.
#[derive(Debug, Args)]
#[command(
    mut_args(hide_unusable),
    after_help = "\
Examples:
  larder put fstab disk.img:/etc/fstab
  larder put notes.txt disk.img:/root/     into a directory, under its own name
  date | larder put - disk.img:/etc/built"
)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// File to read, or - for standard input
    pub file: PathBuf,
    /// Destination in the image
    #[arg(value_name = "IMAGE:/PATH")]
    pub destination: OsString,
    /// Excess operand, which is refused with a hint
    #[arg(hide = true)]
    pub rest: Option<OsString>,
}

/// Create directories in an image
#[derive(Debug, Args)]
#[command(
    mut_args(hide_unusable),
    override_usage = "larder mkdir [OPTIONS] <IMAGE> <PATH>...\n       \
                      larder mkdir [OPTIONS] <IMAGE>:/<PATH>...",
    after_help = "\
Examples:
  larder mkdir disk.img:/data
  larder mkdir -p disk.img /srv/www/static /srv/log
  larder mkdir --mode 700 disk.img:/root/.ssh"
)]
pub(crate) struct MkdirArgs {
    #[command(flatten)]
    pub files: FilesArgs,
    /// Create missing parents, and accept existing directories
    #[arg(short, long)]
    pub parents: bool,
    /// Permissions in octal [default: 777 minus the umask]
    #[arg(short, long, value_name = "MODE", value_parser = mode::parse)]
    pub mode: Option<u16>,
}

/// Remove files from an image
#[derive(Debug, Args)]
#[command(
    mut_args(hide_unusable),
    override_usage = "larder rm [OPTIONS] <IMAGE> <PATH>...\n       \
                      larder rm [OPTIONS] <IMAGE>:/<PATH>...",
    after_help = "\
Examples:
  larder rm disk.img:/etc/hostname
  larder rm -rf disk.img /var/cache /var/tmp"
)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    pub files: FilesArgs,
    /// Remove directories with their content
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Ignore files that do not exist
    #[arg(short, long)]
    pub force: bool,
}

/// Move or rename files in an image
///
/// If DEST is a directory, the files are moved into DEST. An existing file is replaced.
#[derive(Debug, Args)]
#[command(
    mut_args(hide_unusable),
    mut_arg("paths", |arg| arg.help("Paths of the files, then the destination")),
    override_usage = "larder mv [OPTIONS] <IMAGE> <PATH>... <DEST>\n       \
                      larder mv [OPTIONS] <IMAGE>:/<PATH>... <IMAGE>:/<DEST>",
    after_help = "\
Examples:
  larder mv disk.img /etc/fstab.new /etc/fstab
  larder mv disk.img:/old disk.img:/new
  larder mv disk.img /a /b /attic               move into a directory
  larder mv -n disk.img /old /new               do not replace a file /new"
)]
pub(crate) struct MvArgs {
    #[command(flatten)]
    pub files: FilesArgs,
    /// Do not replace existing files
    #[arg(short, long)]
    pub no_clobber: bool,
}
