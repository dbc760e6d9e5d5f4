//! The sides: the kernel's ext4 and Larder's mount, each on a new device, with limits.
//!
//! For the kernel, the group contains the readers, and the pages that they read count as its page cache.
//! For Larder, the group also contains the server with its cache, and the pages of the readers' files
//! that FUSE caches.

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
    /// `larder mount` with its defaults: the cache and readahead of the kernel's FUSE module are above
    /// it, and those of the block device are below it.
    Larder,
    /// `larder mount` without the kernel's caches around it: every read reaches Larder's policy, whose
    /// requests reach the device unchanged.
    Policy(PolicyName),
    /// The policy `legacy`, exactly as in Linux 2.6.20 (`readahead_exact`).
    ExactLegacy,
    /// The policy `ondemand`, exactly as in Linux 2.6.23.
    ExactOnDemand,
}

impl Peer {
    /// Returns all sides, in the order of the tables' columns.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let policies = PolicyName::ALL.iter().copied().map(Self::Policy);
        [Self::Kernel, Self::Larder]
            .into_iter()
            .chain(policies)
            .chain([Self::ExactLegacy, Self::ExactOnDemand])
            .collect()
    }

    /// Returns whether the policy works exactly as in its kernel.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::ExactLegacy | Self::ExactOnDemand)
    }

    /// Returns the name as it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Larder => "larder",
            Self::Policy(policy) => policy.as_str(),
            Self::ExactLegacy => "legacy-exact",
            Self::ExactOnDemand => "ondemand-exact",
        }
    }

    /// Returns the policy, unless it is the default of `larder mount`.
    const fn policy(self) -> Option<PolicyName> {
        match self {
            Self::Kernel | Self::Larder => None,
            Self::Policy(policy) => Some(policy),
            Self::ExactLegacy => Some(PolicyName::Legacy),
            Self::ExactOnDemand => Some(PolicyName::OnDemand),
        }
    }

    /// Returns the arguments of `larder mount` after the device and the mount point.
    fn mount_args(self, memory_bytes: Option<u64>) -> Vec<OsString> {
        let mut args = vec!["--foreground".to_owned()];
        let cache_bytes = |memory_bytes: u64| match self.policy() {
            // The rest is for the kernel's caches above and below the server.
            None => memory_bytes / 4,
            // The rest is for the server itself, and for the readers.
            Some(_) => memory_bytes / 8 * 6,
        };
        if let Some(bytes) = memory_bytes.map(cache_bytes) {
            args.extend(["--cache-size".to_owned(), bytes.to_string()]);
        }
        if let Some(policy) = self.policy() {
            args.extend(["--readahead".to_owned(), policy.to_string()]);
            let max_bytes = READ_AHEAD_BYTES.to_string();
            args.extend(["--readahead-max".to_owned(), max_bytes]);
            let exact = if self.is_exact() {
                ",readahead_exact"
            } else {
                ""
            };
            args.extend([
                "-o".to_owned(),
                format!("ro,direct_io,direct_device{exact}"),
            ]);
        } else {
            args.extend(["-o".to_owned(), "ro".to_owned()]);
        }
        args.into_iter().map(OsString::from).collect()
    }
}

/// A mounted peer. Dropping this unmounts it. Fields drop in order: each needs the fields after it.
#[derive(Debug)]
pub struct Mounted {
    root: PathBuf,
    _mount: Option<KernelMount>,
    _server: Option<Server>,
    group: Cgroup,
    device: Device,
}

impl Mounted {
    /// Mounts `image` with `peer`. Mount points and logs are created below `folder`.
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
            let larder = programs
                .larder
                .clone()
                .context("the larder binary was not found")?;
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

    /// Returns the root directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the device below the mount.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns a command that runs `program` within the limits.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        self.group.command(program)
    }
}

/// Returns a name for a group, different in each call and in each running process.
fn group_name() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let number = LAST.fetch_add(1, Relaxed);
    format!("larder-bench-{}-{number}", std::process::id())
}

/// A mount of the kernel's ext4 on a device. Dropping this unmounts it.
#[derive(Debug)]
pub(crate) struct KernelMount {
    root: PathBuf,
}

impl KernelMount {
    /// Mounts `device` on the directory `root`.
    pub(crate) fn new(device: &Device, root: &Path) -> Result<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_sides_mount_the_policy_of_their_kernel_without_changes() {
        for (exact, policy) in [
            (Peer::ExactLegacy, PolicyName::Legacy),
            (Peer::ExactOnDemand, PolicyName::OnDemand),
        ] {
            let mut args = Peer::Policy(policy).mount_args(Some(64 << 20));
            args.last_mut().unwrap().push(",readahead_exact");
            assert_eq!(exact.mount_args(Some(64 << 20)), args);
        }
    }

    #[test]
    fn names_of_sides_are_different() {
        let mut names: Vec<&str> = Peer::all().into_iter().map(Peer::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Peer::all().len());
    }
}
