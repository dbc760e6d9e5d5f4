//! The division of the memory budget among the caches. [`shrink`](crate::shrink) describes how memory is
//! reclaimed when the budget is used up.
//!
//! # What the budget covers
//! Frames (the memory of pages and buffers), the slots of frames, all bucket heads, and the references to
//! inodes are charged to the budget from the start, even if they are not resident yet. The arenas of
//! dentries, inodes and shared attributes are charged in chunks: the first chunk from the start, and the
//! others as the arena grows. A chunk consists of the slots that fit into one frame. When an arena needs
//! another chunk, the pool of frames retires one frame and returns its memory to the kernel, so that the
//! arena can use the same amount. An arena that has reached its maximum number of slots evicts entries to
//! reuse their slots. If no frame is free, but an arena has enough free slots for a chunk, the arena gives
//! back its last chunk, and the pool can use a retired frame again.
//!
//! The in-memory state of inodes in use (inodes with holds) also counts: the pool retires frames for it.
//!
//! These are not part of the budget:
//! - counters and wait queues: about 100 KiB, whatever the budget is;
//! - dirty and held metadata blocks ([`buffer`](crate::buffer)).
//!
//! # Tunables
//! [`BudgetConfig`] describes the parameters.

use crate::inode::references_bytes;
use crate::mbcache::{Config, Sizes, Variant};
use crate::page::FramesConfig;
use crate::research::page_trees::NODE_BYTES;
use crate::table::ArenaConfig;
use crate::tables::{InodeLookups, Memory, Pages, TableChoice, TableSize, Tables};
use crate::tape::CacheKind;
use std::hash::{BuildHasher, RandomState};

/// The parameters of the division of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetConfig {
    /// The budget in bytes. The caches exceed a budget of less than about six frames, because they need at
    /// least one frame for pages and one for each arena. A frame has at least 4 KiB, and at least one block.
    pub budget_bytes: u64,
    /// The size of a file-system block in bytes: a power of two up to 64 KiB.
    pub block_size_bytes: usize,
    /// The dentry cache may use at most the budget divided by this number. Default: 8.
    pub dentry_divisor: u64,
    /// The inode cache may use at most the budget divided by this number. In addition, the references from inode
    /// numbers to slots take 2 to 4 bytes of the budget for each inode. Default: 8.
    pub inode_divisor: u64,
    /// The seed of the hashes of names. Default: random, so that the author of an image cannot choose names
    /// that share a bucket.
    pub name_seed: [u64; 2],
    /// The variant of the cache that finds attribute blocks to share. Default: `off`.
    pub shared_blocks: Variant,
    /// The variant of the cache that finds inodes with attribute values to share. Default: `off`.
    pub shared_inodes: Variant,
    /// The hash functions and sizes of the tables. Default: [`Tables::LARDER`].
    pub tables: Tables,
}

impl BudgetConfig {
    /// Returns the defaults for a budget and a block size, with a random seed.
    #[must_use]
    pub fn new(budget_bytes: u64, block_size_bytes: usize) -> Self {
        // `RandomState` is the only source of randomness in the standard library.
        let random = RandomState::new();
        Self {
            budget_bytes,
            block_size_bytes,
            dentry_divisor: 8,
            inode_divisor: 8,
            name_seed: [random.hash_one(0), random.hash_one(1)],
            shared_blocks: Variant::Off,
            shared_inodes: Variant::Off,
            tables: Tables::LARDER,
        }
    }
}

impl ArenaConfig {
    /// Returns the sizes of an arena with slots of `slot_bytes` and of its table. Together they take at
    /// most `bytes`, unless `bytes` is too small for one chunk.
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

    /// Replaces the number of buckets by the number that `size` selects, divided by 2^`part`.
    /// [`TableSize::Larder`] does not change the number of buckets.
    fn sized(self, size: TableSize, cache: CacheKind, budget_bytes: u64, part: u32) -> Self {
        let memory = Memory {
            bytes: budget_bytes,
            own_bits: self.bits + part,
        };
        let bits = size.bits(cache, memory).saturating_sub(part);
        Self { bits, ..self }
    }

    /// Returns the number of bytes that are charged from the start: the first chunk and the buckets.
    fn prepaid_bytes(&self, frame_bytes: usize) -> u64 {
        (frame_bytes + (self.bucket_bytes << self.bits)) as u64
    }
}

/// The sizes of a cache of shared attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedConfig {
    /// The limit of entries ([`Config::limit_entries`]).
    pub limit_entries: u32,
    /// The sizes of the arena of the entries, and of the buckets.
    pub arena: ArenaConfig,
}

