//! The names of the program, and the processes of larder that lock an image.

use larder_block::LockHolder;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The program name of the commands of larder.
pub(crate) const LARDER: &str = "larder";
/// The program name that runs the helper of mount(8).
pub(crate) const MOUNT_HELPER: &str = "mount.larder";
/// The program name that runs `larder fuse2fs`.
pub(crate) const FUSE2FS: &str = "fuse2fs";

/// Returns whether the process `holder` is larder, and `image` is not mounted. The process is then a server
/// that was unmounted and still writes or waits for open files, or it is a command that does not mount.
pub(crate) fn is_ending(image: &Path, holder: &LockHolder) -> bool {
    let names = [LARDER, MOUNT_HELPER, FUSE2FS];
    names.contains(&holder.name.as_str())
        && larder_fuse::mounts_of(image).is_ok_and(|mounts| mounts.is_empty())
}

/// Returns the name of the subcommand in `args`. Returns `None` if there is none, or if the program runs under a name that
/// has no subcommands.
pub(crate) fn subcommand(args: &[OsString]) -> Option<&OsStr> {
    let program = args.first().map(Path::new).and_then(Path::file_name);
    let is_helper = program.is_some_and(|name| name == MOUNT_HELPER || name == FUSE2FS);
    args.get(1).map(OsString::as_os_str).filter(|_| !is_helper)
}
