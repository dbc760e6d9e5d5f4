//! The kernel's own mount of an image, through a loop device.
//!
//! Model: a detached mount, made with fsopen(2) and fsmount(2). It has no mount point and exists as long
//! as its descriptor. The loop device detaches itself after its last use. So nothing remains, even if the
//! process is killed.

use crate::error::{Context, Error, Result};
use crate::tool::Tool;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Whether the kernel may write to the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read-only, without recovery of the journal: the image never changes.
    ReadOnly,
    /// Read and write. The mount recovers the journal.
    ReadWrite,
}

/// An image that the kernel has mounted. The drop unmounts it.
#[derive(Debug)]
pub struct LoopMount {
    // Fields are dropped in this order: first `mount` is closed, then the drop of `end` waits until the mount
    // has ended.
    mount: OwnedFd,
    image: PathBuf,
    end: MountEnd,
}

impl LoopMount {
    /// Mounts `image` as ext4 (which also reads ext2 and ext3). `options` are options of the file
    /// system, as `key` or `key=value`.
    pub fn new(image: &Path, access: Access, options: &[&str]) -> Result<Self> {
        let mut options = options.to_vec();
        if access == Access::ReadOnly {
            options.push("noload");
        }
        Self::of_type("ext4", image, access, &options)
    }

    /// Mounts `image`, whose file system has this type, as in `/proc/filesystems`.
    pub fn of_type(kind: &str, image: &Path, access: Access, options: &[&str]) -> Result<Self> {
        let device = LoopDevice::attach(image, access)?;
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)
            .context("open a file system context for", image)?;
        let with_messages = |result: rustix::io::Result<()>| {
            result.map_err(|error| Error::Io {
                what: format!(
                    "cannot mount {}{}",
                    image.display(),
                    kernel_messages(&context)
                ),
                source: io::Error::from(error),
            })
        };
        with_messages(fsconfig_set_string(&context, "source", &device.path))?;
        if access == Access::ReadOnly {
            with_messages(fsconfig_set_flag(&context, "ro"))?;
        }
        for option in options {
            with_messages(match option.split_once('=') {
                Some((key, value)) => fsconfig_set_string(&context, key, value),
                None => fsconfig_set_flag(&context, *option),
            })?;
        }
        with_messages(fsconfig_create(&context))?;
        let mut attributes = MountAttrFlags::MOUNT_ATTR_NOATIME | MountAttrFlags::MOUNT_ATTR_NODEV;
        if access == Access::ReadOnly {
            attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
        }
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
            .context("create a mount of", image)?;
        Ok(Self {
            mount,
            image: image.to_owned(),
            end: MountEnd {
                device: device.path.clone(),
                image: image.canonicalize().context("resolve the path of", image)?,
            },
        })
    }

    /// Returns the root directory. The path works in this process and, for root, in its children.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/fd/{}/",
            std::process::id(),
            self.mount.as_raw_fd()
        ))
    }

    /// Returns the loop device, such as `/dev/loop0`.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.end.device
    }

    /// Attaches the mount to `folder`, for programs that cannot work below [`LoopMount::path`]. It is
    /// detached when the return value or the mount is dropped.
    pub fn attach(&self, folder: &Path) -> Result<Attached> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&self.mount, "", rustix::fs::CWD, folder, flags)
            .context("attach the mount to", folder)?;
        Ok(Attached(folder.to_owned()))
    }

    /// Writes everything to the image, as sync(1) does.
    pub fn sync(&self) -> Result<()> {
        let root = rustix::fs::open(
            self.path(),
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .context("open the root of", &self.image)?;
        rustix::fs::syncfs(&root).context("sync", &self.image)
    }
}

/// The attachment of a mount to a folder. The drop detaches the mount from the folder.
#[derive(Debug)]
pub struct Attached(PathBuf);

impl Drop for Attached {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.0, UnmountFlags::DETACH) {
            eprintln!("cannot detach {}: {error}", self.0.display());
        }
    }
}

/// On drop, waits until the kernel has written all data of a mount and released its image.
///
/// Closing the mount's descriptor is not enough: a child process that another thread is starting has a
/// copy of the descriptor until the child calls exec(2).
#[derive(Debug)]
struct MountEnd {
    device: PathBuf,
    image: PathBuf,
}

impl MountEnd {
    /// If the mount lasts longer, something else must be using it, such as a process with an open file.
    const LONGEST_WAIT: Duration = Duration::from_secs(20);

    /// Returns whether the loop device still uses the image.
    fn is_attached(&self) -> bool {
        let name = self.device.file_name().expect("the device has a name");
        let backing_file = Path::new("/sys/block").join(name).join("loop/backing_file");
        std::fs::read_to_string(backing_file).is_ok_and(|path| {
            let path = path.trim_end();
            Path::new(path.strip_suffix(" (deleted)").unwrap_or(path)) == self.image
        })
    }
}

impl Drop for MountEnd {
    fn drop(&mut self) {
        let start = Instant::now();
        while self.is_attached() {
            if start.elapsed() > Self::LONGEST_WAIT {
                eprintln!(
                    "{} is still mounted after {} s",
                    self.image.display(),
                    Self::LONGEST_WAIT.as_secs()
                );
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A loop device that is detached when its last user ends.
struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    fn attach(image: &Path, access: Access) -> Result<Self> {
        let mut tool = Tool::new("losetup").args(["--find", "--show"]);
        if access == Access::ReadOnly {
            tool = tool.arg("--read-only");
        }
        let path = tool.arg(image).run()?;
        Ok(Self {
            path: PathBuf::from(path.trim()),
        })
    }
}

impl Drop for LoopDevice {
    /// Detaches the device. While a mount uses it, the kernel delays this until the mount ends.
    fn drop(&mut self) {
        if let Err(error) = Tool::new("losetup").arg("--detach").arg(&self.path).run() {
            eprintln!("{error}");
        }
    }
}

/// Returns the kernel's messages about a refused mount.
fn kernel_messages(context: &OwnedFd) -> String {
    let mut text = String::new();
    let mut buf = [0; 1024];
    while let Ok(len @ 1..) = rustix::io::read(context, &mut buf) {
        text.push_str(": ");
        text.push_str(String::from_utf8_lossy(&buf[..len]).trim());
    }
    text
}
