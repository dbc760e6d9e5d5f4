//! A volume in this process as a target.

use super::{FILES, FileNo, Target};
use crate::crash::open;
use larder::{Advice, Fallocate, Ino, NewFile, Volume};
use larder_instruments::OverlayDevice;
use rustix::io::{Errno, Result};
use std::sync::Arc;

/// A volume in this process, on a device in memory.
#[derive(Debug)]
pub struct InProcess {
    device: Arc<OverlayDevice>,
    volume: Volume,
    inos: [Ino; FILES.len()],
}

impl InProcess {
    /// Opens the file system on `device`.
    ///
    /// # Errors
    /// Returns the reason why it cannot be opened.
    pub fn new(device: &Arc<OverlayDevice>) -> std::result::Result<Self, String> {
        let volume = open(Arc::clone(device) as _)
            .map_err(|error| format!("cannot open the volume: {error}"))?;
        let mut inos = [Ino(0); FILES.len()];
        for file in FILES {
            match volume.lookup(Ino::ROOT, file.name().as_bytes()) {
                Ok(ino) => inos[file.index()] = ino,
                Err(error) if error.errno() == Errno::NOENT => {}
                Err(error) => return Err(format!("cannot open {file:?}: {error}")),
            }
        }
        Ok(Self {
            device: Arc::clone(device),
            volume,
            inos,
        })
    }

    /// Closes the volume, so that the image is clean.
    ///
    /// # Errors
    /// Returns the reason why it cannot be closed.
    pub fn close(&self) -> std::result::Result<(), String> {
        self.volume
            .close()
            .map_err(|error| format!("cannot close the volume: {error}"))
    }

    fn ino(&self, file: FileNo) -> Ino {
        self.inos[file.index()]
    }
}

#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
fn errno(error: larder::Error) -> Errno {
    error.errno()
}

impl Target for InProcess {
    fn create(&mut self, file: FileNo) -> Result<()> {
        let new = NewFile {
            permissions: 0o644,
            umask: 0,
            uid: 0,
            gid: 0,
        };
        let name = file.name().as_bytes();
        let made = self.volume.create(Ino::ROOT, name, &new).map_err(errno)?;
        self.inos[file.index()] = made.ino;
        Ok(())
    }

    fn remove(&mut self, file: FileNo) -> Result<()> {
        let name = file.name().as_bytes();
        self.volume.unlink(Ino::ROOT, name).map_err(errno)?;
        Ok(())
    }

    fn write(&self, file: FileNo, buf: &[u8], offset_bytes: u64, _: bool) -> Result<usize> {
        self.volume
            .write_at(self.ino(file), buf, offset_bytes)
            .map_err(errno)
    }

    fn truncate(&self, file: FileNo, size_bytes: u64) -> Result<()> {
        self.volume
            .truncate(self.ino(file), size_bytes)
            .map_err(errno)
    }

    fn range(&self, file: FileNo, mode: Fallocate, offset_bytes: u64, len: u64) -> Result<()> {
        self.volume
            .fallocate(self.ino(file), mode, offset_bytes, len)
            .map_err(errno)
    }

    fn copy(&self, from: (FileNo, u64), to: (FileNo, u64), len_bytes: u64) -> Result<u64> {
        self.volume
            .copy_range(self.ino(from.0), from.1, self.ino(to.0), to.1, len_bytes)
            .map_err(errno)
    }

    fn sync(&self, file: FileNo) -> Result<()> {
        self.volume.sync_file(self.ino(file), false).map_err(errno)
    }

    fn sync_all(&self) -> Result<()> {
        self.volume.sync().map_err(errno)
    }

    fn content(&self, file: FileNo) -> Result<Vec<u8>> {
        let ino = self.ino(file);
        let size_bytes = self.volume.metadata(ino).map_err(errno)?.size_bytes;
        let mut bytes = vec![0; usize::try_from(size_bytes).map_err(|_| Errno::FBIG)?];
        let read = self.volume.read_at(ino, &mut bytes, 0).map_err(errno)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn available_bytes(&self) -> Result<u64> {
        let space = self.volume.statfs();
        Ok(space.available_blocks * u64::from(space.block_size_bytes))
    }

    fn evict(&self, file: FileNo) -> Result<()> {
        self.volume
            .advise(self.ino(file), 0..u64::MAX, Advice::DontNeed)
            .map_err(errno)
    }

    fn remount(&mut self) -> std::result::Result<(), String> {
        self.close()?;
        *self = Self::new(&self.device)?;
        Ok(())
    }

    fn after_power_cut(&self) -> Option<std::result::Result<Self, String>> {
        Some(Self::new(&Arc::new(OverlayDevice::clone(&self.device))))
    }
}
