//! Runs xattr-bench on mbcache alone: makes the calls to the cache that setxattr(2) would make, without a
//! file system.
//!
//! # Model
//! The model is of `ext4_xattr_block_set` and `ext4_xattr_release_block`. Only the parts of the file system
//! that determine the calls to the cache are modelled: blocks, each with the number of its value and a count
//! of up to [`MAX_USERS`] users. A set shares a block that has the same value, if the cache finds one.
//! Otherwise a sole user of a block changes it in place; one of several users releases the block and
//! allocates a new one. The last user frees a block. Values have no bytes, so nothing is hashed, compared
//! byte by byte or written. There are no inodes and no journal. Processes contend only for the cache and for
//! the counts of blocks that they share.
//!
//! # Invariants
//! 1. A block's count of users equals the number of files that use it.
//! 2. The entry of a block is deleted before the contents of the block change, and before the block is freed.
//! 3. After all threads that change the count of users are done, an entry is reusable if and only if its
//!    block has fewer than [`MAX_USERS`] users. With [`Blocks::without_reusable_flag`], each entry is reusable.
//!
//! # Locking
//! No locks are used: a block is one word, which is changed atomically.

use super::draws::{Draw, Draws, key_of, last_values};
use super::{BenchConfig, Case, Error, Run};
use crate::concurrent::run_concurrently;
use larder::{AttributeStats, MbCacheStats, MbCacheVariant};
use larder_cache::mbcache::{self, Config, Deletion, Held, MbCache, Probe};
use larder_cache::table::Growth;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Maximum number of users of a block, as on the image.
pub const MAX_USERS: u32 = 1024;

/// Size of a block on an image.
const BLOCK_BYTES: u64 = 4096;

/// Creates a cache with the same maximum number of entries as in Linux.
///
/// # Errors
/// Returns [`Error::Cache`] if the cache cannot be created.
pub fn cache<P: Probe>(variant: MbCacheVariant, probe: P) -> Result<Box<dyn MbCache>, Error> {
    let config = Config::new(variant, Config::LINUX_LIMIT_ENTRIES);
    mbcache::build(variant, config, Growth::Prepaid, probe)
        .map_err(|source| Error::Cache { variant, source })
}

/// The blocks.
#[derive(Debug)]
pub struct Blocks {
    words: Vec<Padded>,
    seed: u64,
    /// Whether the entry of a block that has [`MAX_USERS`] users is marked as not reusable.
    is_marking: bool,
}

/// The word of a block. Each is in a separate cache line, so that only users of the same block contend for
/// the line.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// The decoded word of a block. The upper half contains the number of users, the lower half the number of the
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    users: u32,
    value: u32,
}

impl Word {
    /// The word of a free block. A block that has a value but no users is not free: a process is about to use
    /// or free it.
    const FREE: Self = Self {
        users: 0,
        value: u32::MAX,
    };

    fn of(raw: u64) -> Self {
        let half = |raw: u64| u32::try_from(raw & u64::from(u32::MAX)).unwrap_or_default();
        Self {
            users: half(raw >> 32),
            value: half(raw),
        }
    }

    fn raw(self) -> u64 {
        u64::from(self.users) << 32 | u64::from(self.value)
    }

    fn with_users(self, users: u32) -> Self {
        Self { users, ..self }
    }
}

impl Blocks {
    /// Creates twice as many free blocks as `case` has files, so that a search finds a free block soon.
    pub fn new(case: Case, config: &BenchConfig) -> Self {
        let free = || Padded(AtomicU64::new(Word::FREE.raw()));
        Self {
            words: (0..2 * case.all_files()).map(|_| free()).collect(),
            seed: config.seed,
            is_marking: true,
        }
    }

    /// Leaves all entries reusable, so that a search examines full blocks too. So did Linux before the last
    /// patch of the rewrite of mbcache.
    pub fn without_reusable_flag(self) -> Self {
        Self {
            is_marking: false,
            ..self
        }
    }

    /// Returns the number of users of each block that is in use.
    pub(super) fn users(&self) -> Vec<u32> {
        let users = (0..self.words.len()).map(|block| self.word(block).users);
        users.filter(|users| *users > 0).collect()
    }

    fn word(&self, block: usize) -> Word {
        Word::of(self.words[block].0.load(Acquire))
    }

    fn set(&self, block: usize, word: Word) {
        self.words[block].0.store(word.raw(), Release);
    }

    /// Changes a word with `change`, and returns its previous value.
    fn update(&self, block: usize, change: impl Fn(Word) -> Option<Word>) -> Option<Word> {
        let change = |raw| change(Word::of(raw)).map(Word::raw);
        let before = self.words[block].0.fetch_update(AcqRel, Acquire, change);
        before.ok().map(Word::of)
    }

    /// Adds a user, if the block has the value `value` and from 1 to `MAX_USERS - 1` users.
    fn join(&self, block: usize, value: u32) -> Option<Word> {
        self.update(block, |word| {
            let has_room = (1..MAX_USERS).contains(&word.users);
            (has_room && word.value == value).then(|| word.with_users(word.users + 1))
        })
    }

    fn key(&self, value: u32) -> u32 {
        key_of(value, self.seed)
    }

    /// Marks an entry as reusable or not, according to the present state of its block.
    fn mark(&self, entry: &Held<'_>, block: usize) {
        if !self.is_marking {
            return;
        }
        let is_full = || self.word(block).users == MAX_USERS;
        loop {
            let was_full = is_full();
            entry.set_reusable(!was_full);
            // Each thread checks the count again after it has marked the entry, and repeats the mark if the
            // count has changed. Therefore the last mark matches the final count.
            if is_full() == was_full {
                return;
            }
        }
    }
}

