//! The program `mount.larder`, which mount(8) calls:
//! `mount.larder SPEC DIR [-sfnv] [-N namespace] [-o options] [-t type]`.
//!
//! If `/sbin/mount.larder` exists, `mount -t larder` and entries of type larder in fstab(5) use it.

use crate::commands::mount;
use crate::failure::Access;
use crate::holder::MOUNT_HELPER as NAME;
use crate::mount_options::Options;
use clap::Parser;
use larder_console::{Failure, Result, print_note};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The exit code that mount(8) expects for a failed mount.
const MOUNT_FAILED: u8 = 32;
/// The exit code for invalid arguments.
const USAGE_FAILED: u8 = 1;

/// Mount an image, with the arguments of mount(8); see larder mount --help
#[derive(Debug, Parser)]
#[command(name = NAME, version)]
pub(crate) struct HelperArgs {
    /// Image file, block device or URL
    image: PathBuf,
    /// Directory to mount on
    mountpoint: PathBuf,
    /// Ignore unknown options
    #[arg(short = 's')]
    sloppy: bool,
    /// Only check the arguments
    #[arg(short = 'f')]
    fake: bool,
    /// Do not write to mtab (no effect)
    #[arg(short = 'n')]
    no_mtab: bool,
    /// Print more messages
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    verbose: u8,
    /// Mount namespace (no effect: mount(8) enters it)
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<OsString>,
    /// Mount options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<OsString>,
    /// File system type (no effect)
    #[arg(short = 't', value_name = "TYPE")]
    fs_type: Option<OsString>,
}

pub(crate) fn run(args: Vec<OsString>) -> ExitCode {
    let args = match HelperArgs::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => return larder_console::print_usage(&error, USAGE_FAILED),
    };
    match mounted(&args) {
        Ok(code) => ExitCode::from(code),
        Err(failure @ Failure::Usage { .. }) => {
            failure.print(USAGE_FAILED);
            ExitCode::from(USAGE_FAILED)
        }
        Err(failure) => failure.print(MOUNT_FAILED),
    }
}

/// Mounts the image, or only checks the arguments. Returns the exit code.
fn mounted(args: &HelperArgs) -> Result<u8> {
    let mut options = Options::default();
    // mount(8) passes only options that differ from its defaults. The defaults include suid and dev.
    let is_root = rustix::process::geteuid().is_root();
    options.mount.suid = is_root;
    options.mount.dev = is_root;
    for list in &args.options {
        options.add_list(list, args.sloppy)?;
    }
    // mount(8) passes `rw` even if the user did not request it. Therefore `rw` is ignored, and an image that
    // cannot be written is mounted read-only.
    options.access = options.access.filter(|access| *access == Access::Read);
    if args.verbose > 0 && (args.no_mtab || args.namespace.is_some() || args.fs_type.is_some()) {
        print_note("-n, -N and -t have no effect");
    }
    if args.fake {
        return Ok(0);
    }
    mount::run_in_background(&args.image, &args.mountpoint, options, None)
}
