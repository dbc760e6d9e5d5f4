//! The kernel's ext4 on an image in memory.
//!
//! # Model
//! The image is a file without a name in the kernel's memory (tmpfs), mounted through a loop device,
//! as root, and taken off its mount point at once: so it lives as long as the descriptor of its root
//! directory, and nothing stays behind even if the process is killed.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, id};

use crate::xattr_bench::{Case, formatted};

/// Files that there is room for, for each one that there is: the kernel does not soon use an inode
/// again that was deleted, and there are several runs.
const ROOM: u32 = 4;

/// A mounted image, until this is dropped.
#[derive(Debug)]
pub(super) struct KernelMount {
    root: File,
}

impl KernelMount {
    /// Mounts an ext4 without a journal that has room for the files of `case`. The reason, if it
    /// cannot be mounted.
    pub fn new(case: Case, option: Option<&str>) -> Result<Self, String> {
        let roomy = Case {
            files: ROOM * case.files,
            ..case
        };
        let image = formatted(roomy).map_err(|error| error.to_string())?;
        let point = MountPoint::new()?;
        let mut options = String::from("loop,noatime,noinit_itable");
        if let Some(option) = option {
            options.extend([",", option]);
        }
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", &options]);
        run(mount.arg(descriptor(&image)).arg(&point.0))?;
        let root = File::open(&point.0).map_err(|error| error.to_string());
        run(Command::new("umount").arg("--lazy").arg(&point.0))?;
        Ok(Self { root: root? })
    }

    /// The root directory, for this process and its children.
    pub fn path(&self) -> PathBuf {
        descriptor(&self.root)
    }
}

/// The path of an open file.
fn descriptor(file: &File) -> PathBuf {
    Path::new("/proc")
        .join(id().to_string())
        .join("fd")
        .join(file.as_raw_fd().to_string())
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(told.trim().replace('\n', "; "))
}

/// A directory to mount on, until this is dropped.
struct MountPoint(PathBuf);

impl MountPoint {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("larder-kernel-mount-{}", id()));
        fs::create_dir(&path).map_err(|error| format!("cannot make a mount point: {error}"))?;
        Ok(Self(path))
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        // Nothing is mounted there any more, or it could not be unmounted, which was told.
        let _ = fs::remove_dir(&self.0);
    }
}
