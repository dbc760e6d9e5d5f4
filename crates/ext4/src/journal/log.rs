//! The walk over the log, which finds the valid copies of blocks in the journal.
//!
//! A block's home is its location in the file system, to which recovery writes the copy.
//!
//! Model: jbd2 scans the log three times: to find its end, to collect revocations, and to write the
//! blocks. A transaction changes the result only if its commit block is found, and a revocation
//! affects only copies in the same and earlier transactions. Therefore one walk that applies each
//! transaction as a whole, first its blocks and then its revocations, has the same result.
//!
//! The log ends at the first block that is not a descriptor, revoke or commit block with the number
//! of the expected transaction. A transaction without a commit block is ignored. Other faults:
//!
//! | fault | condition | effect |
//! |---|---|---|
//! | wrong byte count of a revoke block | | error |
//! | wrong checksum of a descriptor or revoke block | no commit block follows | end of the log |
//! | | the commit block that follows is older than the previous one | end of the log: the blocks were written before the log last wrapped around |
//! | | otherwise | error |
//! | wrong checksum of a commit block, or wrong CRC-32 of a transaction | the commit block is older than the previous one | end of the log |
//! | | the journal has asynchronous commits | end of the log |
//! | | otherwise | error |
//! | wrong checksum of a data block | the block is revoked | none |
//! | | the block is in the last transaction, and the journal has asynchronous commits | end of the log before this transaction |
//! | | otherwise | error |
//! | home of a data block outside the file system | the block is revoked | none |
//! | | otherwise | error |
//!
//! Cost: time in proportion to the log; in the result, about 40 bytes for each block that is to be
//! replayed.

use super::checkpoint::Ring;
use super::file::JournalFile;
use crate::error::Place;
use crate::ondisk::jbd2::{
    self, BlockKind, Commit, Crc32, Features, Format, JournalSuperblock, Tag, Tid,
};
use crate::ondisk::superblock::Superblock;
use crate::{Error, FsBlock, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The numbers of transactions, blocks, revocations and fast commits that recovery found in a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryCounts {
    /// The number of committed transactions.
    pub transactions: u32,
    /// The number of blocks in these transactions, including blocks that later transactions
    /// replaced or revoked.
    pub blocks: u64,
    /// The number of revocations in these transactions.
    pub revocations: u64,
    /// The number of blocks whose copies in the journal replace the blocks in the file system: the
    /// copies are read instead of the blocks, or were written to them.
    pub redirected_blocks: u64,
    /// The number of valid fast commits after the transactions.
    pub fast_commits: u32,
}

/// The maximum number of blocks of the journal that one request reads.
const READ_BLOCKS: u32 = 64;

/// The maximum number of records of copied and revoked blocks that are kept in memory. The revocations of the
/// transaction that is being read are counted separately, with the same limit. A journal of 4 GiB with blocks
/// of 4 KiB has this many blocks. While the log is read, a record takes up to about 100 bytes, including the
/// lists of [`Pending`], the list for the check of the checksums, and the spare capacity of all lists. So a
/// journal that is crafted to exhaust memory is refused after about 100 MiB.
const RECORDS_MAX: usize = 1 << 20;

/// The contents of the log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The valid copies of blocks, by home.
    pub(super) copies: BTreeMap<FsBlock, Copy>,
    /// Copies that later copies replace. Their checksums are verified as well: corruption in them
    /// is an error. Empty if the copies have no checksums.
    replaced: Vec<Copy>,
    /// For each block that was revoked after it was copied, the last transaction that revokes the
    /// block. Empty if the copies have no checksums.
    revoked: HashMap<FsBlock, Tid>,
    /// The counts of the log, without the redirected blocks and the fast commits.
    counts: RecoveryCounts,
}

impl Log {
    /// Returns the counts of the log, with `fast_commits` as the number of fast commits.
    pub(super) fn counts(&self, fast_commits: u32) -> RecoveryCounts {
        RecoveryCounts {
            redirected_blocks: self.copies.len() as u64,
            fast_commits,
            ..self.counts
        }
    }
}

/// The end of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// The number of the next transaction.
    pub(super) tid: Tid,
    /// The block of the journal where the next transaction would start.
    pub(super) block: u32,
}

/// A block's copy in the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    /// The copy's location in the journal.
    pub(super) block: u32,
    /// The tag that describes the copy in the descriptor block.
    pub(super) tag: Tag,
    /// The transaction that contains the copy.
    tid: Tid,
}

/// The transaction that is being read.
#[derive(Debug, Default)]
struct Pending {
    copies: Vec<(u32, Tag)>,
    revoked: BTreeSet<FsBlock>,
    /// The first descriptor or revoke block of the transaction with a wrong checksum.
    damaged: Option<u32>,
    crc32: Option<Crc32>,
}

