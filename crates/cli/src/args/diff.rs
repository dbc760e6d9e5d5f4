//! The arguments and the help of `larder diff`.

use super::VolumeArgs;
use clap::Args;
use std::path::PathBuf;

/// Show what differs between two images, by path
///
/// OLD and NEW each name an image, or a file or directory in an image, as `IMAGE:/PATH`. Without a path, the command
/// compares the root directory. Symbolic links in PATH are followed. If PATH is a directory, the command compares it and
/// all files below it, and does not follow symbolic links below it.
///
/// Each line lists the changes of one file, separated by commas, and then the path of the file. This is its path in NEW
/// or, if the file was removed, its path in OLD. The path of a directory ends in a slash. Characters that are not
/// printable are escaped, as in ls -b.
///
/// If two regular files have the same size, their content is compared, even if their times are also equal. The command
/// reads both files up to the first difference. It skips holes that both files have, and blocks that they share.
/// Files in one image can share blocks, and so can two image files on the host, for example after cp --reflink.
#[derive(Debug, Args)]
#[command(
    mut_arg("overlay", |arg| arg.hide(true)),
    override_usage = "larder diff [OPTIONS] <OLD> <NEW>",
    after_help = "\
Changes:
  added        the path exists only in NEW; if it is a directory, all
               paths below it are also listed
  removed      the path exists only in OLD; if it is a directory, all
               paths below it are also listed
  type         the types of the files differ; their other attributes are
               not compared; if one is a directory, the paths below it
               are listed as added or removed
  size         the sizes of regular files differ
  content      the contents of regular files differ
  target       the targets of symbolic links differ
  device       the device numbers differ
  permissions  the permissions or set-id bits differ
  owner        the users, groups or project IDs differ
  flags        the flags of chattr(1) differ
  xattrs       extended attributes or access control lists differ
  times        the times of modification differ (only with --times)

Examples:
  larder diff old.img new.img
  larder diff old.img:/etc new.img:/etc
  larder diff disk.img:/etc disk.img:/etc.orig
  larder diff old.img new.img | grep -w content
  larder diff --json old.img new.img | jq -r '.differences[].path'

--offset, --partition, --format and --cache-size apply to each image.

JSON:
  differences [{path, path_hex (only if the path is not UTF-8: its bytes in
    hexadecimal), changes [the words above], old, new}]
'old' and 'new' are objects with the same keys as the output of
'larder stat --json', but without path and xattrs. For an added file, 'old' is null. For a removed file, 'new' is null.

Exit codes:
  0  nothing differs
  1  there are differences
  2  a file or an image cannot be read, or the arguments are invalid"
)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Also compare the times of modification
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
