//! The caches of a volume, which share one memory budget.

use crate::budget::{BudgetConfig, Division, SharedConfig};
use crate::buffer::BufferCache;
use crate::dentry::DentryCache;
use crate::inode::{InodeCache, RAW_INODE_WORDS};
use crate::mbcache::{self, AttributeCaches, Config};
use crate::page::{Frames, PageCache};
use crate::research::page_trees::PageTrees;
use crate::shrink::{Shrinker, Shrinkers};
use crate::table::{Charge, Growth};
use crate::tables::{Pages, Shrinking};
use crate::tape::Tape;
use larder_block::BlockDevice;
use std::sync::Arc;

/// An error in the creation of the caches.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel could not map the address space. Errno: `ENOMEM`.
    #[error("cannot map memory for caches of {budget_bytes} bytes: {source}")]
    Map {
        /// The requested budget.
        budget_bytes: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// The requested tables are too large for the budget. Errno: `EINVAL`.
    #[error(
        "the hash tables need {bytes} bytes, more than half of the caches' {budget_bytes} bytes: \
         choose fewer buckets or a larger cache size"
    )]
    Tables {
        /// The size of the buckets of all tables in bytes.
        bytes: u64,
        /// The requested budget.
        budget_bytes: u64,
    },
}

/// The caches of one volume.
#[derive(Debug)]
pub struct Caches<const W: usize = RAW_INODE_WORDS> {
    /// The cache of file data.
    pub pages: PageCache,
    /// The cache of metadata blocks.
    pub buffers: Arc<BufferCache>,
    /// The cache of names.
    pub dentries: DentryCache,
    /// The cache of raw inodes.
    pub inodes: InodeCache<W>,
    /// The caches that find attributes to share.
    pub attributes: Arc<AttributeCaches>,
}

impl<const W: usize> Caches<W> {
    /// Creates the caches of the volume on `device`. Together they stay within the budget.
    ///
    /// # Errors
    /// Returns [`Error::Map`] if there is not enough address space. Returns [`Error::Tables`] if the
    /// configuration has table sizes other than the default, and the buckets of all tables take more than
    /// half of the budget.
    ///
    /// # Panics
    /// If the block size is not a power of two from 128 bytes to 64 KiB.
    pub fn new(config: &BudgetConfig, device: Arc<dyn BlockDevice>) -> Result<Self, Error> {
        let division = Division::new(config, InodeCache::<W>::SLOT_BYTES);
        let bytes = division.heads_bytes();
        if config.tables.has_chosen_sizes() && bytes > config.budget_bytes / 2 {
            let budget_bytes = config.budget_bytes;
            return Err(Error::Tables {
                bytes,
                budget_bytes,
            });
        }
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
        let frames = Arc::new(match config.tables.page {
            Pages::Hashed(_) => Frames::new(&division.frames)?,
            Pages::RedBlackTrees => Frames::with_page_index(&division.frames, |arena| {
                let trees = PageTrees::new(arena, division.frames.page_bits)?;
                Ok(Box::new(trees))
            })?,
        });
        let charge = || -> Arc<dyn Charge> { frames.clone() };
        let shared = |variant, shared: Option<SharedConfig>| {
            let Some(SharedConfig {
                limit_entries,
                arena,
            }) = shared
            else {
                return Ok(AttributeCaches::default().blocks);
            };
            let config = Config {
                limit_entries,
                bits: arena.bits,
            };
            let growth = Growth::Charged {
                chunk: arena.chunk,
                charge: charge(),
            };
            mbcache::build(variant, config, growth, ()).map(Arc::from)
        };
        let attributes = AttributeCaches {
            blocks: shared(config.shared_blocks, division.shared_blocks)?,
            inodes: shared(config.shared_inodes, division.shared_inodes)?,
        };
        let dentries = DentryCache::new(
            (division.short_names, charge()),
            (division.long_names, charge()),
            config.tables.dentry.function,
            config.name_seed,
        )?;
        let inodes = InodeCache::new(
            division.inodes,
            charge(),
            config.tables.inode.function,
            config.tables.inode_lookups,
        )?;
        let (eager, last) = match config.tables.shrinking {
            Shrinking::Normal => (None, Some(dentries.shrinkers())),
            Shrinking::Eager => (Some(dentries.shrinkers()), None),
        };
        frames.set_others(Shrinkers {
            eager: eager.into_iter().flatten().collect(),
            before_pool: [&attributes.blocks, &attributes.inodes]
                .map(|cache| {
                    let shrinker: Arc<dyn Shrinker> = cache.clone();
                    Arc::downgrade(&shrinker)
                })
                .into(),
            last: last
                .into_iter()
                .flatten()
                .chain([inodes.shrinker()])
                .collect(),
        });
        Ok(Self {
            dentries,
            inodes,
            buffers: Arc::new(BufferCache::new(
                Arc::clone(&frames),
                device,
                config.block_size_bytes,
            )),
            pages: PageCache::new(frames),
            attributes: Arc::new(attributes),
        })
    }

    /// Connects `tape`. From then on, all caches except those of attributes report their events to it. Only
    /// the first call has an effect.
    pub fn set_tape(&self, tape: &Arc<dyn Tape>) {
        self.pages.frames().set_tape(tape);
        self.dentries.set_tape(tape);
        self.inodes.set_tape(Arc::clone(tape));
    }

    /// Checks the invariants. No other thread may use the caches meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self) {
        self.pages.frames().check_invariants();
        self.dentries.check_invariants();
        self.inodes.check_invariants();
        self.attributes.blocks.check_invariants();
        self.attributes.inodes.check_invariants();
    }
}
