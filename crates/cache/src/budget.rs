//! The division of the memory budget. [`shrink`](crate::shrink) describes what happens when it is used up.
//!
//! # What the budget covers
//! Frames, their slots, and all bucket heads are charged from the start, resident or not. The slots of
//! dentries, inodes and shared attributes are mapped up to a cap, but charged when they are touched: whenever
//! an arena needs more than it was granted, by as many slots as a frame holds, the pool gives up a frame. At
//! its cap an arena reuses its own slots. Inodes in use are charged likewise, by their holder. When memory is
//! short and at least as many slots are free as a frame holds, an arena gives back its last slots, and the
//! pool regains that frame.
//!
//! Counters and wait queues are outside the budget: about 100 KiB, whatever the budget is.
//!
//! # Tunables
//! See [`BudgetConfig`].

use crate::mbcache::{Config, Sizes, Variant};
use crate::page::FramesConfig;
use crate::research::page_trees::NODE_BYTES;
use crate::table::ArenaConfig;
use crate::tables::{Memory, Pages, TableChoice, TableSize, Tables};
use crate::tape::CacheKind;
use std::hash::{BuildHasher, RandomState};

/// The parameters of the division of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetConfig {
    /// The budget in bytes. Below about 64 KiB the smallest usable amount is used: one frame, and a page for
    /// each arena.
    pub budget_bytes: u64,
    /// Size of a file-system block in bytes: a power of two up to 64 KiB.
    pub block_size_bytes: usize,
    /// Divisor of the budget: at most this fraction is for dentries. Default: 8.
    pub dentry_part: u64,
    /// Divisor of the budget: at most this fraction is for inodes. Default: 8.
    pub inode_part: u64,
    /// The seed of the hashes of names. Default: random, so that an image cannot be made whose names share a
    /// bucket.
    pub name_seed: [u64; 2],
    /// The cache that finds attribute blocks to share. Default: none.
    pub shared_blocks: Variant,
    /// The cache that finds inodes of attribute values to share. Default: none.
    pub shared_inodes: Variant,
    /// The tables of the caches. Default: Larder's own.
    pub tables: Tables,
}

impl BudgetConfig {
    /// Returns the defaults for a budget and a block size, with a random seed.
    #[must_use]
    pub fn new(budget_bytes: u64, block_size_bytes: usize) -> Self {
        // The only source of randomness in the standard library.
        let random = RandomState::new();
        Self {
            budget_bytes,
            block_size_bytes,
            dentry_part: 8,
            inode_part: 8,
            name_seed: [random.hash_one(0), random.hash_one(1)],
            shared_blocks: Variant::Off,
            shared_inodes: Variant::Off,
            tables: Tables::LARDER,
        }
    }
}

impl ArenaConfig {
    /// Returns the sizes of an arena and its buckets, with slots of `slot_bytes`, that take at most `bytes`.
    fn new(bytes: u64, slot_bytes: usize, frame_bytes: usize) -> Self {
        let chunk = to_number((frame_bytes / slot_bytes).max(1) as u64);
        let slots = to_number(bytes / (slot_bytes + HEAD_BYTES) as u64).max(chunk);
        Self {
            slots,
            chunk,
            bits: slots.ilog2(),
            bucket_bytes: HEAD_BYTES,
        }
    }

    /// Applies the number of buckets that `size` selects, and this table's part of them.
    /// [`TableSize::Larder`] keeps the arena's own number.
    fn sized(self, size: TableSize, cache: CacheKind, budget_bytes: u64, part: u32) -> Self {
        let memory = Memory {
            bytes: budget_bytes,
            own_bits: self.bits + part,
        };
        let bits = size.bits(cache, memory).saturating_sub(part);
        Self { bits, ..self }
    }

    /// Returns the bytes that are charged from the start: the first chunk and the buckets.
    fn prepaid_bytes(&self, frame_bytes: usize) -> u64 {
        (frame_bytes + (self.bucket_bytes << self.bits)) as u64
    }
}

/// The sizes of a cache of shared attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedConfig {
    /// The largest number of entries.
    pub limit_entries: u32,
    /// The arena of the entries.
    pub arena: ArenaConfig,
}

impl SharedConfig {
    /// Returns the sizes for `variant` in at most 1/64 of `budget_bytes`, or the smallest possible ones;
    /// `None` if the variant needs no memory.
    fn new(variant: Variant, budget_bytes: u64, frame_bytes: usize) -> Option<Self> {
        let sizes = Sizes::of(variant)?;
        let config = Config::new(variant, sizes.limit_within(budget_bytes / 64));
        Some(Self {
            limit_entries: config.limit_entries,
            arena: ArenaConfig {
                slots: sizes.slots(config.limit_entries),
                chunk: to_number((frame_bytes / sizes.entry_bytes).max(1) as u64),
                bits: config.bits,
                bucket_bytes: sizes.bucket_bytes,
            },
        })
    }
}

/// A divided budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Pages and buffers.
    pub frames: FramesConfig,
    /// Dentries with short names.
    pub short_names: ArenaConfig,
    /// Dentries with long names.
    pub long_names: ArenaConfig,
    /// Inodes.
    pub inodes: ArenaConfig,
    /// Attribute blocks to share, if there is a cache for them.
    pub shared_blocks: Option<SharedConfig>,
    /// Inodes of attribute values to share, if there is a cache for them.
    pub shared_inodes: Option<SharedConfig>,
}

/// Divisor of the frames: at most this fraction is given up for objects that cannot be evicted because they
/// are in use, such as inodes that the kernel or a program holds.
pub const IN_USE_PART: u32 = 4;

