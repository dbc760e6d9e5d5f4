//! A FUSE server in a separate process, and the guard that unmounts it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use larder_fuse::MountEntry;

use crate::child::{tail, wait_for};
use crate::user::User;

/// The time limit for a server to mount, and to exit after the unmount.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A FUSE server in the foreground, and the mount that it serves.
#[derive(Debug)]
pub struct Server {
    child: Child,
    mountpoint: PathBuf,
    user: User,
    /// The unmount command, without the mount point.
    unmount: Vec<PathBuf>,
}

impl Server {
    /// Starts `command`, a server in the foreground, and waits until `mountpoint` is mounted. The standard
    /// error of the server is written to `log`. `unmount` is the command that unmounts the mount point later,
    /// without its last argument, the mount point.
    pub fn start(
        mut command: Command,
        mountpoint: PathBuf,
        unmount: Vec<PathBuf>,
        user: User,
        log: &Path,
    ) -> Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(log)?);
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        let mut server = Self {
            child,
            mountpoint,
            user,
            unmount,
        };
        server.wait_until_mounted(&command, log)?;
        Ok(server)
    }

    /// Returns the process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the mount point.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    fn wait_until_mounted(&mut self, command: &Command, log: &Path) -> Result<()> {
        let give_up = Instant::now() + TIMEOUT;
        while mounted_at(&self.mountpoint).is_none() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{command:?}: {status}: {}", tail(log));
            }
            if Instant::now() > give_up {
                bail!(
                    "{command:?}: did not mount within {} s: {}",
                    TIMEOUT.as_secs(),
                    tail(log)
                );
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn run_unmount(&self) -> bool {
        let Some((program, args)) = self.unmount.split_first() else {
            return false;
        };
        let mut command = self.user.command(program);
        command.args(args).arg(&self.mountpoint);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Server {
    /// Unmounts, and waits until the server has exited and released the image. If that fails, detaches
    /// the mount and kills the server, so that neither remains.
    fn drop(&mut self) {
        let clean = mounted_at(&self.mountpoint).is_some()
            && self.run_unmount()
            && wait_for(&mut self.child, TIMEOUT).is_ok_and(|status| status.is_some());
        if clean {
            return;
        }
        let _ = Command::new("fusermount3")
            .args(["-u", "-z"])
            .arg(&self.mountpoint)
            .stderr(Stdio::null())
            .status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the mount at `mountpoint`, according to the kernel's list. The mount itself is not accessed,
/// because it may belong to another user or have a dead server.
fn mounted_at(mountpoint: &Path) -> Option<MountEntry> {
    larder_fuse::find_mount(mountpoint).ok()
}
