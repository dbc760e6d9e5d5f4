//! The kernel's own mount of an image, through a loop device.
//!
//! Model: a detached mount, made with fsopen(2) and fsmount(2). It has no
//! mount point and lives as long as its descriptor, and the loop device is set
//! to detach itself, so nothing stays behind even if the process is killed.

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
    /// Read-only, and without recovery of the journal: the image never changes.
    ReadOnly,
    /// Read and write; recovers the journal.
    ReadWrite,
}

/// An image that the kernel has mounted, until this is dropped.
#[derive(Debug)]
pub struct LoopMount {
    // Fields drop in this order: the mount is closed, then its end is awaited.
    mount: OwnedFd,
    image: PathBuf,
    end: MountEnd,
}

impl LoopMount {
    /// Mounts `image` as ext4 (which reads ext2 and ext3 too). `options` are
    /// the file system's own, as `key` or `key=value`.
    pub fn new(image: &Path, access: Access, options: &[&str]) -> Result<Self> {
        let device = LoopDevice::attach(image, access)?;
        let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC).context("fsopen for", image)?;
        let told = |result: rustix::io::Result<()>| {
            result.map_err(|error| Error::Io {
                what: format!("mount {}{}", image.display(), kernel_messages(&context)),
                source: io::Error::from(error),
            })
        };
        told(fsconfig_set_string(&context, "source", &device.path))?;
        if access == Access::ReadOnly {
            told(fsconfig_set_flag(&context, "ro"))?;
            told(fsconfig_set_flag(&context, "noload"))?;
        }
        for option in options {
            told(match option.split_once('=') {
                Some((key, value)) => fsconfig_set_string(&context, key, value),
                None => fsconfig_set_flag(&context, *option),
            })?;
        }
        told(fsconfig_create(&context))?;
        let mut attributes = MountAttrFlags::MOUNT_ATTR_NOATIME | MountAttrFlags::MOUNT_ATTR_NODEV;
        if access == Access::ReadOnly {
            attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
        }
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
            .context("fsmount of", image)?;
        Ok(Self {
            mount,
            image: image.to_owned(),
            end: MountEnd {
                device: device.path.clone(),
                image: image.canonicalize().context("resolve the path of", image)?,
            },
        })
    }

    /// The root directory. The path works in this process and, for root, in
    /// its children.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/fd/{}/",
            std::process::id(),
            self.mount.as_raw_fd()
        ))
    }

    /// The loop device, as in `/dev/loop0`.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.end.device
    }

    /// Attaches the mount to `folder`, for programs that cannot work below [`LoopMount::path`]. It
    /// is detached again when what this returns is dropped, or the mount itself.
    pub fn attach(&self, folder: &Path) -> Result<Attached> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&self.mount, "", rustix::fs::CWD, folder, flags).context("attach to", folder)?;
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

/// Where a mount is attached, until this is dropped.
#[derive(Debug)]
pub struct Attached(PathBuf);

impl Drop for Attached {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.0, UnmountFlags::DETACH) {
            eprintln!("cannot detach {}: {error}", self.0.display());
        }
    }
}

/// Waits on drop until the kernel has written the last of a mount and let go of its image.
///
/// Closing the mount's descriptor is not enough: a process that another thread is just starting
/// holds a copy of it until it calls exec(2).
#[derive(Debug)]
struct MountEnd {
    device: PathBuf,
    image: PathBuf,
}

impl MountEnd {
    /// Past this, something else holds the mount, such as a file that is open in it.
    const LONGEST_WAIT: Duration = Duration::from_secs(20);

    /// Whether the loop device still reads and writes the image.
    fn is_attached(&self) -> bool {
        let name = self.device.file_name().expect("a device in /dev");
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
                eprintln!("{} is still mounted", self.image.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A loop device that goes away with its last user.
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
    /// Detaches the device; while a mount holds it, the kernel does so when
    /// that goes away.
    fn drop(&mut self) {
        if let Err(error) = Tool::new("losetup").arg("--detach").arg(&self.path).run() {
            eprintln!("{error}");
        }
    }
}

/// What the kernel says of a refused mount.
fn kernel_messages(context: &OwnedFd) -> String {
    let mut text = String::new();
    let mut buf = [0; 1024];
    while let Ok(len @ 1..) = rustix::io::read(context, &mut buf) {
        text.push_str(": ");
        text.push_str(String::from_utf8_lossy(&buf[..len]).trim());
    }
    text
}
