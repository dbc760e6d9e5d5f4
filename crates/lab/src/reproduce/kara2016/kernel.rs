//! Mounts an image in memory with the kernel's ext4.
//!
//! # Model
//! The image is an unnamed file in the kernel's memory (tmpfs). It is mounted through a loop device, as root,
//! in the mount namespace of a child process, which exits after this process has opened the root directory.
//! From then on, the mount exists as long as this process keeps the root directory open. The mount point is the
//! directory for temporary files, but only in the child's namespace: other processes do not see the mount. If
//! this process is killed at any time, the kernel removes the mount.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};

use larder::MbCacheVariant;

use crate::xattr_bench::{Case, formatted};

/// Capacity of the image, as a multiple of the number of files. Each run creates the files again, and the kernel
/// does not reuse a deleted inode soon.
const ROOM: u32 = 4;

/// A shell command that mounts the image, prints a newline, and waits until its standard input is closed.
const MOUNT: &str = r#"mount -t ext4 -o "$1" "$2" "$3" && echo && exec cat"#;

/// A mounted image, which is unmounted on drop.
#[derive(Debug)]
pub(super) struct KernelMount {
    root: File,
}

impl KernelMount {
    /// Mounts an ext4 that has room for the files of `case`, without the cache if `variant` is `off`. Returns the reason
    /// if it cannot be mounted.
    pub fn new(case: Case, variant: MbCacheVariant, has_journal: bool) -> Result<Self, String> {
        let roomy = Case {
            files: ROOM * case.files,
            ..case
        };
        let image = formatted(roomy, has_journal).map_err(|error| error.to_string())?;
        let mut options = String::from("loop,noatime,noinit_itable");
        if variant == MbCacheVariant::Off {
            options.push_str(",no_mbcache");
        }
        let point = std::env::temp_dir();
        let mut holder = Command::new("unshare")
            .args(["--mount", "--", "sh", "-c", MOUNT, "sh", &options])
            .arg(descriptor(&image))
            .arg(&point)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run unshare: {error}"))?;
        let root = opened(&mut holder, &point);
        // This closes the child's input, so that the child exits.
        let output = holder
            .wait_with_output()
            .map_err(|error| error.to_string())?;
        root.map(|root| Self { root }).map_err(|error| {
            let messages = String::from_utf8_lossy(&output.stderr);
            match messages.trim() {
                "" => error,
                messages => messages.replace('\n', "; "),
            }
        })
    }

    /// Returns a path of the root directory, for use in this process and its children.
    pub fn path(&self) -> PathBuf {
        descriptor(&self.root)
    }
}

/// Returns the root directory that `holder` has mounted at `point`, once it has reported the mount.
fn opened(holder: &mut Child, point: &Path) -> Result<File, String> {
    let stdout = holder
        .stdout
        .as_mut()
        .ok_or("mount: no pipe for its output")?;
    stdout
        .read_exact(&mut [0])
        .map_err(|error| format!("cannot mount the image: {error}"))?;
    let root = Path::new("/proc")
        .join(holder.id().to_string())
        .join("root");
    let point = root.join(point.strip_prefix("/").unwrap_or(point));
    File::open(point).map_err(|error| error.to_string())
}

/// Returns the path of an open file in /proc.
fn descriptor(file: &File) -> PathBuf {
    Path::new("/proc")
        .join(id().to_string())
        .join("fd")
        .join(file.as_raw_fd().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::{Requirement, skip};
    use std::fs;

    #[test]
    fn kernel_mount_is_invisible_and_ends_with_its_descriptor() {
        if skip(&[Requirement::Tool("mke2fs"), Requirement::LoopMount]) {
            return;
        }
        let case = Case {
            processes: 1,
            files: 1,
            values: 1,
        };
        let mount = KernelMount::new(case, MbCacheVariant::Referenced, true).unwrap();
        let path = mount.path();
        fs::write(path.join("file"), b"content").unwrap();
        assert_eq!(fs::read(path.join("file")).unwrap(), b"content");
        assert!(path.join("lost+found").is_dir());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let point = std::env::temp_dir().display().to_string();
        let is_test_mount = |line: &&str| line.contains(&point) && line.contains("noinit_itable");
        assert_eq!(mounts.lines().find(is_test_mount), None);
        assert!(!std::env::temp_dir().join("lost+found").exists());
        drop(mount);
        assert!(!path.join("file").exists());
    }
}
