//! Creates the image for all kernels: an ext2 file system with settings of the year 2000, which contains
//! the files that users share.
//!
//! # Model
//! The file system has groups of 8192 blocks with 2048 inodes of 128 bytes. Its blocks have 4 KiB, the size
//! of a frame of the buffer cache, so that each block is one object of the cache. The blocks in the
//! document had 1 KiB. Therefore a group has four times as many bytes here, but as many blocks and inodes
//! as in the document.
//!
//! # Cost
//! Unwritten pages use no memory. Volumes share the pages of the image until they write them.

use super::error::Error;
use super::kernels::{Kernel, TABLES};
use super::programs::Programs;
use super::size::Size;
use super::spool::Spool;
use super::tree::Tree;
use crate::operations::{Name, Operations, UserHomes, create_shared_files};
use larder::{OpenOptions, Volume};
use larder_block::BlockDevice;
use larder_instruments::OverlayDevice;
use larder_instruments::mke2fs;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Size of the image in bytes: 64 groups.
const IMAGE_BYTES: u64 = 2 << 30;

/// The mke2fs options for an ext2 file system with the defaults of that time.
const EXT2: &str = "-t ext2 -O none,filetype,sparse_super -b 4096 -g 8192 -I 128 -i 16384 -m 0";

/// The image, and the operations on it.
pub(super) struct Image {
    device: OverlayDevice,
    pub(super) operations: Operations,
    pub(super) spool: Spool,
    pub(super) programs: Programs,
    pub(super) tree: Tree,
    pub(super) seed: u64,
}

impl Image {
    /// Creates an image with the programs, and with a spool for each of `users` users.
    pub(super) fn new(operations: Operations, users: u32, size: &Size) -> Result<Self, Error> {
        let device = Arc::new(formatted()?);
        let volume = Volume::open_device(Arc::clone(&device) as _, &options())?;
        create_shared_files(&volume, &operations, size.seed)?;
        let spool = Spool::make(&volume, users)?;
        let most = TABLES.iter().map(|table| size.programs(table.machine));
        let programs = Programs::make(&volume, most.max().unwrap_or(0))?;
        let tree = Tree::make(&volume)?;
        volume.close()?;
        drop(volume);
        Ok(Self {
            device: OverlayDevice::clone(&device),
            operations,
            spool,
            programs,
            tree,
            seed: size.seed,
        })
    }

    /// Opens a volume with the tables of `kernel`, on a copy-on-write view of the image.
    pub(super) fn open(&self, kernel: &Kernel, memory_bytes: u64) -> Result<Volume, Error> {
        let device = Arc::new(self.device.clone());
        Ok(Volume::open_device(
            device,
            &options_of(kernel, memory_bytes),
        )?)
    }

    /// Opens a volume as [`Image::open`] does, with a home for each of `users` users. The caches of the volume are
    /// empty. Also returns the names of the files in the homes.
    pub(super) fn with_homes(
        &self,
        kernel: &Kernel,
        memory_bytes: u64,
        users: u32,
    ) -> Result<(Volume, Vec<Name>), Error> {
        let (device, names) = self.homes(kernel, memory_bytes, users)?;
        let options = options_of(kernel, memory_bytes);
        Ok((Volume::open_device(device, &options)?, names))
    }

    /// Creates the homes of `users` on a copy-on-write view of the image. Returns the view, and the names of
    /// the files in the homes.
    pub(super) fn homes(
        &self,
        kernel: &Kernel,
        memory_bytes: u64,
        users: u32,
    ) -> Result<(Arc<OverlayDevice>, Vec<Name>), Error> {
        let options = options_of(kernel, memory_bytes);
        let device = Arc::new(self.device.clone());
        let volume = Volume::open_device(Arc::clone(&device) as _, &options)?;
        let names = UserHomes::new(&volume, &self.operations, users, self.seed)?.files();
        volume.close()?;
        Ok((device, names))
    }
}

/// Creates the file system in a file, and copies the file without its holes to a device in memory.
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
            // Only holes remain.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        end = seek(file, SeekFrom::Hole(start))?;
        let mut bytes = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, start)?;
        device.write_at(&bytes, start).map_err(io::Error::other)?;
    }
}

/// Returns the options for opening a volume for writing, without a thread in the background.
fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options
}

/// Returns [`options`] with the tables of `kernel` and this amount of memory.
pub(super) fn options_of(kernel: &Kernel, memory_bytes: u64) -> OpenOptions {
    let mut options = options();
    options.cache_size_bytes = memory_bytes;
    options.tables = kernel.tables();
    options
}
