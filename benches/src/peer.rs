//! The peers, and the guards that unmount them, also after a failure.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use larder_testkit::requirement::{can_loop_mount, is_root};
use larder_testkit::{Access, Attached, LoopMount, tool};

use crate::child;
use crate::fio;
use crate::named::named;
use crate::server::Server;
use crate::tree::Tree;
use crate::uring::Uring;
use crate::user::User;

named! {
    /// One side of a comparison.
    Peer {
        /// `larder mount` over `io_uring`.
        Larder: "larder",
        /// `larder mount` over /dev/fuse.
        LarderDev: "larder-dev",
        /// `larder mount` over `io_uring`, with direct I/O on the image.
        LarderDirect: "larder-direct",
        /// The same over /dev/fuse.
        LarderDevDirect: "larder-dev-direct",
        /// fuse2fs.
        Fuse2fs: "fuse2fs",
        /// squashfuse, which reads a squashfs archive of the same files.
        Squashfuse: "squashfuse",
        /// The kernel's ext4 on a loop device.
        Kernel: "kernel",
        /// The FUSE server without a file system, over `io_uring`.
        Floor: "floor",
        /// The same over /dev/fuse.
        FloorDev: "floor-dev",
        /// The image file itself, without its file system.
        Device: "device",
        /// The library `larder` in process.
        Volume: "volume",
        /// The same by path, with `Fs`.
        Fs: "fs",
        /// The equivalent system call.
        Syscall: "syscall",
        /// The library in process, with direct I/O on the image.
        Direct: "direct",
        /// fio with `io_uring`, on the image file.
        Fio: "fio",
        /// `larder mount` over /dev/fuse, of the image as a qcow2 image.
        Qcow2: "larder-qcow2",
        /// `larder mount` over /dev/fuse, with an overlay for the changes.
        Overlay: "larder-overlay",
        /// The kernel's ext4 on a loop device, on a file that qemu-storage-daemon serves from the qcow2 image.
        Qemu: "qemu",
    }
}

impl Peer {
    /// Returns whether it is a mount that serves the content of the image. If so, the readers can check the
    /// content.
    #[must_use]
    pub const fn has_content(self) -> bool {
        matches!(
            self,
            Self::Larder
                | Self::LarderDev
                | Self::LarderDirect
                | Self::LarderDevDirect
                | Self::Fuse2fs
                | Self::Squashfuse
                | Self::Kernel
                | Self::Qcow2
                | Self::Qemu
        )
    }

    /// Returns the name of the transport, if this is Larder or the floor.
    #[must_use]
    pub const fn transport(self) -> Option<&'static str> {
        match self {
            Self::Larder | Self::LarderDirect | Self::Floor => Some("uring"),
            Self::LarderDev
            | Self::LarderDevDirect
            | Self::FloorDev
            | Self::Qcow2
            | Self::Overlay => Some("dev"),
            _ => None,
        }
    }

    /// Returns the options of a read-only mount.
    #[must_use]
    const fn read_only_options(self) -> &'static str {
        match self {
            Self::LarderDirect | Self::LarderDevDirect => "ro,direct_device",
            _ => "ro",
        }
    }

    /// Returns whether the kernel must offer `io_uring` to FUSE servers.
    #[must_use]
    pub const fn needs_uring(self) -> bool {
        matches!(self, Self::Larder | Self::LarderDirect | Self::Floor)
    }

    /// Returns the image of `tree` that this peer mounts.
    #[must_use]
    pub fn image_of(self, tree: &Tree) -> &Path {
        match self {
            Self::Squashfuse => &tree.squashfs,
            Self::Qcow2 | Self::Qemu => &tree.qcow2,
            _ => &tree.image,
        }
    }
}

/// The programs of the peers.
#[derive(Clone, Debug)]
pub struct Programs {
    /// This crate's binary, for the floor and for workloads in separate processes.
    pub harness: PathBuf,
    /// The `larder` binary, if there is one.
    pub larder: Option<PathBuf>,
}

