//! The user that runs a peer.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use larder_testkit::tool;
use serde::Serialize;

const NOBODY: u32 = 65534;
const FUSE_DEVICE: &str = "/dev/fuse";

/// The user that runs a peer and its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum User {
    /// The user that runs the benches.
    Own,
    /// The user `nobody`. Programs run through setpriv, which requires root.
    Nobody,
}

impl User {
    /// Returns a command that runs `program` as this user.
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

    /// Changes the owner of `path` to this user.
    pub fn own(self, path: &Path) -> Result<()> {
        if self == Self::Nobody {
            chown(path, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(())
    }

    /// Returns the reason why nothing can run as this user, if there is one.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Own => None,
            Self::Nobody if !larder_testkit::requirement::is_root() => {
                Some("root is required to run as another user".to_owned())
            }
            Self::Nobody => tool::find("setpriv")
                .is_none()
                .then(|| "setpriv is not installed".to_owned()),
        }
    }
}

/// A guard that lets every user open `/dev/fuse`. Its drop restores the mode of the device. With udev, every
/// user can usually open the device anyway. Without udev, only root can.
#[derive(Debug)]
pub struct OpenFuseDevice {
    mode_before: Option<u32>,
}

impl OpenFuseDevice {
    /// Changes the device's mode if that is necessary and permitted.
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
