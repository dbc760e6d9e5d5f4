//! The arguments and the help of `larder overlay`.

use super::ImageArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Show, apply or remove the changes in an overlay
///
/// An overlay is a file with the changes of an image. larder mount --overlay, and the other commands
/// with this option, write to it instead of the image.
///
/// The overlay records the name of its image, but larder opens only the image that you give to diff or
/// commit.
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
/// Each line has a letter and a path: A for an added file, D for a deleted one, and M for a file whose
/// content, type, owner, permissions, time of modification or extended attributes have changed. A
/// directory counts as changed if its owner, permissions or extended attributes have changed.
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
/// interrupted, run it again: until it has succeeded, the image has only a part of the changes and must
/// not be used.
///
/// With --to URL, the command uploads the image with the changes as a new object, and changes neither
/// the image nor the overlay. The image can then be at a URL, or have another format.
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