impl Programs {
    /// Returns this crate's binary, and the `larder` binary beside it if it was built.
    #[must_use]
    pub fn beside(harness: PathBuf) -> Self {
        let larder = harness.with_file_name("larder");
        Self {
            larder: larder.is_file().then_some(larder),
            harness,
        }
    }

    /// Returns the reason why `peer` cannot be measured here, if there is one.
    #[must_use]
    pub fn missing(&self, peer: Peer) -> Option<String> {
        let fuse = || match () {
            () if !Path::new("/dev/fuse").exists() => Some("/dev/fuse does not exist".to_owned()),
            () if !is_root() && tool::find("fusermount3").is_none() => {
                Some("fusermount3 is not installed".to_owned())
            }
            () => None,
        };
        match peer {
            Peer::Larder
            | Peer::LarderDev
            | Peer::LarderDirect
            | Peer::LarderDevDirect
            | Peer::Qcow2
            | Peer::Overlay
                if self.larder.is_none() =>
            {
                Some(
                    "the larder binary was not found; build it, or give its path with --larder"
                        .to_owned(),
                )
            }
            Peer::Qcow2 | Peer::Overlay | Peer::Qemu if tool::find("qemu-img").is_none() => {
                Some("qemu-img is not installed".to_owned())
            }
            Peer::Qemu if tool::find("qemu-storage-daemon").is_none() => {
                Some("qemu-storage-daemon is not installed".to_owned())
            }
            Peer::Fuse2fs if tool::find("fuse2fs").is_none() => {
                Some("fuse2fs is not installed".to_owned())
            }
            Peer::Squashfuse if tool::find("squashfuse").is_none() => {
                Some("squashfuse is not installed".to_owned())
            }
            Peer::Squashfuse if tool::find("mksquashfs").is_none() => {
                Some("mksquashfs is not installed".to_owned())
            }
            Peer::Larder | Peer::LarderDirect | Peer::Floor => fuse().or_else(Uring::missing),
            Peer::LarderDev
            | Peer::LarderDevDirect
            | Peer::FloorDev
            | Peer::Fuse2fs
            | Peer::Squashfuse
            | Peer::Qcow2
            | Peer::Overlay => fuse(),
            Peer::Kernel | Peer::Qemu => {
                (!can_loop_mount()).then(|| "needs root and loop devices".to_owned())
            }
            Peer::Fio => fio::missing(&self.harness),
            Peer::Device | Peer::Volume | Peer::Fs | Peer::Direct | Peer::Syscall => None,
        }
    }
}

/// A mounted peer. Dropping this unmounts it.
#[derive(Debug)]
pub struct Mounted {
    root: PathBuf,
    // The fields drop in this order, so that the mount is detached from the directory before the loop mount
    // is released.
    _attached: Option<Attached>,
    _mount: Option<LoopMount>,
    server: Option<Server>,
}

impl Mounted {
    /// Mounts `tree`'s image with `peer`. Mount points and logs are created below `folder`.
    pub fn new(
        programs: &Programs,
        peer: Peer,
        user: User,
        tree: &Tree,
        folder: &Path,
    ) -> Result<Self> {
        if peer == Peer::Kernel {
            let mount = LoopMount::new(&tree.image, Access::ReadOnly, &[])?;
            return Ok(Self {
                root: mount.path(),
                _attached: None,
                _mount: Some(mount),
                server: None,
            });
        }
        let place = Place {
            image: peer.image_of(tree),
            options: peer.read_only_options().to_owned(),
            folder,
        };
        let server = serve(programs, peer, user, &place, tree.big_file_bytes)?;
        if peer == Peer::Qemu {
            let mount = LoopMount::new(server.mountpoint(), Access::ReadOnly, &[])?;
            return Ok(Self {
                root: mount.path(),
                _attached: None,
                _mount: Some(mount),
                server: Some(server),
            });
        }
        Ok(Self::by(server))
    }

    fn by(server: Server) -> Self {
        Self {
            root: server.mountpoint().to_owned(),
            _attached: None,
            _mount: None,
            server: Some(server),
        }
    }

