//! The device that all peers read: the image through a loop device.
//!
//! The loop device uses direct I/O, so that the pages of the image are cached only by the measured side,
//! and not again below it. The block layer counts the reads of every peer in the same way. A new device
//! is attached for each measurement, so that nothing is cached when the measurement starts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use larder_testkit::tool::Tool;
use serde::{Deserialize, Serialize};

const SECTOR_BYTES: u64 = 512;

/// The reads of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Reads that reached the device, after adjacent reads were merged.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl Reads {
    /// Returns the reads since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            bytes: self.bytes - before.bytes,
        }
    }

    /// Returns the mean size of a read, or 0 without reads.
    #[must_use]
    pub fn mean_bytes(self) -> u64 {
        self.bytes.checked_div(self.reads).unwrap_or(0)
    }
}

/// A read-only loop device. Dropping this detaches it.
#[derive(Debug)]
pub struct Device {
    path: PathBuf,
    sysfs: PathBuf,
}

impl Device {
    /// Attaches `image`, with the kernel's readahead limited to `read_ahead_bytes`.
    pub fn attach(image: &Path, read_ahead_bytes: u64) -> Result<Self> {
        let output = Tool::new("losetup")
            .args(["--find", "--show", "--read-only", "--direct-io=on"])
            .arg(image)
            .run()?;
        let path = PathBuf::from(output.trim());
        let name = path.file_name().context("losetup printed no device")?;
        let sysfs = Path::new("/sys/block").join(name);
        let device = Self { path, sysfs };
        let file = device.sysfs.join("queue/read_ahead_kb");
        fs::write(&file, (read_ahead_bytes >> 10).to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(device)
    }

    /// Returns the path, for example `/dev/loop0`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the device number, for example `7:0`.
    pub fn number(&self) -> Result<String> {
        let number = fs::read_to_string(self.sysfs.join("dev"))?;
        Ok(number.trim().to_owned())
    }

    /// Returns the reads so far, including those of earlier users of the same device.
    pub fn reads(&self) -> Result<Reads> {
        let text = fs::read_to_string(self.sysfs.join("stat"))?;
        let field = |at: usize| -> Result<u64> {
            let field = text
                .split_whitespace()
                .nth(at)
                .context("the stat file of the loop device has too few fields")?;
            Ok(field.parse()?)
        };
        Ok(Reads {
            reads: field(0)?,
            bytes: field(2)? * SECTOR_BYTES,
        })
    }
}

impl Drop for Device {
    /// Detaches the device. While it is mounted, the kernel delays this until the mount ends.
    fn drop(&mut self) {
        if let Err(error) = Tool::new("losetup").arg("--detach").arg(&self.path).run() {
            eprintln!("error: {error}");
        }
    }
}
