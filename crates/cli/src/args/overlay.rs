//! The arguments and the help of `larder overlay`.

use super::ImageArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Show, apply or remove the changes in an overlay
///
/// An overlay is a file that contains the changes to an image. With --overlay, larder mount and other
/// commands read the image with these changes. Commands that write change the overlay and not the image.
///
/// The overlay records the name of its image only for other programs. Give the image to diff and commit:
/// larder does not open the recorded name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder mount --overlay changes.qcow2 disk.img /mnt/disk
  larder overlay diff changes.qcow2 disk.img
  larder overlay commit changes.qcow2 disk.img
  larder overlay discard changes.qcow2")]
pub(crate) struct OverlayArgs {
    #[command(subcommand)]
    pub command: OverlayCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OverlayCommand {
    Diff(OverlayDiffArgs),
    Commit(OverlayCommitArgs),
    Discard(OverlayDiscardArgs),
}

/// List the files that differ
///
/// Each line consists of a letter and a path: A for an added file, D for a deleted file, and M for a
/// modified file. A file is modified if its type, content, link target, device numbers, owner, group,
/// project ID, permissions, flags (chattr(1)), time of modification or extended attributes differ. The
/// time of modification of a directory is ignored.
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
/// interrupted, run it again. Until it has succeeded, the image may contain only a part of the changes,
/// and must not be used.
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
    /// URL must begin with s3://. If the object already exists, the command fails.
    #[arg(long, value_name = "URL")]
    pub to: Option<PathBuf>,
}

/// Remove the overlay with all of its changes
#[derive(Debug, Args)]
pub(crate) struct OverlayDiscardArgs {
    /// The overlay
    #[arg(value_name = "OVERLAY")]
    pub changes: PathBuf,
}