    /// Mounts `image` for writing with `peer`, as the user that runs the benches, with additional
    /// `options` of that peer. Mount points and logs are created below `folder`.
    pub fn for_writing(
        programs: &Programs,
        peer: Peer,
        options: &[&str],
        image: &Path,
        folder: &Path,
    ) -> Result<Self> {
        if peer == Peer::Kernel {
            let mount = LoopMount::new(image, Access::ReadWrite, options)?;
            let root = folder.join("mnt-kernel");
            fs::create_dir_all(&root)?;
            let attached = mount.attach(&root)?;
            return Ok(Self {
                root,
                _attached: Some(attached),
                _mount: Some(mount),
                server: None,
            });
        }
        let place = Place {
            image,
            options: [&["rw"], options].concat().join(","),
            folder,
        };
        Ok(Self::by(serve(programs, peer, User::Own, &place, 0)?))
    }

    /// Returns the process ID of the FUSE server, or `None` for the kernel.
    #[must_use]
    pub fn server_pid(&self) -> Option<u32> {
        Some(self.server.as_ref()?.pid())
    }

    /// Returns the root directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// The image and the options of a mount, and the directory of mount points and logs.
struct Place<'p> {
    image: &'p Path,
    options: String,
    folder: &'p Path,
}

/// Returns the file with the changes of `image` by [`Peer::Overlay`].
pub(crate) fn overlay_of(image: &Path) -> PathBuf {
    image.with_extension("overlay")
}

/// Starts the FUSE server of `peer`. The floor serves a file of `floor_bytes`.
fn serve(
    programs: &Programs,
    peer: Peer,
    user: User,
    place: &Place<'_>,
    floor_bytes: u64,
) -> Result<Server> {
    let mountpoint = place.folder.join(format!("mnt-{}", peer.name()));
    if peer == Peer::Qemu {
        File::create(&mountpoint)?;
    } else {
        fs::create_dir_all(&mountpoint)?;
    }
    user.own(&mountpoint)?;
    let (command, unmount) = match peer {
        Peer::Larder
        | Peer::LarderDev
        | Peer::LarderDirect
        | Peer::LarderDevDirect
        | Peer::Qcow2
        | Peer::Overlay => {
            let larder = programs
                .larder
                .clone()
                .context("the larder binary was not found")?;
            let mut command = user.command(&larder);
            command
                .arg("mount")
                .arg(place.image)
                .arg(&mountpoint)
                .args(["--foreground", "-o", &place.options, "--transport"])
                .args(peer.transport());
            if peer == Peer::Overlay {
                command.arg("--overlay").arg(overlay_of(place.image));
            }
            (command, vec![larder, "umount".into()])
        }
        Peer::Qemu => {
            let mut command = user.command(&child::find("qemu-storage-daemon")?);
            let (image, export) = (place.image.display(), mountpoint.display());
            command
                .arg("--blockdev")
                .arg(format!(
                    "driver=file,node-name=file,read-only=on,filename={image}"
                ))
                .args([
                    "--blockdev",
                    "driver=qcow2,node-name=disk,read-only=on,file=file",
                ])
                .arg("--export")
                .arg(format!(
                    "type=fuse,id=export,node-name=disk,writable=off,mountpoint={export}"
                ));
            // It does not exit after an unmount, and is killed.
            (command, Vec::new())
        }
        Peer::Fuse2fs | Peer::Squashfuse => {
            let mut command = user.command(&child::find(peer.name())?);
            command
                .arg(place.image)
                .arg(&mountpoint)
                .args(["-f", "-o", &place.options]);
            (command, vec![child::find("fusermount3")?, "-u".into()])
        }
        Peer::Floor | Peer::FloorDev => {
            let mut command = user.command(&programs.harness);
            command
                .arg("floor")
                .arg(&mountpoint)
                .arg(floor_bytes.to_string())
                .args(peer.transport());
            (command, vec![child::find("fusermount3")?, "-u".into()])
        }
        _ => bail!("{} is not a FUSE server", peer.name()),
    };
    let log = place.folder.join(format!("{}.log", peer.name()));
    Server::start(command, mountpoint, unmount, user, &log)
}
