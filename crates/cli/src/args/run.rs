//! The arguments of `larder run`.

use super::VolumeArgs;
use crate::stage::Link;
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Run a command with an image mounted
///
/// larder mounts the image, runs COMMAND, and unmounts the image when COMMAND ends. The mount is private:
/// only COMMAND and the processes that it starts have access to it. Neither root nor fusermount3 is needed.
/// For users other than root, the kernel must permit user namespaces.
///
/// COMMAND starts in the root directory of the image. The environment variable `LARDER_ROOT` contains the
/// path of this directory. With --mountpoint DIR, the image is mounted on DIR, and COMMAND starts in the
/// current directory. With --chroot, the image is the root directory of COMMAND, and COMMAND starts there.
///
/// COMMAND runs in a PID namespace of its own. When COMMAND ends, its background processes are killed. Then
/// larder writes all changes to the image, and exits with the exit code of COMMAND. During these writes, the
/// first Ctrl-C only prints a note. The second one ends larder immediately, and recent changes can be lost.
/// If larder is killed, COMMAND and all of its processes are also killed, and the mount ends.
///
/// larder passes signals on to COMMAND. If a program sends a signal to the whole process group, as timeout(1)
/// does, COMMAND gets this signal twice. In a terminal, COMMAND can be stopped with Ctrl-Z and continued, like
/// any other command.
///
/// This is not a sandbox: COMMAND has all permissions of the user who runs it, and can change files outside
/// of the image. Do not use it to run programs that you do not trust. Set-id bits and device files of the
/// image have no effect, and COMMAND cannot gain privileges through set-id programs. Of the files that are
/// open in the shell, COMMAND inherits only standard input, standard output and standard error.
#[derive(Debug, Args)]
#[command(after_help = "\
Users: if root runs larder, the processes of COMMAND can change to any user, and
still have access to the mount. If another user runs larder, COMMAND runs in a user
namespace with only this user and the primary group of this user: files of
other owners appear to belong to user 65534, and cannot be changed. With
-o fakeroot, this user is root inside the namespace: COMMAND owns the files of
root in the image, and its new files belong to root. Outside the image, it has
only the permissions of the user.

With --chroot, other file systems are mounted on these directories of the image,
if they exist. The image is not changed:
  /proc  the processes of COMMAND
  /sys   the host's, read-only
  /dev   null, zero, full, random, urandom, tty, ptmx, pts, fd, stdin,
         stdout, stderr and an empty shm
  /tmp   an empty directory in memory

The mount options (-o) are those of larder mount, except suid and dev. The
commands 'larder stats' and 'larder top' cannot query the mount; use
-o metrics=ADDR instead.
With --url-file -, larder reads all of the standard input, so COMMAND gets none.

Examples:
  larder run disk.img -- ls -l
  larder run disk.img -- sh -c 'du -sh \"$LARDER_ROOT\"'
  larder run --mountpoint mnt disk.img -- cp -r src mnt/
  larder run --overlay changes.qcow2 disk.img -- make
  larder run -o fakeroot --chroot root.img -- sh

Exit codes:
  N        the exit code of COMMAND
  128 + S  signal S ended COMMAND. larder itself is not ended by the signal, but
           exits with this code. Some shells stop a script at Ctrl-C only if the
           program that they started was ended by the signal. In such a shell,
           the script continues with the command after 'larder run', unless it
           checks for the code 130 (Ctrl-C).
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
    /// Directory to mount on [default: the first empty one of /mnt, /media and /srv]
    ///
    /// Only COMMAND and its processes see the image in DIR. With this option, COMMAND starts in the current
    /// directory, unless --chroot is given.
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
