//! The arguments of `larder tree`, `du` and `df`.

use super::image::{FilesArgs, ImageArgs, long_help_flag};
use clap::Args;

/// Show a directory tree of an image
///
/// The entries of each directory are sorted by name. Symbolic links are shown with their targets, and not followed.
#[derive(Debug, Args)]
#[command(
    mut_arg("paths", |arg| arg.help("Paths or patterns inside the image [default: /]")),
    override_usage = "larder tree [OPTIONS] <IMAGE> [PATH]...\n       \
                      larder tree [OPTIONS] <IMAGE>:/<PATH>...",
    after_help = "\
Examples:
  larder tree disk.img
  larder tree -a disk.img:/home/user
  larder tree --json disk.img | jq '[.entries[].depth] | max'

JSON: entries. Each entry has path, depth (0 for a PATH, 1 for the entries of a
PATH), type (as in larder stat --json; null if it cannot be read) and, for a
symbolic link, target. A directory precedes its entries. If a path is not valid
UTF-8, its entry also has path_hex, the bytes of the path in hexadecimal."
)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub files: FilesArgs,
    /// Include names that start with a dot
    #[arg(short, long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Show the space that directories of an image use
///
/// For each directory below a PATH, the command prints the space that is allocated to its files, in KiB, rounded up. A file
/// with several hard links is counted once. Symbolic links are not followed.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    arg(long_help_flag()),
    mut_arg("paths", |arg| arg.help("Paths or patterns inside the image [default: /]")),
    override_usage = "larder du [OPTIONS] <IMAGE> [PATH]...\n       \
                      larder du [OPTIONS] <IMAGE>:/<PATH>...",
    after_help = "\
Examples:
  larder du disk.img
  larder du -sh 'disk.img:/home/*'
  larder du --json disk.img:/var | jq '.entries[-1].allocated_bytes'

JSON: entries. Each entry has path and allocated_bytes. If a path is not valid
UTF-8, its entry also has path_hex, the bytes of the path in hexadecimal."
)]
pub(crate) struct DuArgs {
    #[command(flatten)]
    pub files: FilesArgs,
    /// Show only the total of each PATH
    #[arg(short, long)]
    pub summarize: bool,
    /// Show sizes as in 1.5K, 234M or 2.0G
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Show the free space of an image
///
/// The numbers are those of df(1) on a mount of the image. Sizes are in KiB, rounded up. Space that is reserved for root is
/// neither used nor available. The column "Mounted on" is absent, because the image need not be mounted.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    arg(long_help_flag()),
    after_help = "\
Examples:
  larder df disk.img
  larder df -h disk.img
  larder df -i disk.img
  larder df --json disk.img | jq .available_bytes

JSON: total_bytes, used_bytes, available_bytes, inodes, inodes_used,
inodes_free."
)]
pub(crate) struct DfArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Show inodes instead of space
    #[arg(short, long, conflicts_with = "json")]
    pub inodes: bool,
    /// Show sizes as in 1.5K, 234M or 2.0G
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
