//! The arguments of `larder run`.

use super::VolumeArgs;
use crate::stage::Link;
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Run a command with an image mounted
///
/// larder mounts the image, runs COMMAND, and unmounts the image when COMMAND ends. The mount is private:
/// other processes do not have it in their mount namespace. Root and fusermount3 are not needed, but the
/// kernel must permit user namespaces.
///
/// COMMAND starts in the root directory of the image. The environment variable `LARDER_ROOT` contains the
/// path of this directory. With --mountpoint DIR, the image is mounted on DIR instead, and COMMAND starts
/// in the current directory. With --chroot, the image is the root directory of COMMAND.
///
/// COMMAND is in a PID namespace of its own. When COMMAND ends, the processes that it has left in the
/// background are killed. Then all changes are written to the image, and larder exits with the exit code
/// of COMMAND. While the changes are written, a first Ctrl-C only prints a note. The next one ends larder
/// at once, and recent changes can be lost. If larder is killed, all these processes are killed, and the
/// mount ends.
///
/// Signals that larder receives are passed on to COMMAND. COMMAND gets a signal twice if a program sends it
/// to the whole process group, as timeout(1) does. In a terminal, COMMAND can be stopped with Ctrl-Z and
/// continued, like any other command.
///
/// This is not a sandbox: COMMAND has all permissions of the user who runs it, and can change files outside
/// of the image. Do not use it to run programs that you do not trust. Set-id bits and device files of the
/// image have no effect, and COMMAND cannot gain privileges through set-id programs. It inherits only
/// standard input, standard output and standard error.
#[derive(Debug, Args)]
#[command(after_help = "\
Users: if root runs the command, all users exist in it, and all users have
access to the mount. If another user runs it, only this user and the primary
group of this user exist: files of other owners belong to user 65534, and
cannot be changed. With -o fakeroot, COMMAND runs as root: it owns the files of
root in the image, and new files belong to root.

With --chroot, these directories of the image are replaced, if they exist:
  /proc  the processes of COMMAND
  /sys   the host's, read-only
  /dev   null, zero, full, random, urandom, tty, ptmx, pts and an empty shm
  /tmp   an empty directory in memory

The mount options (-o) are those of larder mount, except suid and dev. larder
stats and larder top cannot query the mount; -o metrics=ADDR serves its metrics.
With --url-file -, larder reads all of the standard input, and COMMAND gets none.

Examples:
  larder run disk.img -- ls -l
  larder run disk.img -- sh -c 'du -sh \"$LARDER_ROOT\"'
  larder run --mountpoint mnt disk.img -- cp -r src mnt/
  larder run --overlay changes.qcow2 disk.img -- make
  larder run -o fakeroot --chroot root.img -- sh

Exit codes:
  N        the exit code of COMMAND
  128 + S  signal S ended COMMAND. larder itself exits normally, so a shell
           script continues after Ctrl-C, unless it checks for 130.
  125      larder has failed: for example, the image cannot be mounted, or
           changes cannot be written to it
  126      COMMAND was found, but cannot be executed
  127      COMMAND was not found")]
pub(crate) struct RunArgs {
    /// Image file, block device or URL
    pub image: PathBuf,
    /// Mount options, separated by commas
    ///
    /// larder mount --help lists the mount options. -o can be given several times.
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<OsString>,
    /// Make the image the root directory of COMMAND
    #[arg(long)]
    pub chroot: bool,
    /// Directory to mount on [default: an empty one of /mnt, /media, /srv]
    ///
    /// Only COMMAND sees the image in DIR. With this option, COMMAND starts in the current directory.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub mountpoint: Option<PathBuf>,
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Command to run, and its arguments
    #[arg(last = true, required = true, value_hint = ValueHint::AnyPath)]
    pub command: Vec<OsString>,
    /// The pipes to the process that started this one.
    #[arg(skip)]
    pub link: Option<Link>,
}