/// The size of a bucket head in bytes.
const HEAD_BYTES: usize = 4;
/// The size of a frame's slot in bytes.
const FRAME_SLOT_BYTES: u64 = 32;
/// Bucket bytes for each frame with Larder's own sizes: of pages (4/3 buckets), rounded up.
const PAGE_HEADS_BYTES: u64 = 6;
/// The same for buffers (1/4 bucket).
const BUFFER_HEADS_BYTES: u64 = 1;
/// Long names get one part in 2^`LONG_PART` of the memory and buckets of names.
const LONG_PART: u32 = 3;

impl Division {
    /// Divides the budget according to `config`, for inodes in slots of `inode_slot_bytes`.
    ///
    /// # Panics
    /// If the block size is not a power of two up to 64 KiB.
    #[must_use]
    pub fn new(config: &BudgetConfig, inode_slot_bytes: usize) -> Self {
        let block = config.block_size_bytes;
        assert!(
            block.is_power_of_two() && block <= 1 << 16,
            "invalid block size of {block} bytes"
        );
        // A frame is a page of the machine, since memory is given up in such pages, but at most as many
        // blocks as a slot has bits for.
        let page_bytes = rustix::param::page_size().min(block * 32);
        let frame_bytes = block.max(4096).max(page_bytes);
        let names = config.budget_bytes / config.dentry_part.max(1);
        let inodes = config.budget_bytes / config.inode_part.max(1);
        // Long names are rare.
        let long = names >> LONG_PART;
        let sized = |arena: ArenaConfig, cache, choice: TableChoice, part| {
            arena.sized(choice.size, cache, config.budget_bytes, part)
        };
        let short_names = ArenaConfig::new(names - long, crate::dentry::SHORT_BYTES, frame_bytes);
        let short_names = sized(short_names, CacheKind::Dentry, config.tables.dentry, 0);
        let long_names = ArenaConfig::new(long, crate::dentry::LONG_BYTES, frame_bytes);
        let long_names = sized(
            long_names,
            CacheKind::Dentry,
            config.tables.dentry,
            LONG_PART,
        );
        let inodes = ArenaConfig::new(inodes, inode_slot_bytes, frame_bytes);
        let inodes = sized(inodes, CacheKind::Inode, config.tables.inode, 0);
        let shared = |variant| SharedConfig::new(variant, config.budget_bytes, frame_bytes);
        let shared_blocks = shared(config.shared_blocks);
        let shared_inodes = shared(config.shared_inodes);
        let arenas = [short_names, long_names, inodes];
        let shared = shared_blocks.iter().chain(&shared_inodes);
        let arenas = arenas.iter().chain(shared.map(|shared| &shared.arena));
        let prepaid: u64 = arenas.clone().map(|a| a.prepaid_bytes(frame_bytes)).sum();
        let chunks: u32 = arenas.map(|a| a.slots.div_ceil(a.chunk) - 1).sum();
        let left = config.budget_bytes.saturating_sub(prepaid);
        Self {
            frames: frames_of(left, frame_bytes, chunks, config),
            short_names,
            long_names,
            inodes,
            shared_blocks,
            shared_inodes,
        }
    }

    /// Returns the bytes that the buckets of the four caches take.
    #[must_use]
    pub fn heads_bytes(&self) -> u64 {
        let arenas = [self.short_names, self.long_names, self.inodes].map(|arena| arena.bits);
        let frames = [self.frames.page_bits, self.frames.buffer_bits];
        let tables = arenas.into_iter().chain(frames);
        tables.map(|bits| (HEAD_BYTES as u64) << bits).sum()
    }
}

/// Returns as many frames as fit into `left_bytes`, and their tables. `chunks` of the frames may be given up.
fn frames_of(
    left_bytes: u64,
    frame_bytes: usize,
    chunks: u32,
    config: &BudgetConfig,
) -> FramesConfig {
    let Tables { page, buffer, .. } = config.tables;
    let (page_size, page_function, node_bytes) = match page {
        Pages::Hashed(TableChoice { function, size }) => (size, function, 0),
        Pages::RedBlackTrees => (TableSize::Larder, None, NODE_BYTES),
    };
    let bits = |size: TableSize, cache, own_bits| {
        let bytes = config.budget_bytes;
        size.bits(cache, Memory { bytes, own_bits })
    };
    // Memory for the buckets of a size: for each frame, and in total.
    let heads = |size, cache, own_bytes: u64| match size {
        TableSize::Larder => (own_bytes, 0),
        size => (0, (HEAD_BYTES as u64) << bits(size, cache, 0)),
    };
    let page_heads = heads(page_size, CacheKind::Page, PAGE_HEADS_BYTES);
    let buffer_heads = heads(buffer.size, CacheKind::Buffer, BUFFER_HEADS_BYTES);
    let each = frame_bytes as u64 + FRAME_SLOT_BYTES + node_bytes + page_heads.0 + buffer_heads.0;
    let left_bytes = left_bytes.saturating_sub(page_heads.1 + buffer_heads.1);
    let frames = to_number(left_bytes / each).max(1);
    let own_page_bits = (u64::from(frames) * 4 / 3).ilog2();
    let own_buffer_bits = (frames / 4).max(1).ilog2();
    FramesConfig {
        frame_bytes,
        frames,
        page_bits: bits(page_size, CacheKind::Page, own_page_bits),
        buffer_bits: bits(buffer.size, CacheKind::Buffer, own_buffer_bits),
        page_function,
        buffer_function: buffer.function,
        retirable: chunks.saturating_add(frames / IN_USE_PART).min(frames / 2),
    }
}

/// Converts `count` to the type of slot numbers. It is limited to the number of slots that can be
/// numbered.
fn to_number(count: u64) -> u32 {
    u32::try_from(count)
        .unwrap_or(u32::MAX)
        .min(crate::table::NUMBERS / 2)
}
