//! The command `larder umount`: unmounts an image.

use crate::args::UmountArgs;
use larder_console::{Result, print_note};
use larder_fuse::{Unmounted, unmount};
use std::process::ExitCode;

pub(super) fn run(args: &UmountArgs) -> Result<ExitCode> {
    if unmount(&args.mountpoint, args.lazy)? == Unmounted::WhenUnused {
        print_note("the mount is detached, and ends when it is no longer in use");
    }
    Ok(ExitCode::SUCCESS)
}