/// The number of blocks to advance to the next block of the log; `None` if the log ends before the
/// transaction that is being read.
type Step = Option<u32>;

/// Reads the log. Returns its contents and its end.
pub(super) fn read(
    file: &JournalFile,
    journal: &JournalSuperblock,
    sb: &Superblock,
) -> Result<(Log, End)> {
    let is_async = journal.features.contains(Features::ASYNC_COMMIT);
    let mut stop_at = None;
    loop {
        let (log, end) = Walk::new(file, journal, sb).run(stop_at)?;
        let Some(damaged) = first_damaged(file, &journal.format(), &log)? else {
            return Ok((log, end));
        };
        let last = Tid(end.tid.0.wrapping_sub(1));
        if stop_at.is_some() || !is_async || damaged.tid != last {
            return Err(
                Place::Journal(damaged.block).corrupt("checksum of the data block is wrong")
            );
        }
        stop_at = Some(last);
    }
}

/// Returns the first copy, in the order of the journal, whose data does not match its tag.
fn first_damaged(file: &JournalFile, format: &Format, log: &Log) -> Result<Option<Copy>> {
    if !format.has_data_checksums() {
        return Ok(None);
    }
    let is_revoked = |copy: &&Copy| {
        let last = log.revoked.get(&copy.tag.home);
        last.is_some_and(|last| !last.is_before(copy.tid))
    };
    let replaced = log.replaced.iter().filter(|copy| !is_revoked(copy));
    let mut copies: Vec<Copy> = log.copies.values().chain(replaced).copied().collect();
    copies.sort_unstable_by_key(|copy| copy.block);
    let block_bytes = file.block_size_bytes();
    let mut bytes = Vec::new();
    let mut rest = copies.as_slice();
    while let Some(first) = rest.first() {
        let together = rest
            .iter()
            .zip(first.block..)
            .take(READ_BLOCKS as usize)
            .take_while(|(copy, block)| copy.block == *block)
            .count();
        let wanted = u32::try_from(together).unwrap_or(1);
        let blocks = file.adjoining_blocks(first.block, wanted)? as usize;
        bytes.resize(blocks * block_bytes, 0);
        file.read(first.block, &mut bytes)?;
        let (now, later) = rest.split_at(blocks);
        let damaged = now
            .iter()
            .zip(bytes.chunks_exact(block_bytes))
            .find(|(copy, data)| !format.data_is_intact(copy.tid, &copy.tag, data));
        if let Some((copy, _)) = damaged {
            return Ok(Some(*copy));
        }
        rest = later;
    }
    Ok(None)
}

/// One walk over the log.
struct Walk<'a> {
    file: &'a JournalFile,
    journal: &'a JournalSuperblock,
    format: Format,
    ring: Ring,
    sb: &'a Superblock,
    log: Log,
    pending: Pending,
    last_commit_seconds: Option<u64>,
    /// The start of the transaction that is being read.
    start: u32,
    /// The current block.
    at: u32,
    /// The number of blocks that the walk has passed, which must not exceed the size of the log.
    passed: u32,
    tid: Tid,
}

impl<'a> Walk<'a> {
    fn new(file: &'a JournalFile, journal: &'a JournalSuperblock, sb: &'a Superblock) -> Self {
        Self {
            file,
            journal,
            format: journal.format(),
            ring: Ring::of(journal),
            sb,
            log: Log::default(),
            pending: Pending::default(),
            last_commit_seconds: None,
            start: journal.start,
            at: journal.start,
            passed: 0,
            tid: journal.sequence,
        }
    }

    /// Walks until the log ends, or to the start of the transaction `stop_at`.
    fn run(mut self, stop_at: Option<Tid>) -> Result<(Log, End)> {
        let mut block = vec![0; self.file.block_size_bytes()];
        while stop_at != Some(self.tid) {
            self.file.read(self.at, &mut block)?;
            let step = match jbd2::log_block(&block) {
                Some((kind, tid)) if tid == self.tid => match kind {
                    BlockKind::Descriptor => self.descriptor(&block)?,
                    BlockKind::Revoke => self.revoke(&block)?,
                    BlockKind::Commit => self.commit(&block)?,
                },
                _ => None,
            };
            let Some(blocks) = step else { break };
            self.advance(blocks)?;
        }
        self.check_homes()?;
        let end = End {
            tid: self.tid,
            block: self.start,
        };
        Ok((self.log, end))
    }

    fn corrupt(&self, what: &'static str) -> Error {
        Place::Journal(self.at).corrupt(what)
    }

    fn advance(&mut self, blocks: u32) -> Result<()> {
        self.passed = self.passed.saturating_add(blocks);
        if self.passed > self.ring.len_blocks() {
            return Err(self.corrupt("the log wraps around without an end"));
        }
        self.at = self.ring.wrapped(self.at, blocks);
        Ok(())
    }

