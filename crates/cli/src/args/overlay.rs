//! The arguments and the help of `larder overlay`.

use super::ImageArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Show, apply or remove the changes in an overlay
///
/// An overlay is a file that contains the changes to an image. With --overlay, larder mount and other
/// commands read the image with these changes. With --overlay, a command that writes changes only the overlay,
/// not the image.
///
/// The overlay records the name of its image only for other programs. larder does not open
/// the recorded name, so the commands 'diff' and 'commit' need the image as an argument.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder mount --overlay changes.qcow2 disk.img /mnt/disk
  larder overlay info changes.qcow2
  larder overlay diff changes.qcow2 disk.img
  larder overlay commit changes.qcow2 disk.img
  larder overlay discard changes.qcow2")]
pub(crate) struct OverlayArgs {
    #[command(subcommand)]
    pub command: OverlayCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OverlayCommand {
    Info(OverlayInfoArgs),
    Diff(OverlayDiffArgs),
    Commit(OverlayCommitArgs),
    Discard(OverlayDiscardArgs),
}

/// Show the image, the size and the state of an overlay
///
/// The output has the name, the format and the version of the image for which the overlay was created, the
/// size of the disk, the space that the overlay takes, and whether a commit was interrupted. The image
/// itself is not opened, and the overlay can be in use.
#[derive(Debug, Args)]
#[command(after_help = "\
JSON: name (of the image), name_hex (only if the name is not UTF-8), format,
  version, size_bytes (of the disk), stored_bytes (of the overlay), commit (none,
  interrupted or complete)")]
pub(crate) struct OverlayInfoArgs {
    /// The overlay
    #[arg(value_name = "OVERLAY")]
    pub changes: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// List the files that differ
///
/// Each line consists of a letter and a path: A for an added file, D for a deleted file, and M for a
/// modified file. A file is modified if its type, content, link target, device numbers, owner, group,
/// project ID, permissions, flags (chattr(1)), time of modification or extended attributes differ. The
/// time of modification of a directory is ignored. If a file cannot be compared, the command continues with the
/// other files.
#[derive(Debug, Args)]
#[command(
    mut_arg("overlay", |arg| arg.hide(true)),
    after_help = "\
JSON: changes [{change (added, deleted or modified), name (the path), name_hex
  (only if the path is not UTF-8)}]"
)]
pub(crate) struct OverlayDiffArgs {
    /// The overlay
    #[arg(value_name = "OVERLAY")]
    pub changes: PathBuf,
    #[command(flatten)]
    pub source: ImageArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Write the changes to the image, and remove the overlay
///
/// The image must be a local raw image, and neither it nor the overlay may be in use. If the command is
/// interrupted, run it again, even if the image was renamed since. Until it has succeeded, the image may
/// contain only a part of the changes, and must not be used.
///
/// With --to URL, the command uploads the image with the changes as a new object, and changes neither
/// the image nor the overlay. With --to, IMAGE need not be a local raw image: it can be at a URL, or
/// have another format.
#[derive(Debug, Args)]
#[command(
    mut_arg("overlay", |arg| arg.hide(true)),
    mut_arg("offset", |arg| arg.hide(true)),
    mut_arg("partition", |arg| arg.hide(true)),
    mut_arg("noload", |arg| arg.hide(true)),
    after_help = "\
Examples:
  larder overlay commit changes.qcow2 disk.img
  larder overlay commit --to s3://bucket/new.img changes.qcow2 s3://bucket/disk.img"
)]
pub(crate) struct OverlayCommitArgs {
    /// The overlay
    #[arg(value_name = "OVERLAY")]
    pub changes: PathBuf,
    #[command(flatten)]
    pub source: ImageArgs,
    /// Upload a copy with the changes to URL
    ///
    /// URL must begin with s3://, gs:// or az://. If the object already exists, the command fails.
    #[arg(long, value_name = "URL")]
    pub to: Option<PathBuf>,
}

/// Remove the overlay with all of its changes
#[derive(Debug, Args)]
pub(crate) struct OverlayDiscardArgs {
    /// The overlay
    #[arg(value_name = "OVERLAY")]
    pub changes: PathBuf,
    /// Remove it even if it is damaged or partly committed
    ///
    /// If a commit was interrupted, the image keeps only a part of the changes, and its file system is probably damaged.
    #[arg(long)]
    pub force: bool,
}
