//! The image that all kernels run on: one of the time, with what users share.
//!
//! # Model
//! An ext2 with inodes of 128 bytes, 2048 of them in a group of 8192 blocks. Blocks are as large as the
//! frames of the buffer cache, so that each is an object, found by its own number. The document's had
//! 1 KiB: groups are four times as large here, and lie as far apart in numbers of blocks and of inodes.
//!
//! # Cost
//! Pages that nobody has written take no memory. Volumes share those of the image until they write.

use super::kernels::Kernel;
use super::spool::Spool;
use super::{Error, Size};
use crate::mke2fs;
use crate::operations::{Name, Operations, Players, share};
use larder::{OpenOptions, Volume};
use larder_block::BlockDevice;
use larder_instruments::OverlayDevice;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// 64 groups.
const IMAGE_BYTES: u64 = 2 << 30;

/// An ext2 as mke2fs made it then.
const EXT2: &str = "-t ext2 -O none,filetype,sparse_super -b 4096 -g 8192 -I 128 -i 16384 -m 0";

/// The image, and what is done on it.
pub(super) struct Image {
    device: OverlayDevice,
    pub(super) operations: Operations,
    pub(super) spool: Spool,
    pub(super) seed: u64,
}

impl Image {
    /// With a spool for each of `users`.
    pub(super) fn new(operations: Operations, users: u32, size: &Size) -> Result<Self, Error> {
        let device = Arc::new(formatted()?);
        let volume = Volume::open_device(Arc::clone(&device) as _, &options())?;
        share(&volume, &operations, size.seed)?;
        let spool = Spool::make(&volume, users)?;
        volume.close()?;
        drop(volume);
        Ok(Self {
            device: OverlayDevice::clone(&device),
            operations,
            spool,
            seed: size.seed,
        })
    }

    /// A volume with the tables of `kernel`, on what looks like a copy.
    pub(super) fn open(&self, kernel: &Kernel, memory_bytes: u64) -> Result<Volume, Error> {
        let device = Arc::new(self.device.clone());
        Ok(Volume::open_device(
            device,
            &options_of(kernel, memory_bytes),
        )?)
    }

    /// A volume as [`Image::open`] opens it, on which `users` have their homes, and nothing is cached;
    /// and names of files in the homes.
    pub(super) fn with_homes(
        &self,
        kernel: &Kernel,
        memory_bytes: u64,
        users: u32,
    ) -> Result<(Volume, Vec<Name>), Error> {
        let options = options_of(kernel, memory_bytes);
        let device = Arc::new(self.device.clone());
        let volume = Volume::open_device(Arc::clone(&device) as _, &options)?;
        let names = Players::new(&volume, &self.operations, users, self.seed)?.files();
        volume.close()?;
        drop(volume);
        Ok((Volume::open_device(device, &options)?, names))
    }
}

/// What mke2fs makes, without the holes that it leaves.
fn formatted() -> Result<OverlayDevice, Error> {
    let file = mke2fs::formatted(IMAGE_BYTES, EXT2)?;
    let device = OverlayDevice::zeros(IMAGE_BYTES);
    copy_data(&file, &device).map_err(Error::Image)?;
    Ok(device)
}

fn copy_data(file: &File, device: &OverlayDevice) -> io::Result<()> {
    let mut end = 0;
    loop {
        let start = match seek(file, SeekFrom::Data(end)) {
            Ok(start) => start,
            // Holes alone are left.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        end = seek(file, SeekFrom::Hole(start))?;
        let mut bytes = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, start)?;
        device.write_at(&bytes, start).map_err(io::Error::other)?;
    }
}

/// As of a system of the time: no attributes are shared, and nothing is done but what users ask for.
fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options
}

/// [`options`] with the tables of `kernel` and so much memory.
fn options_of(kernel: &Kernel, memory_bytes: u64) -> OpenOptions {
    let mut options = options();
    options.cache_size_bytes = memory_bytes;
    options.tables = kernel.tables();
    options
}
