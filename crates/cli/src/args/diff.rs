//! The arguments and the help of `larder diff`.

use super::VolumeArgs;
use clap::Args;
use std::path::PathBuf;

/// Show what differs between two images, by path
///
/// OLD and NEW are images, or the name of an image, a colon and a path in it. If they are directories, all files below
/// them are compared. Symbolic links are not followed, except at the end of the path.
///
/// Each line has the changes of a file, separated by commas, and its path in NEW or, for a removed file, in OLD. The
/// path of a directory ends in a slash. Characters that are not printable are escaped, as in ls -b.
///
/// The command reads the content of all regular files, also if their sizes and times are equal, except where both have
/// a hole.
#[derive(Debug, Args)]
#[command(
    mut_arg("overlay", |arg| arg.hide(true)),
    override_usage = "larder diff [OPTIONS] <OLD> <NEW>",
    after_help = "\
Changes:
  added        the path exists only in NEW; for a directory, all paths
               below it are listed, too
  removed      the path exists only in OLD
  type         the types of the files differ; nothing else is compared
  size         the sizes of regular files differ
  content      the contents of regular files differ
  target       the targets of symbolic links differ
  device       the device numbers differ
  permissions  the permissions or set-id bits differ
  owner        the users, groups or project IDs differ
  flags        the flags of chattr(1) differ
  xattrs       extended attributes or access control lists differ
  times        the times of modification differ, only with --times

Examples:
  larder diff old.img new.img
  larder diff old.img:/etc new.img:/etc
  larder diff disk.img:/etc disk.img:/etc.orig
  larder diff old.img new.img | grep -w content
  larder diff --json old.img new.img | jq -r '.differences[].path'

--offset, --partition, --format and --cache-size apply to each image.

JSON: differences. Each has path, changes (the words above), and old and new:
the keys of larder stat --json except path and xattrs, or null if there is no
such file. If path is not valid UTF-8, there is also path_hex, the bytes of the
path in hexadecimal.

Exit codes:
  0  nothing differs
  1  there are differences
  2  a file or an image cannot be read, or the arguments are invalid"
)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Compare the times of modification, too
    ///
    /// By default, times are ignored: two builds of the same files have different times.
    #[arg(long)]
    pub times: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Image, or path in an image, before the changes
    pub old: PathBuf,
    /// Image, or path in an image, after the changes
    pub new: PathBuf,
}
