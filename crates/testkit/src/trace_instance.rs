//! Private trace instances of the kernel.
//!
//! An instance has its own buffer and its own switches, so that it is independent of other tracing on the machine. It is
//! removed when the [`TraceInstance`] is dropped. The tracing file system is mounted detached, as in
//! [`LoopMount`](crate::LoopMount).

use crate::error::{Context, Result};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The prefix of the names of instances. The process id of the creator follows.
const PREFIX: &str = "larder-";

/// The number of instances that this process has created.
static INSTANCES: AtomicU32 = AtomicU32::new(0);

/// Returns the reason why `events`, such as `fuse/fuse_request_send`, cannot be traced, if there is one.
#[must_use]
pub fn missing(events: &[&str]) -> Option<String> {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.lines().any(|line| line.ends_with("\ttracefs")) {
        return Some("the kernel has no tracefs".to_owned());
    }
    let mount = mount().map_err(|error| error.to_string());
    let root = match mount {
        Ok(ref mount) => path_of(mount),
        Err(reason) => return Some(reason),
    };
    let missing = events
        .iter()
        .find(|event| !root.join("events").join(event).exists())?;
    Some(format!("the kernel has no tracepoint {missing}"))
}

/// A trace instance, which is removed on drop. All of its files must be closed by then, because an open file makes the
/// instance busy.
#[derive(Debug)]
pub struct TraceInstance {
    folder: PathBuf,
    _mount: OwnedFd,
}

impl TraceInstance {
    /// Creates an instance in which no tracepoint is enabled.
    pub fn new() -> Result<Self> {
        let mount = mount()?;
        let instances = path_of(&mount).join("instances");
        remove_abandoned(&instances);
        let number = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let folder = instances.join(format!("{PREFIX}{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).context("create the trace instance", &folder)?;
        Ok(Self {
            folder,
            _mount: mount,
        })
    }

    /// Returns the directory of the instance's files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes `text` to the file `name` of the instance.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).context("write", &path)
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir(&self.folder) {
            eprintln!("cannot remove {}: {error}", self.folder.display());
        }
    }
}

/// Removes the instances of processes that were killed.
fn remove_abandoned(instances: &Path) {
    for entry in std::fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
            && let Err(error) = std::fs::remove_dir(entry.path())
        {
            eprintln!("cannot remove {}: {error}", entry.path().display());
        }
    }
}

fn mount() -> Result<OwnedFd> {
    let path = Path::new("tracefs");
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)
        .context("open a tracefs context for", path)?;
    fsconfig_create(&context).context("mount", path)?;
    let attributes = MountAttrFlags::empty();
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).context("create a mount of", path)
}

fn path_of(mount: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()))
}
