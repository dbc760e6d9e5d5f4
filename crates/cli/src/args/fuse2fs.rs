//! The arguments of `larder fuse2fs`.

use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Mount an image, with the arguments of fuse2fs
///
/// Programs that run fuse2fs use larder if the first fuse2fs in PATH is a link to larder.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = "\
Options of -o, in addition to those of larder mount:
  fakeroot                  no permission checks
  offset=BYTES              offset of the file system in the image
  uid=UID, gid=GID          owner and group to show for all files
  norecovery                ignore the journal, and mount read-only
  errors=continue|remount-ro|panic
                            action when corruption is detected during a
                            change, as for larder mount; panic is the
                            same as abort
  kernel                    same as allow_other,suid,dev
  directio                  same as direct_device
  no_default_opts, minixdf, bsddf, acl, user_xattr, debug, ...
                            accepted, no effect

Examples:
  fuse2fs disk.img /mnt/disk -o ro,allow_other
  fuse2fs -f -o fakeroot,offset=1048576 disk.img /mnt/disk
  larder fuse2fs disk.img /mnt/disk"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct Fuse2fsArgs {
    /// Image file, block device or URL
    pub image: PathBuf,
    /// Directory to mount on
    #[arg(value_hint = ValueHint::DirPath)]
    pub mountpoint: PathBuf,
    /// Mount options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<OsString>,
    /// Stay in the foreground
    #[arg(short)]
    pub foreground: bool,
    /// Same as -f
    #[arg(short)]
    pub debug: bool,
    /// Same as -o threads=1
    #[arg(short)]
    pub single_thread: bool,
    /// Mount read-only, same as -o ro
    #[arg(short)]
    pub read_only: bool,
}
