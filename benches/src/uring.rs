//! The kernel's setting that offers `io_uring` to FUSE servers.

use std::fs;

use larder_fuse::Transport;
use rustix::fs::{Access, access};

const PARAMETER: &str = Transport::URING_PARAMETER;

/// A guard that makes the kernel offer `io_uring` to FUSE servers. Its drop restores the setting.
#[derive(Debug)]
pub struct Uring {
    /// The value to restore, if it was changed.
    before: Option<String>,
}

impl Uring {
    /// Changes the setting if that is necessary and permitted.
    #[must_use]
    pub fn enable() -> Self {
        let before = fs::read_to_string(PARAMETER).ok();
        let before = before.filter(|value| !is_enabled(value));
        Self {
            before: before.filter(|_| fs::write(PARAMETER, "Y").is_ok()),
        }
    }

    /// Returns the reason why the kernel does not offer `io_uring` even after [`Uring::enable`], if there is
    /// one.
    #[must_use]
    pub fn missing() -> Option<String> {
        match fs::read_to_string(PARAMETER) {
            Err(_) => Some(format!("needs Linux 6.14 or later; no {PARAMETER}")),
            Ok(value) if is_enabled(&value) => None,
            Ok(_) => access(PARAMETER, Access::WRITE_OK)
                .err()
                .map(|error| format!("cannot write {PARAMETER}, which needs root: {error}")),
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = fs::write(PARAMETER, before)
        {
            eprintln!("cannot restore {PARAMETER} to {}: {error}", before.trim());
        }
    }
}

fn is_enabled(value: &str) -> bool {
    value.trim() == "Y"
}
