//! A mount by larder of an image at a URL, or of a local file that another client provides.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::server::Server;
use crate::user::User;

/// How an image is mounted.
#[derive(Clone, Debug, Default)]
pub(super) struct Mount {
    options: Vec<OsString>,
    has_disk_cache: bool,
}

impl Mount {
    /// Adds an option with a value.
    pub(super) fn with(mut self, option: &str, value: impl Into<OsString>) -> Self {
        self.has_disk_cache |= option == "--cache-dir";
        self.options.extend([option.into(), value.into()]);
        self
    }

    /// Mounts `image`, a URL or a path, in a new directory below `folder`. An image at a URL has no disk cache, unless
    /// an option names its directory.
    pub(super) fn start(&self, larder: &Path, image: &str, folder: &Path) -> Result<Server> {
        let mountpoint = folder.join("mnt");
        fs::create_dir_all(&mountpoint)?;
        let mut command = Command::new(larder);
        command.args(["mount", "--foreground", "-o", "ro", image]);
        command.arg(&mountpoint).args(&self.options);
        if image.contains("://") && !self.has_disk_cache {
            command.args(["--cache-disk-size", "0"]);
        }
        let unmount = vec![larder.to_owned(), "umount".into()];
        let log = folder.join("larder.log");
        Server::start(command, mountpoint, unmount, User::Own, &log)
    }
}

/// Returns the reason why images at URLs cannot be mounted, if there is one.
pub(super) fn missing(larder: Option<&Path>) -> Option<String> {
    let Some(larder) = larder else {
        return Some(
            "the larder binary was not found; build it, or name it with --larder".to_owned(),
        );
    };
    let remote: PathBuf = larder.with_file_name("larder-remote");
    (!remote.is_file()).then(|| format!("{} does not exist; build it", remote.display()))
}

/// Returns a field of `/proc/PID/status` in bytes, such as `VmRSS`.
pub(super) fn memory_bytes(server: &Server, field: &str) -> Result<u64> {
    let path = format!("/proc/{}/status", server.pid());
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("{path} has no {field}"))? << 10)
}
