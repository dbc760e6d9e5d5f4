//! The caches of a volume, on one budget.

use crate::budget::{BudgetConfig, Division};
use crate::buffer::BufferCache;
use crate::dentry::DentryCache;
use crate::frame::Frames;
use crate::inode::{InodeCache, RAW_INODE_WORDS};
use crate::mbcache::AttributeCaches;
use crate::page::PageCache;
use crate::table::Charge;
use larder_block::BlockDevice;
use std::sync::Arc;

/// The caches could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel gave no address space. Errno: `ENOMEM`.
    #[error("cannot map memory for caches of {budget_bytes} bytes: {source}")]
    Map {
        /// The budget asked for.
        budget_bytes: u64,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// All caches of one volume.
#[derive(Debug)]
pub struct Caches<const W: usize = RAW_INODE_WORDS> {
    /// File data.
    pub pages: PageCache,
    /// Metadata blocks.
    pub buffers: Arc<BufferCache>,
    /// Names.
    pub dentries: DentryCache,
    /// Inodes.
    pub inodes: InodeCache<W>,
    /// Attributes that several files have.
    pub attributes: Arc<AttributeCaches>,
}

impl<const W: usize> Caches<W> {
    /// Caches for `device` that together stay within the budget.
    ///
    /// # Errors
    /// [`Error::Map`] for want of address space.
    ///
    /// # Panics
    /// If the block size is not a power of two from 128 bytes to 64 KiB.
    pub fn new(config: &BudgetConfig, device: Arc<dyn BlockDevice>) -> Result<Self, Error> {
        let division = Division::new(config, InodeCache::<W>::SLOT_BYTES);
        Self::divided(&division, device, config).map_err(|source| Error::Map {
            budget_bytes: config.budget_bytes,
            source,
        })
    }

    fn divided(
        division: &Division,
        device: Arc<dyn BlockDevice>,
        config: &BudgetConfig,
    ) -> std::io::Result<Self> {
        let frames = Arc::new(Frames::new(&division.frames)?);
        let charge = || -> Charge {
            let frames = Arc::clone(&frames);
            Box::new(move || frames.retire())
        };
        Ok(Self {
            dentries: DentryCache::new(
                (division.short_names, charge()),
                (division.long_names, charge()),
                config.name_seed,
            )?,
            inodes: InodeCache::new(division.inodes, charge())?,
            buffers: Arc::new(BufferCache::new(
                Arc::clone(&frames),
                device,
                config.block_size_bytes,
            )),
            pages: PageCache::new(frames),
            attributes: Arc::new(AttributeCaches::default()),
        })
    }

    /// Checks the invariants. Only when nobody else uses it.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check_invariants(&self) {
        self.pages.frames().check_invariants();
        self.dentries.check_invariants();
        self.inodes.check_invariants();
    }
}