/// One process, with its files.
#[derive(Debug)]
pub struct Process<'b> {
    blocks: &'b Blocks,
    cache: &'b dyn MbCache,
    files: Vec<Option<usize>>,
    draws: Draws,
    /// The block at which the search for a free block continues.
    hand: usize,
    shares: u64,
}

impl<'b> Process<'b> {
    /// Creates process `number`, whose files have no attributes yet.
    pub fn new(
        number: u32,
        blocks: &'b Blocks,
        cache: &'b dyn MbCache,
        case: Case,
        config: &BenchConfig,
    ) -> Self {
        Self {
            blocks,
            cache,
            files: vec![None; case.files as usize],
            draws: Draws::new(case, config, number),
            hand: number as usize * 2 * case.files as usize,
            shares: 0,
        }
    }

    /// Executes the next set. Returns false if all sets have been executed.
    pub fn step(&mut self) -> bool {
        let Some(Draw { file, value }) = self.draws.next() else {
            return false;
        };
        let old = self.files[file as usize];
        if self.value(file as usize) == Some(value) {
            return true;
        }
        let found = self.find(value);
        let left = old.filter(|block| self.leave(*block));
        let new = if let Some(found) = found {
            self.shares += 1;
            if let Some(left) = left {
                self.blocks.set(left, Word::FREE);
            }
            found
        } else {
            let block = left.unwrap_or_else(|| self.take(value));
            self.blocks.set(block, Word { users: 1, value });
            let key = self.blocks.key(value);
            self.cache.insert(key, block as u64, true);
            block
        };
        self.files[file as usize] = Some(new);
        true
    }

    /// Returns the key and the value of the entry whose block the next set changes or releases, if any.
    pub fn next_left(&self) -> Option<(u32, u64)> {
        let Draw { file, value } = self.draws.clone().next()?;
        let block = self.files[file as usize]?;
        let before = self.blocks.word(block).value;
        (before != value).then(|| (self.blocks.key(before), block as u64))
    }

    /// Returns the file of the next set, if any.
    pub fn next_file(&self) -> Option<usize> {
        self.draws.clone().next().map(|draw| draw.file as usize)
    }

    /// Returns the block of a file.
    pub fn block(&self, file: usize) -> Option<usize> {
        self.files[file]
    }

    /// Returns the value of a file.
    pub fn value(&self, file: usize) -> Option<u32> {
        self.files[file].map(|block| self.blocks.word(block).value)
    }

    /// Finds a block with `value`, and becomes its user.
    fn find(&self, value: u32) -> Option<usize> {
        let mut found = self.cache.find_first(self.blocks.key(value));
        while let Some(entry) = found {
            let block = usize::try_from(entry.value()).ok()?;
            if let Some(before) = self.blocks.join(block, value) {
                if before.users + 1 == MAX_USERS {
                    self.blocks.mark(&entry, block);
                }
                entry.touch();
                return Some(block);
            }
            found = self.cache.find_next(entry);
        }
        None
    }

    /// Releases the block. Returns true if this process was the last user: the block's entry is then
    /// deleted, and the caller owns the block.
    fn leave(&self, block: usize) -> bool {
        let leave = |word: Word| Some(word.with_users(word.users - 1));
        let Some(before) = self.blocks.update(block, leave) else {
            return false;
        };
        let key = self.blocks.key(before.value);
        if before.users == MAX_USERS
            && let Some(entry) = self.cache.get(key, block as u64)
        {
            self.blocks.mark(&entry, block);
        }
        if before.users > 1 {
            return false;
        }
        // Another thread that finds the entry now sees that the block has no users, and releases the entry.
        while let Deletion::InUse(entry) = self.cache.delete_or_get(key, block as u64) {
            entry.wait_unused();
        }
        true
    }

    /// Allocates a free block and gives it `value`. The block has no users yet.
    fn take(&mut self, value: u32) -> usize {
        let taken = Word { users: 0, value };
        loop {
            self.hand = (self.hand + 1) % self.blocks.words.len();
            let take = |word: Word| (word == Word::FREE).then_some(taken);
            if self.blocks.update(self.hand, take).is_some() {
                return self.hand;
            }
        }
    }
}

/// Runs all processes, as threads, on `blocks`, all of which must be free.
pub(super) fn run(
    variant: MbCacheVariant,
    case: Case,
    config: &BenchConfig,
    blocks: &Blocks,
) -> Result<Run, Error> {
    let cache = cache(variant, ())?;
    let (spent, processes) = run_concurrently(case.processes, |number| {
        let mut process = Process::new(number, blocks, &*cache, case, config);
        for _ in 0..config.unmeasured(case) {
            process.step();
        }
        move || {
            while process.step() {}
            process
        }
    });
    for (process, done) in (0..).zip(&processes) {
        let expected = last_values(case, config, process);
        let mut files = 0..expected.len();
        if let Some(file) = files.find(|file| done.value(*file) != expected[*file]) {
            return Err(Error::Lost { process, file });
        }
    }
    let shares = processes.iter().map(|process| process.shares).sum();
    let saved_blocks = blocks.users().into_iter().map(|users| u64::from(users - 1));
    Ok(Run {
        elapsed: spent.wall,
        stats: Some(AttributeStats {
            variant,
            blocks: cache.stats(),
            inodes: MbCacheStats::default(),
            shares,
            saved_bytes: saved_blocks.sum::<u64>() * BLOCK_BYTES,
        }),
        commits: None,
    })
}
