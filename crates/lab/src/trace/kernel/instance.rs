//! Creates a tracing instance in the kernel: a set of buffers and enabled tracepoints.
//!
//! An instance does not interfere with other tracing on the machine. The tracing file system is mounted
//! detached, so it does not matter whether and where the machine mounts it. An instance is removed on drop.
//! If a process was killed, its instances are removed when the next instance is created.

use super::error::Error;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Prefix of the names of instances. The process ID follows it.
const PREFIX: &str = "larder-record-";

/// Number of instances that this process has created.
static INSTANCES: AtomicU32 = AtomicU32::new(0);

/// The tracing file system, in a detached mount that is invisible to other processes.
#[derive(Debug)]
pub(super) struct Tracefs(OwnedFd);

impl Tracefs {
    pub(super) fn mount() -> Result<Arc<Self>, Error> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let mount = || {
            let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&context)?;
            let attributes = MountAttrFlags::empty();
            fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        };
        match mount() {
            Ok(mount) => Ok(Arc::new(Self(mount))),
            Err(Errno::PERM | Errno::ACCESS) => Err(Error::NotRoot),
            Err(error) => Err(Error::NoTracefs(error.into())),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Returns the text of `name` below `events`; `None` if the file does not exist.
    pub(super) fn event_file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path().join("events").join(name)).ok()
    }

    /// Returns the text of `events/header_page`. The kernel returns this text only in the first read(2).
    pub(super) fn header_page(&self) -> io::Result<String> {
        let mut file = fs::File::open(self.path().join("events/header_page"))?;
        let mut text = vec![0; 4096];
        let len = file.read(&mut text)?;
        Ok(String::from_utf8_lossy(&text[..len]).into_owned())
    }
}

/// An instance whose tracing is off until it is enabled.
#[derive(Debug)]
pub(super) struct Instance {
    folder: PathBuf,
    /// The pipes of event pages. They must be closed before the instance is removed, since the instance is busy
    /// while a pipe is open.
    pipes: Vec<OwnedFd>,
    _tracefs: Arc<Tracefs>,
}

impl Instance {
    /// Creates an instance with `buffer_bytes` for each processor.
    pub(super) fn new(tracefs: &Arc<Tracefs>, buffer_bytes: u64) -> Result<Self, Error> {
        let instances = tracefs.path().join("instances");
        remove_abandoned(&instances);
        let number = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let folder = instances.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(Error::tracefs("create the trace instance", &folder))?;
        let mut instance = Self {
            folder,
            pipes: Vec::new(),
            _tracefs: Arc::clone(tracefs),
        };
        instance.write("tracing_on", "0")?;
        // The clock `mono` is consistent across processors, and this process can read it.
        instance.write("trace_clock", "mono")?;
        // When the buffer is full, new events are lost instead of old ones.
        instance.write("options/overwrite", "0")?;
        let kib = buffer_bytes.div_ceil(1024).max(1);
        instance.write("buffer_size_kb", &kib.to_string())?;
        instance.pipes = instance.open_pipes()?;
        Ok(instance)
    }

    fn open_pipes(&self) -> Result<Vec<OwnedFd>, Error> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipes = self.processors()?.into_iter().map(|folder| {
            let path = folder.join("trace_pipe_raw");
            rustix::fs::open(&path, flags, Mode::empty()).map_err(Error::tracefs("open", &path))
        });
        pipes.collect()
    }

    /// Returns the directories of the processors.
    fn processors(&self) -> Result<Vec<PathBuf>, Error> {
        let path = self.folder.join("per_cpu");
        let list = || {
            fs::read_dir(&path)?
                .map(|entry| Ok(entry?.path()))
                .collect()
        };
        let folders: io::Result<Vec<PathBuf>> = list();
        folders.map_err(Error::tracefs("list", &path))
    }

    /// Returns the pipe of event pages of each processor.
    pub(super) fn pipes(&self) -> &[OwnedFd] {
        &self.pipes
    }

    /// Enables the tracepoint `name`, for events that match `filter`.
    pub(super) fn enable(&self, name: &str, filter: Option<&str>) -> Result<(), Error> {
        if let Some(filter) = filter {
            self.write(&format!("events/{name}/filter"), filter)?;
        }
        self.write(&format!("events/{name}/enable"), "1")
    }

    /// Replaces the content of one of the instance's files.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(Error::tracefs("write", &path))
    }

    /// Appends to one of the instance's files that contain lists.
    pub(super) fn append(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        let file = fs::OpenOptions::new().append(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(Error::tracefs("write", &path))
    }

    /// Returns the number of events lost so far, on all processors.
    pub(super) fn lost(&self) -> Result<u64, Error> {
        let mut lost = 0;
        for folder in self.processors()? {
            let path = folder.join("stats");
            let text = fs::read_to_string(&path).map_err(Error::tracefs("read", &path))?;
            lost += lost_of(&text);
        }
        Ok(lost)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.pipes.clear();
        if let Err(error) = fs::remove_dir(&self.folder) {
            // The error cannot be returned from drop.
            tracing::warn!("cannot remove {}: {error}", self.folder.display());
        }
    }
}

/// Returns the sum of the lines of a processor's `stats` that count losses.
fn lost_of(stats: &str) -> u64 {
    let counts = stats.lines().filter_map(|line| {
        let (what, count) = line.split_once(':')?;
        let is_loss = matches!(what, "overrun" | "commit overrun" | "dropped events");
        is_loss.then(|| count.trim().parse::<u64>().ok())?
    });
    counts.sum()
}

/// Removes the instances of processes that were killed.
fn remove_abandoned(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let owner = name.and_then(|name| name.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another process may be removing the instance at the same time.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_all_kinds_are_summed() {
        let stats = "entries: 5\noverrun: 3\ncommit overrun: 20\nbytes: 9\n\
                     oldest event ts:  6.1\ndropped events: 100\nread events: 7\n";
        assert_eq!(lost_of(stats), 123);
    }

    #[test]
    fn instance_is_removed_when_it_is_dropped() {
        let tracefs = match Tracefs::mount() {
            Ok(tracefs) => tracefs,
            Err(reason) => return larder_testkit::report_skipped(reason),
        };
        let instance = Instance::new(&tracefs, 1 << 12).unwrap();
        let folder = instance.folder.clone();
        assert!(folder.exists());
        drop(instance);
        assert!(!folder.exists());
    }
}