impl SharedConfig {
    /// Returns the sizes of a cache of `variant` that takes at most 1/64 of `budget_bytes`, or the smallest
    /// possible sizes if even these take more. Returns `None` if the variant does not store entries.
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

/// The sizes of all caches, which result from the division of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// The sizes for pages and buffers.
    pub frames: FramesConfig,
    /// The sizes for dentries with short names.
    pub short_names: ArenaConfig,
    /// The sizes for dentries with long names.
    pub long_names: ArenaConfig,
    /// The sizes for inodes.
    pub inodes: ArenaConfig,
    /// The sizes of the cache that finds attribute blocks to share; `None` if it is `off`.
    pub shared_blocks: Option<SharedConfig>,
    /// The sizes of the cache that finds inodes with attribute values to share; `None` if it is `off`.
    pub shared_inodes: Option<SharedConfig>,
}

/// The pool retires at most 1/`IN_USE_DIVISOR` of its frames for objects in use, which cannot be evicted. An
/// example of such an object is an inode to which the kernel or an open file refers.
pub const IN_USE_DIVISOR: u32 = 4;

/// The size of a bucket head in bytes.
const HEAD_BYTES: usize = 4;
/// The size of a frame's slot in bytes.
const FRAME_SLOT_BYTES: u64 = 32;
/// The memory of the page cache's buckets for each frame, in bytes: 4/3 of a bucket, rounded up.
const PAGE_HEADS_BYTES: u64 = 6;
/// The memory of the buffer cache's buckets for each frame, in bytes: 1/4 of a bucket.
const BUFFER_HEADS_BYTES: u64 = 1;
/// Long names get 1/2^`LONG_SHIFT` of the memory for dentries. If the [`TableSize`] of dentries is not
/// [`TableSize::Larder`], the table of long names has 1/2^`LONG_SHIFT` of the number of buckets that the size selects.
const LONG_SHIFT: u32 = 3;

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
        // A frame has at least the size of the machine's page, because only whole pages can be returned to the
        // kernel. But a frame has at most 32 blocks, because a slot has a 32-bit mask with one bit for each block.
        let page_bytes = rustix::param::page_size().min(block * 32);
        let frame_bytes = block.max(4096).max(page_bytes);
        let names = config.budget_bytes / config.dentry_divisor.max(1);
        let inodes = config.budget_bytes / config.inode_divisor.max(1);
        // Long names are rare.
        let long = names >> LONG_SHIFT;
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
            LONG_SHIFT,
        );
        let inodes = ArenaConfig::new(inodes, inode_slot_bytes, frame_bytes);
        let inodes = sized(inodes, CacheKind::Inode, config.tables.inode, 0);
        let shared = |variant| SharedConfig::new(variant, config.budget_bytes, frame_bytes);
        let shared_blocks = shared(config.shared_blocks);
        let shared_inodes = shared(config.shared_inodes);
        let arenas = [short_names, long_names, inodes];
        let shared = shared_blocks.iter().chain(&shared_inodes);
        let arenas = arenas.iter().chain(shared.map(|shared| &shared.arena));
        let references = match config.tables.inode_lookups {
            InodeLookups::All => 0,
            InodeLookups::AfterDentryMisses => references_bytes(inodes.slots),
        };
        let prepaid: u64 = arenas.clone().map(|a| a.prepaid_bytes(frame_bytes)).sum();
        let chunks: u32 = arenas.map(|a| a.slots.div_ceil(a.chunk) - 1).sum();
        let left = config.budget_bytes.saturating_sub(prepaid + references);
        Self {
            frames: frames_of(left, frame_bytes, chunks, config),
            short_names,
            long_names,
            inodes,
            shared_blocks,
            shared_inodes,
        }
    }

    /// Returns the total size of the bucket heads of the page, buffer, dentry and inode caches, in bytes.
    #[must_use]
    pub fn heads_bytes(&self) -> u64 {
        let arenas = [self.short_names, self.long_names, self.inodes].map(|arena| arena.bits);
        let frames = [self.frames.page_bits, self.frames.buffer_bits];
        let tables = arenas.into_iter().chain(frames);
        tables.map(|bits| (HEAD_BYTES as u64) << bits).sum()
    }
}

/// Returns the sizes of a pool with as many frames as fit into `left_bytes` together with their tables.
/// `chunks` is the maximum number of chunks that the other caches can take from the pool.
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
    // Returns the size of a table's buckets as two numbers: the bytes for each frame, and the bytes that do
    // not depend on the number of frames.
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
        max_retired: chunks
            .saturating_add(frames / IN_USE_DIVISOR)
            .min(frames / 2),
    }
}

/// Converts `count` to the type of slot numbers. The result is at most half of
/// [`NUMBER_LIMIT`](crate::table::NUMBER_LIMIT), the limit of slot numbers.
fn to_number(count: u64) -> u32 {
    u32::try_from(count)
        .unwrap_or(u32::MAX)
        .min(crate::table::NUMBER_LIMIT / 2)
}
