//! As whom a peer runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use larder_testkit::tool;
use serde::Serialize;

const NOBODY: u32 = 65534;
const FUSE_DEVICE: &str = "/dev/fuse";

/// As whom a peer and the workload on it run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum User {
    /// Whoever runs the benches.
    Own,
    /// `nobody`, by way of setpriv: needs root to begin with.
    Nobody,
}

impl User {
    /// A command that runs `program` as this user.
    #[must_use]
    pub fn command(self, program: &Path) -> Command {
        match self {
            Self::Own => Command::new(program),
            Self::Nobody => {
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={NOBODY}"))
                    .arg(format!("--regid={NOBODY}"))
                    .arg("--clear-groups")
                    .arg(program)
                    .env("HOME", "/nonexistent")
                    .env_remove("XDG_RUNTIME_DIR");
                command
            }
        }
    }

    /// Makes `path` this user's.
    pub fn own(self, path: &Path) -> Result<()> {
        if self == Self::Nobody {
            chown(path, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(())
    }

    /// Why nothing can be run as this user, if so.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Own => None,
            Self::Nobody if !larder_testkit::requirement::is_root() => {
                Some("only root can become another user".to_owned())
            }
            Self::Nobody => tool::find("setpriv")
                .is_none()
                .then(|| "setpriv is not installed".to_owned()),
        }
    }
}

/// Lets every user open `/dev/fuse`, as udev does everywhere, until this is dropped. Machines
/// without udev leave it to root alone.
#[derive(Debug)]
pub struct OpenFuseDevice {
    mode_before: Option<u32>,
}

impl OpenFuseDevice {
    /// Changes the device's mode if that is needed and allowed.
    #[must_use]
    pub fn new() -> Self {
        let mode = fs::metadata(FUSE_DEVICE).map_or(0o666, |data| data.permissions().mode());
        let closed = mode & 0o006 != 0o006;
        let changed =
            closed && fs::set_permissions(FUSE_DEVICE, Permissions::from_mode(0o666)).is_ok();
        Self {
            mode_before: changed.then_some(mode),
        }
    }
}

impl Default for OpenFuseDevice {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for OpenFuseDevice {
    fn drop(&mut self) {
        if let Some(mode) = self.mode_before {
            let _ = fs::set_permissions(FUSE_DEVICE, Permissions::from_mode(mode & 0o7777));
        }
    }
}
