//! A control group that limits the memory of its processes, and the speed of their device.
//!
//! A group consists of one directory if the hierarchy of version 2 has the controllers. Otherwise it
//! consists of a directory in the `memory` hierarchy of version 1 and one in the `blkio` hierarchy. Pages
//! that a process of the group inserts into the page cache count as the group's memory, so the limit applies
//! to the page cache too. The throttle counts requests at the device: a large read is one read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use larder_testkit::requirement::is_root;
use serde::{Deserialize, Serialize};

use crate::readahead::device::Device;

/// The time limit for a group to become empty.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A shell script that joins groups, and then executes a command. Its arguments are the number of
/// groups, their directories, and the command.
const JOIN: &str = r#"n=$1; shift
while [ "$n" -gt 0 ]; do echo $$ > "$1/cgroup.procs" || exit 125; shift; n=$((n - 1)); done
exec "$@""#;

/// The maximum speed of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    /// The maximum number of bytes transferred per second.
    pub bytes_per_second: u64,
    /// The maximum number of reads per second, of any size.
    pub reads_per_second: u64,
}

/// The limits of the processes of a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The maximum memory, including the page cache.
    pub memory_bytes: Option<u64>,
    /// The maximum speed of the device.
    pub throttle: Option<Throttle>,
}

/// A control group. Dropping this removes it.
#[derive(Debug)]
pub struct Cgroup {
    folders: Vec<PathBuf>,
}

/// The hierarchies that have the controllers.
enum Hierarchy {
    V1 { memory: PathBuf, blkio: PathBuf },
    V2 { root: PathBuf },
}

impl Cgroup {
    /// Returns the reason why no group can be created here, if there is one.
    #[must_use]
    pub fn missing() -> Option<String> {
        if !is_root() {
            return Some("root is required to create control groups".to_owned());
        }
        hierarchy().err().map(|error| error.to_string())
    }

    /// Creates a group called `name` with `limits`. The throttle applies to `device`.
    pub fn new(name: &str, limits: Limits, device: &Device) -> Result<Self> {
        let mut group = Self {
            folders: Vec::new(),
        };
        match hierarchy()? {
            Hierarchy::V1 { memory, blkio } => {
                if let Some(bytes) = limits.memory_bytes {
                    let folder = group.add(memory.join(name))?;
                    set(&folder.join("memory.limit_in_bytes"), &bytes)?;
                }
                if let Some(throttle) = limits.throttle {
                    let folder = group.add(blkio.join(name))?;
                    let number = device.number()?;
                    let limit = |what: &str, value: u64| {
                        let file = folder.join(format!("blkio.throttle.read_{what}_device"));
                        set(&file, &format!("{number} {value}"))
                    };
                    limit("bps", throttle.bytes_per_second)?;
                    limit("iops", throttle.reads_per_second)?;
                }
            }
            Hierarchy::V2 { root } => {
                set(&root.join("cgroup.subtree_control"), "+memory +io")?;
                let folder = group.add(root.join(name))?;
                if let Some(bytes) = limits.memory_bytes {
                    set(&folder.join("memory.max"), &bytes)?;
                }
                if let Some(throttle) = limits.throttle {
                    let (number, bytes) = (device.number()?, throttle.bytes_per_second);
                    let reads = throttle.reads_per_second;
                    set(
                        &folder.join("io.max"),
                        &format!("{number} rbps={bytes} riops={reads}"),
                    )?;
                }
            }
        }
        Ok(group)
    }

    /// Returns a command that runs `program` in this group.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", JOIN, "sh"])
            .arg(self.folders.len().to_string())
            .args(&self.folders)
            .arg(program);
        command
    }

    fn add(&mut self, folder: PathBuf) -> Result<PathBuf> {
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        self.folders.push(folder.clone());
        Ok(folder)
    }
}

impl Drop for Cgroup {
    /// Removes the group. Its processes have exited, but the kernel may not have removed the last of
    /// them from the group yet. Therefore this retries for at most [`TIMEOUT`].
    fn drop(&mut self) {
        let give_up = Instant::now() + TIMEOUT;
        for folder in &self.folders {
            while let Err(error) = fs::remove_dir(folder) {
                if Instant::now() > give_up {
                    eprintln!("error: cannot remove {}: {error}", folder.display());
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn set(file: &Path, value: &(impl ToString + ?Sized)) -> Result<()> {
    let value = value.to_string();
    fs::write(file, &value).with_context(|| format!("cannot write {value} to {}", file.display()))
}

fn hierarchy() -> Result<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let of_type = |kind: &'static str| {
        mounts.lines().filter_map(move |line| {
            let mut fields = line.split(' ').skip(1);
            let (folder, found, options) = (fields.next()?, fields.next()?, fields.next()?);
            (found == kind).then_some((folder, options))
        })
    };
    for (folder, _) in of_type("cgroup2") {
        let controllers = fs::read_to_string(Path::new(folder).join("cgroup.controllers"))?;
        let has = |name| controllers.split_whitespace().any(|found| found == name);
        if has("memory") && has("io") {
            return Ok(Hierarchy::V2 {
                root: folder.into(),
            });
        }
    }
    let v1 = |controller: &str| {
        of_type("cgroup")
            .find(|(_, options)| options.split(',').any(|option| option == controller))
            .map(|(folder, _)| PathBuf::from(folder))
    };
    match (v1("memory"), v1("blkio")) {
        (Some(memory), Some(blkio)) => Ok(Hierarchy::V1 { memory, blkio }),
        _ => bail!("the control groups for memory and block I/O are not mounted"),
    }
}
