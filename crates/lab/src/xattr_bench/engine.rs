//! The cache alone: what a setxattr does to it, over blocks that are numbers.
//!
//! # Model
//! `ext4_xattr_block_set` and `ext4_xattr_release_block`. Of the file system there is what decides
//! what the cache is asked: blocks with contents and a count of users up to [`MAX_USERS`], shared
//! where equal contents are found, changed in place by a user who is alone, left by one who is not,
//! and free with the last. There are no bytes, so nothing is hashed, compared byte by byte or
//! written; no inodes, no journal, and none of their locks: processes meet in the cache and, where
//! they share a block, in its count.
//!
//! # Invariants
//! 1. A block has as many users as there are files that have it.
//! 2. A block's entry is deleted before its contents change, and before it is free.
//! 3. An entry is reusable while its block has less than [`MAX_USERS`], once all who count it are
//!    done.
//!
//! # Locking
//! None: a block is one word.

use super::draws::{Draw, Draws, key_of, last_values};
use super::{BenchConfig, Case, Error, Run};
use crate::together::together;
use larder::{AttributeStats, MbCacheStats, MbCacheVariant};
use larder_cache::mbcache::{self, Config, Deleted, Held, MbCache, Probe};
use larder_cache::table::Growth;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Users of a block at most, as on the image.
pub const MAX_USERS: u32 = 1024;

/// What a block would take on an image.
const BLOCK_BYTES: u64 = 4096;

/// A cache of as many entries as Linux has in its own.
///
/// # Errors
/// [`Error::Cache`]
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
}

/// The word of a block, on lines of its own as the block's header is: who shares no block meets nobody.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// A block's word: its users in the upper half, the number of its value in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    users: u32,
    value: u32,
}

impl Word {
    /// A block that anybody may take. One with no users but a value is somebody's already.
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
    /// Free blocks for the files of `case`, and as many more so that one is soon found.
    pub fn new(case: Case, config: &BenchConfig) -> Self {
        let free = || Padded(AtomicU64::new(Word::FREE.raw()));
        Self {
            words: (0..2 * case.all_files()).map(|_| free()).collect(),
            seed: config.seed,
        }
    }

    /// The users of each block that has any.
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

    /// Changes a word as `change` wants it, and returns what it was.
    fn update(&self, block: usize, change: impl Fn(Word) -> Option<Word>) -> Option<Word> {
        let change = |raw| change(Word::of(raw)).map(Word::raw);
        let before = self.words[block].0.fetch_update(AcqRel, Acquire, change);
        before.ok().map(Word::of)
    }

    /// One user more, if the block has that value, users, and room for one.
    fn join(&self, block: usize, value: u32) -> Option<Word> {
        self.update(block, |word| {
            let has_room = (1..MAX_USERS).contains(&word.users);
            (has_room && word.value == value).then(|| word.with_users(word.users + 1))
        })
    }

    fn key(&self, value: u32) -> u32 {
        key_of(value, self.seed)
    }

    /// Makes an entry reusable or not, as its block is now.
    fn mark(&self, entry: &Held<'_>, block: usize) {
        let is_full = || self.word(block).users == MAX_USERS;
        loop {
            let was_full = is_full();
            entry.set_reusable(!was_full);
            // Whoever marks last has looked after that, so no mark of an earlier count stays.
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
    /// Where the search for a free block goes on.
    hand: usize,
    shares: u64,
}

impl<'b> Process<'b> {
    /// Process `number`, whose files have no attributes yet.
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

    /// Sets the next attribute; false if all have been set.
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

    /// The key and the value of the entry whose block the next set changes or leaves, if it does.
    pub fn next_left(&self) -> Option<(u32, u64)> {
        let Draw { file, value } = self.draws.clone().next()?;
        let block = self.files[file as usize]?;
        let before = self.blocks.word(block).value;
        (before != value).then(|| (self.blocks.key(before), block as u64))
    }

    /// The value that a file has.
    pub fn value(&self, file: usize) -> Option<u32> {
        self.files[file].map(|block| self.blocks.word(block).value)
    }

    /// Finds a block with that value, and becomes its user.
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

    /// Is no user of the block any more. With the last one its entry is deleted, and the block is
    /// the caller's: then it returns true.
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
        // Who has found it meanwhile sees no users, and lets go.
        while let Deleted::InUse(entry) = self.cache.delete_or_get(key, block as u64) {
            entry.wait_unused();
        }
        true
    }

    /// Takes a free block.
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

/// Runs all processes, as threads.
pub(super) fn run(variant: MbCacheVariant, case: Case, config: &BenchConfig) -> Result<Run, Error> {
    let cache = cache(variant, ())?;
    let blocks = Blocks::new(case, config);
    let (elapsed, processes) = together(case.processes, |number| {
        let mut process = Process::new(number, &blocks, &*cache, case, config);
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
        elapsed,
        stats: Some(AttributeStats {
            variant,
            blocks: cache.stats(),
            inodes: MbCacheStats::default(),
            shares,
            saved_bytes: saved_blocks.sum::<u64>() * BLOCK_BYTES,
        }),
    })
}
