//! The root directory of a command with `--chroot`.
//!
//! Model: what bubblewrap does with `--proc`, `--dev`, `--ro-bind /sys` and `--tmpfs /tmp`. The command has its own
//! pseudo-terminals.

use super::failed::Failed;
use larder_block::mounts;
use larder_console::{Failure, Result};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, UnmountFlags, mount, mount_bind_recursive, mount_remount, unmount,
};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The devices that the command has.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Links in `/dev`.
const LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];
const NO_DEVICES: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
const NO_PROGRAMS: MountFlags = NO_DEVICES.union(MountFlags::NOEXEC);

/// Mounts the processes of this PID namespace.
pub(super) fn mount_proc(target: &Path) -> io::Result<()> {
    Ok(mount("proc", target, "proc", NO_PROGRAMS, None)?)
}

/// Makes the mount point `root` the root directory of this process, with `/proc`, `/sys`, `/dev` and `/tmp` if the image
/// has these directories. Detaches all other mounts.
pub(super) fn enter(root: &Path) -> Result<()> {
    type Mount = fn(&Path) -> io::Result<()>;
    let mounts: [(&str, Mount); 4] = [
        ("proc", |target| {
            // In some containers, the processes of this namespace cannot be mounted.
            mount_proc(target).or_else(|_| bind("/proc", target))
        }),
        ("sys", |target| {
            bind("/sys", target)?;
            make_read_only(target)
        }),
        ("dev", mount_devices),
        ("tmp", |target| mount_memory(target, c"mode=1777")),
    ];
    for (name, mount) in mounts {
        let target = root.join(name);
        // A link in the image could lead outside of it.
        if target.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            mount(&target).failed(format_args!("cannot mount /{name} for the command"))?;
        }
    }
    change_root(root).map_err(|error| {
        let message = format!("cannot make {} the root directory: {error}", root.display());
        if error.kind() == io::ErrorKind::InvalidInput {
            let hint = "--chroot cannot replace the root directory of an initial RAM disk";
            return Failure::with_hint(message, hint);
        }
        Failure::new(message)
    })
}

/// Makes the mount at `target`, and all mounts below it, read-only.
fn make_read_only(target: &Path) -> io::Result<()> {
    // In a user namespace, a mount cannot lose these flags, and a remount must repeat them.
    let flags = MountFlags::BIND | MountFlags::RDONLY | NO_PROGRAMS;
    let target = fs::canonicalize(target)?;
    for entry in mounts::list()? {
        if entry.mountpoint.starts_with(&target) {
            match mount_remount(&entry.mountpoint, flags, "") {
                // The user has no access to the mount, or another mount hides it. The command cannot reach it either.
                Ok(()) | Err(Errno::ACCESS | Errno::NOENT | Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Mounts minimal devices.
fn mount_devices(target: &Path) -> io::Result<()> {
    mount_memory(target, c"mode=755")?;
    for name in DEVICES {
        let device = Path::new("/dev").join(name);
        if device.exists() {
            let file = target.join(name);
            File::create(&file)?;
            bind(&device, &file)?;
        }
    }
    for (name, path) in LINKS {
        symlink(path, target.join(name))?;
    }
    for name in ["pts", "shm"] {
        fs::create_dir(target.join(name))?;
    }
    let options = c"newinstance,ptmxmode=0666,mode=620";
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", target.join("pts"), "devpts", flags, options)?;
    mount_memory(&target.join("shm"), c"mode=1777")
}

fn mount_memory(target: &Path, options: &CStr) -> io::Result<()> {
    Ok(mount("tmpfs", target, "tmpfs", NO_DEVICES, options)?)
}

/// Mounts `source` on `target`, with the mounts below it: in a user namespace, no part of a tree of mounts can be mounted
/// alone.
fn bind(source: impl AsRef<Path>, target: &Path) -> io::Result<()> {
    Ok(mount_bind_recursive(source.as_ref(), target)?)
}

fn change_root(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root)?;
    // The former root directory is then mounted over the new one, and is detached from there.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}
