//! The requirements of a test on the machine, and the report of a skipped test.

use crate::tool;
use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;

/// A feature that not every machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// A program.
    Tool(&'static str),
    /// Root privileges.
    Root,
    /// Loop devices and a kernel with ext4.
    LoopMount,
    /// Loop devices and a kernel with XFS, whose files can share extents.
    XfsMount,
    /// The kernel's FUSE device.
    Fuse,
    /// A kernel that offers `io_uring` to FUSE servers at present.
    FuseOverUring,
}

impl Requirement {
    /// Returns the reason why the requirement is not met, or `None` if it is met.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Tool(name) => tool::find(name)
                .is_none()
                .then(|| format!("{name} is not installed")),
            Self::Root => (!is_root()).then(|| "needs root".to_owned()),
            Self::LoopMount => missing_loop_mount("ext4"),
            Self::XfsMount => missing_loop_mount("xfs"),
            Self::Fuse => {
                (!Path::new("/dev/fuse").exists()).then(|| "/dev/fuse does not exist".to_owned())
            }
            Self::FuseOverUring => {
                let setting = std::fs::read("/sys/module/fuse/parameters/enable_uring");
                let is_offered = setting.is_ok_and(|value| value.starts_with(b"Y"));
                (!is_offered)
                    .then(|| "the kernel does not offer io_uring to FUSE servers".to_owned())
            }
        }
    }
}

/// Returns whether this process runs as root, and so may mount.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns whether the kernel can mount images here.
#[must_use]
pub fn can_loop_mount() -> bool {
    missing_loop_mount("ext4").is_none()
}

/// Prints `skipped: …` and returns true if a requirement is not met:
///
/// ```
/// # use larder_testkit::{skip, Requirement};
/// if skip(&[Requirement::Tool("mke2fs"), Requirement::LoopMount]) {
///     return;
/// }
/// ```
#[must_use]
pub fn skip(requirements: &[Requirement]) -> bool {
    let missing = requirements.iter().find_map(|needed| needed.missing());
    if let Some(reason) = &missing {
        report_skipped(reason);
    }
    missing.is_some()
}

/// Prints that the running test, or a part of it, is skipped, and the reason. The text bypasses the
/// capture of the test runner, which prints the output of failed tests only.
pub fn report_skipped(reason: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test");
    // A failure to print must not fail the test.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

fn missing_loop_mount(file_system: &str) -> Option<String> {
    if !is_root() {
        return Some("mounting through the kernel needs root".to_owned());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("no loop devices (/dev/loop-control is missing)".to_owned());
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.lines().any(|line| line.trim() == file_system) {
        return Some(format!("the kernel does not support {file_system}"));
    }
    Requirement::Tool("losetup").missing()
}
