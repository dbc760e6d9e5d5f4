//! The arguments and the help of `larder profile`.

use crate::remote::RemoteArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Pack the parts of an image that a profile lists
///
/// A profile lists the parts of an image at a URL that were read while it was recorded with
/// larder mount --profile-record. A mount with --profile requests these parts as soon as it starts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder mount --profile-record start.profile s3://images/disk.img /mnt/disk
  (use the mount, then unmount it)
  larder profile pack start.profile s3://images/disk.img start.pack
  (copy start.pack to s3://images/)
  larder mount --profile s3://images/start.pack s3://images/disk.img /mnt/disk")]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    pub command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    Pack(ProfilePackArgs),
}

/// Write a pack: the parts of an image that a profile lists, with their content
///
/// A mount with --profile fetches a pack with one request. The pack belongs to one version of the
/// image. larder uses the content of the pack instead of that of the image, so protect the pack as you
/// protect the image.
#[derive(Debug, Args)]
#[command(
    mut_arg("profile", |arg| arg.hide(true)),
    mut_arg("profile_record", |arg| arg.hide(true)),
    mut_arg("offline", |arg| arg.hide(true)),
    mut_arg("allow_unversioned", |arg| arg.hide(true)),
)]
pub(crate) struct ProfilePackArgs {
    /// Profile, or another pack: a file or a URL
    #[arg(value_name = "PROFILE")]
    pub listed: PathBuf,
    /// URL of the image, or --url-file FILE at this position
    #[arg(value_name = "URL")]
    pub image: PathBuf,
    /// File to write; an existing file is replaced
    #[arg(value_name = "OUTPUT")]
    pub output: PathBuf,
    #[command(flatten)]
    pub remote: RemoteArgs,
}
