//! The sides: the kernel's ext4 and Larder's mount, each on a fresh device, within limits.
//!
//! For the kernel, the readers are in the group, and what they read is the page cache's share of
//! it. For Larder, the server is in the group as well, its own cache, and what FUSE caches of the
//! readers' files.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use anyhow::{Context, Result};
use larder_readahead::PolicyName;
use larder_testkit::tool::Tool;

use crate::peer::Programs;
use crate::readahead::cgroup::{Cgroup, Limits};
use crate::readahead::device::Device;
use crate::readahead::plan::READ_AHEAD_BYTES;
use crate::server::Server;
use crate::user::User;

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The kernel's ext4.
    Kernel,
    /// `larder mount` as a user gets it: the kernel's FUSE cache and readahead are in front, and
    /// those for block devices behind.
    Larder,
    /// `larder mount` with nothing of the kernel's around it: every read reaches Larder's policy,
    /// and what that asks for goes to the device as it is.
    Policy(PolicyName),
}

impl Peer {
    /// All sides, in the order of the tables' columns.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let policies = PolicyName::ALL.iter().copied().map(Self::Policy);
        [Self::Kernel, Self::Larder]
            .into_iter()
            .chain(policies)
            .collect()
    }

    /// The name as it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Larder => "larder",
            Self::Policy(policy) => policy.as_str(),
        }
    }

    /// The arguments of `larder mount` behind the device and the mount point.
    fn mount_args(self, memory_bytes: Option<u64>) -> Vec<OsString> {
        let mut args = vec!["--foreground".to_owned()];
        let cache_bytes = |memory_bytes: u64| match self {
            // The rest is for what the kernel caches in front of it and behind.
            Self::Larder | Self::Kernel => memory_bytes / 4,
            // The rest is for the server's own needs, and the readers'.
            Self::Policy(_) => memory_bytes / 8 * 6,
        };
        if let Some(bytes) = memory_bytes.map(cache_bytes) {
            args.extend(["--cache-size".to_owned(), bytes.to_string()]);
        }
        if let Self::Policy(policy) = self {
            args.extend(["--readahead".to_owned(), policy.to_string()]);
            let max_bytes = READ_AHEAD_BYTES.to_string();
            args.extend(["--readahead-max".to_owned(), max_bytes]);
            args.extend(["-o".to_owned(), "ro,direct_io,direct_device".to_owned()]);
        } else {
            args.extend(["-o".to_owned(), "ro".to_owned()]);
        }
        args.into_iter().map(OsString::from).collect()
    }
}

/// A mounted peer, until this is dropped. What is dropped first needs what comes behind it.
#[derive(Debug)]
pub struct Mounted {
    root: PathBuf,
    _mount: Option<KernelMount>,
    _server: Option<Server>,
    group: Cgroup,
    device: Device,
}

impl Mounted {
    /// Mounts `image` by way of `peer`. Mount points and logs go below `folder`.
    pub fn new(
        programs: &Programs,
        peer: Peer,
        image: &Path,
        limits: Limits,
        folder: &Path,
    ) -> Result<Self> {
        let device = Device::attach(image, READ_AHEAD_BYTES)?;
        let group = Cgroup::new(&group_name(), limits, &device)?;
        let root = folder.join("mnt");
        fs::create_dir_all(&root)?;
        let (mut mount, mut server) = (None, None);
        if peer == Peer::Kernel {
            mount = Some(KernelMount::new(&device, &root)?);
        } else {
            let larder = programs.larder.clone().context("no larder binary")?;
            let mut command = group.command(&larder);
            command.arg("mount").arg(device.path()).arg(&root);
            command.args(peer.mount_args(limits.memory_bytes));
            let unmount = vec![larder, "umount".into()];
            let log = folder.join("server.log");
            let started = Server::start(command, root.clone(), unmount, User::Own, &log)?;
            server = Some(started);
        }
        Ok(Self {
            root,
            _mount: mount,
            _server: server,
            group,
            device,
        })
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The device below.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A command that runs `program` within the limits.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        self.group.command(program)
    }
}

/// No two groups of this process have the same name.
fn group_name() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let number = LAST.fetch_add(1, Relaxed);
    format!("larder-bench-{}-{number}", std::process::id())
}

/// The kernel's ext4 on a device, until this is dropped.
#[derive(Debug)]
struct KernelMount {
    root: PathBuf,
}

impl KernelMount {
    fn new(device: &Device, root: &Path) -> Result<Self> {
        Tool::new("mount")
            .args(["-t", "ext4", "-o", "ro,noload,noatime"])
            .args([device.path(), root])
            .run()?;
        Ok(Self {
            root: root.to_owned(),
        })
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        if let Err(error) = Tool::new("umount").arg(&self.root).run() {
            eprintln!("{error}");
        }
    }
}
