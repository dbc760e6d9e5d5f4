//! The limits of a block device that affect readahead. They are restored when the [`Queue`] is
//! dropped.

use crate::error::{Context, Error, Result};
use std::path::{Path, PathBuf};

/// Sets `read_ahead_kb` and `max_sectors_kb` of a block device.
#[derive(Debug)]
pub(super) struct Queue {
    folder: PathBuf,
    before: Limits,
}

/// The two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    max_kib: u32,
    io_kib: u32,
}

impl Queue {
    /// Reads the limits of `device`, such as `/dev/loop0`.
    pub(super) fn of(device: &Path) -> Result<Self> {
        let name = device.file_name().unwrap_or_default();
        let folder = Path::new("/sys/block").join(name).join("queue");
        let before = get(&folder)?;
        Ok(Self { folder, before })
    }

    /// Sets the maximum window and the maximum request.
    pub(super) fn set(&self, max_kib: u32, io_kib: u32) -> Result<()> {
        set(&self.folder, Limits { max_kib, io_kib })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Err(error) = set(&self.folder, self.before) {
            eprintln!("{error}");
        }
    }
}

fn set(folder: &Path, limits: Limits) -> Result<()> {
    // In this order: setting the maximum request resets the maximum window.
    for (name, kib) in [
        ("max_sectors_kb", limits.io_kib),
        ("read_ahead_kb", limits.max_kib),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, kib.to_string()).context("write", &path)?;
    }
    let got = get(folder)?;
    if got == limits {
        Ok(())
    } else {
        Err(Error::Inconsistent(format!(
            "{}: {limits:?} was set, but the kernel reports {got:?}",
            folder.display()
        )))
    }
}

fn get(folder: &Path) -> Result<Limits> {
    let number = |name: &str| {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).context("read", &path)?;
        let number = text.trim().parse();
        number.map_err(|_| {
            Error::Inconsistent(format!("{} is not a number: {text:?}", path.display()))
        })
    };
    Ok(Limits {
        max_kib: number("read_ahead_kb")?,
        io_kib: number("max_sectors_kb")?,
    })
}