    /// Verifies the checksum of a descriptor or revoke block. If the checksum is wrong, records the
    /// block; the commit block then decides whether this is an error.
    fn check(&mut self, kind: BlockKind, block: &[u8]) {
        if !self.format.block_is_intact(kind, block) {
            self.pending.damaged.get_or_insert(self.at);
        }
    }

    fn descriptor(&mut self, block: &[u8]) -> Result<Step> {
        self.check(BlockKind::Descriptor, block);
        let mut count = 0;
        for tag in self.format.tags(block) {
            count += 1;
            let at = self.ring.wrapped(self.at, count);
            self.pending.copies.push((at, tag));
        }
        let held = self.log.copies.len() + self.log.replaced.len() + self.log.revoked.len();
        self.check_records(held + self.pending.copies.len())?;
        if self.journal.has_commit_crc32 {
            let crc = self.pending.crc32.unwrap_or(Crc32::START).bytes(block);
            self.pending.crc32 = Some(self.data_crc32(crc, count)?);
        }
        Ok(Some(count + 1))
    }

    /// Returns `crc` updated with the contents of the `count` data blocks after a descriptor.
    fn data_crc32(&self, mut crc: Crc32, count: u32) -> Result<Crc32> {
        let mut data = vec![0; self.file.block_size_bytes()];
        for index in 1..=count {
            self.file
                .read(self.ring.wrapped(self.at, index), &mut data)?;
            crc = crc.bytes(&data);
        }
        Ok(crc)
    }

    /// Returns an error if there are more than [`RECORDS_MAX`] records.
    fn check_records(&self, records: usize) -> Result<()> {
        if records > RECORDS_MAX {
            return Err(self.corrupt("too many blocks to replay in memory; run e2fsck"));
        }
        Ok(())
    }

    fn revoke(&mut self, block: &[u8]) -> Result<Step> {
        self.check(BlockKind::Revoke, block);
        let Some(revoked) = self.format.revoked(block) else {
            return Err(self.corrupt("byte count of a revoke block is wrong"));
        };
        self.pending.revoked.extend(revoked);
        self.check_records(self.pending.revoked.len())?;
        Ok(Some(1))
    }

    fn commit(&mut self, block: &[u8]) -> Result<Step> {
        let Some(commit) = jbd2::commit(block) else {
            return Ok(None);
        };
        let is_left_over = self
            .last_commit_seconds
            .is_some_and(|last| commit.time_seconds < last);
        if let Some(damaged) = self.pending.damaged {
            if is_left_over {
                return Ok(None);
            }
            return Err(Place::Journal(damaged)
                .corrupt("descriptor or revoke block of a committed transaction is damaged"));
        }
        if !self.is_intact(block, &commit) {
            let is_async = self.journal.features.contains(Features::ASYNC_COMMIT);
            if is_left_over || is_async {
                return Ok(None);
            }
            return Err(self.corrupt("checksum of the commit block is wrong"));
        }
        self.last_commit_seconds = Some(commit.time_seconds);
        self.apply();
        self.tid = self.tid.next();
        self.start = self.ring.wrapped(self.at, 1);
        Ok(Some(1))
    }

    fn is_intact(&self, block: &[u8], commit: &Commit) -> bool {
        let crc32_fits = match (self.journal.has_commit_crc32, commit.crc32) {
            (true, Some(crc32)) => self.pending.crc32.unwrap_or(Crc32::START) == Crc32(crc32),
            // Commits that were written before the feature was enabled have no CRC-32.
            _ => true,
        };
        crc32_fits && self.format.block_is_intact(BlockKind::Commit, block)
    }

    /// Adds the committed transaction to the result.
    fn apply(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let counts = &mut self.log.counts;
        counts.transactions = counts.transactions.saturating_add(1);
        counts.blocks += pending.copies.len() as u64;
        counts.revocations += pending.revoked.len() as u64;
        let tid = self.tid;
        let has_checksums = self.format.has_data_checksums();
        for (block, tag) in pending.copies {
            let replaced = self.log.copies.insert(tag.home, Copy { block, tag, tid });
            self.log.replaced.extend(replaced.filter(|_| has_checksums));
        }
        for home in pending.revoked {
            let was_copied = self.log.copies.remove(&home).is_some();
            if was_copied && has_checksums {
                self.log.revoked.insert(home, tid);
            }
        }
    }

    /// Returns an error if the home of a block to be replayed is outside the file system.
    fn check_homes(&self) -> Result<()> {
        let mut outside = self.log.copies.range(FsBlock(self.sb.blocks_count)..);
        let Some((_, copy)) = outside.next() else {
            return Ok(());
        };
        Err(Place::Journal(copy.block)
            .corrupt("home location of the data block is outside the file system"))
    }
}
