//! A control group: how much memory its processes may fill, and how fast its device is to them.
//!
//! Model: version 1 (a folder in the `memory` and one in the `blkio` hierarchy) or version 2 (one
//! folder), whichever has the controllers. What a process of the group brings into the page cache
//! counts as the group's memory, so that the limit limits the page cache too. The throttle counts
//! what reaches the device: a large read is one read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use larder_testkit::requirement::is_root;
use serde::Serialize;

use crate::readahead::device::Device;

/// How long a group may take to become empty.
const PATIENCE: Duration = Duration::from_secs(10);

/// Moves itself into the groups whose count and folders come first, and becomes the rest.
const JOIN: &str = r#"n=$1; shift
while [ "$n" -gt 0 ]; do echo $$ > "$1/cgroup.procs" || exit 125; shift; n=$((n - 1)); done
exec "$@""#;

/// What a device is made to be: no faster than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Throttle {
    /// The most it transfers in a second.
    pub bytes_per_second: u64,
    /// The most reads that it does in a second, of whatever size.
    pub reads_per_second: u64,
}

/// What the processes of a group get.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Memory, the page cache included.
    pub memory_bytes: Option<u64>,
    /// How fast the device is.
    pub throttle: Option<Throttle>,
}

/// A control group, until this is dropped.
#[derive(Debug)]
pub struct Cgroup {
    folders: Vec<PathBuf>,
}

/// Where the controllers are.
enum Hierarchy {
    V1 { memory: PathBuf, blkio: PathBuf },
    V2 { root: PathBuf },
}

impl Cgroup {
    /// Why no group can be made here, if so.
    #[must_use]
    pub fn missing() -> Option<String> {
        if !is_root() {
            return Some("control groups need root".to_owned());
        }
        hierarchy().err().map(|error| error.to_string())
    }

    /// A group called `name` with `limits`, which for the throttle are about `device`.
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

    /// A command that runs `program` in this group.
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
        fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
        self.folders.push(folder.clone());
        Ok(folder)
    }
}

impl Drop for Cgroup {
    /// Its processes have ended, but the kernel may still be busy with the last of them.
    fn drop(&mut self) {
        let give_up = Instant::now() + PATIENCE;
        for folder in &self.folders {
            while let Err(error) = fs::remove_dir(folder) {
                if Instant::now() > give_up {
                    eprintln!("error: {} stays behind: {error}", folder.display());
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn set(file: &Path, value: &(impl ToString + ?Sized)) -> Result<()> {
    let value = value.to_string();
    fs::write(file, &value).with_context(|| format!("write {value} to {}", file.display()))
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
        _ => bail!("no control groups for memory and block devices are mounted"),
    }
}
