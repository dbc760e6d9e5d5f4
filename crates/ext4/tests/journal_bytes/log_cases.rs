//! Kinds of damage to the journal's superblock and to the log.

use super::{BLOCK_BYTES, Case, JournalBytes};
use larder_ext4::ondisk::jbd2::BlockKind::{Commit, Descriptor, Revoke};
use larder_ext4::ondisk::jbd2::Features;

const BLOCKSIZE: usize = 0xc;
const MAXLEN: usize = 0x10;
const FIRST: usize = 0x14;
const SEQUENCE: usize = 0x18;
const START: usize = 0x1c;

pub const SUPERBLOCK_CASES: &[Case] = &[
    ("nothing", |_| {}),
    ("magic", |j| j.superblock_word(0, 1)),
    ("type 0", |j| j.superblock_word(4, 0)),
    ("type 3: version 1", |j| j.superblock_word(4, 3)),
    ("type 5", |j| j.superblock_word(4, 5)),
    ("tid in the header", |j| j.superblock_word(8, 77)),
    ("block size 0", |j| j.superblock_word(BLOCKSIZE, 0)),
    ("block size 2048", |j| j.superblock_word(BLOCKSIZE, 2048)),
    ("length 0", |j| j.superblock_word(MAXLEN, 0)),
    ("length 2", |j| j.superblock_word(MAXLEN, 2)),
    ("length 1000", |j| j.superblock_word(MAXLEN, 1000)),
    ("length past its file", |j| {
        j.superblock_word(MAXLEN, 1 << 20);
    }),
    ("length huge", |j| j.superblock_word(MAXLEN, u32::MAX)),
    ("first 0", |j| j.superblock_word(FIRST, 0)),
    ("first 2, start 1", |j| {
        j.superblock_word(START, 1);
        j.superblock_word(FIRST, 2);
    }),
    ("first 500", |j| j.superblock_word(FIRST, 500)),
    ("first past the end", |j| j.superblock_word(FIRST, 1 << 20)),
    ("sequence one later", |j| {
        let sequence = j.superblock.sequence.next();
        j.superblock_word(SEQUENCE, sequence.0);
    }),
    ("sequence 0", |j| j.superblock_word(SEQUENCE, 0)),
    ("start 0", |j| j.superblock_word(START, 0)),
    ("start in a transaction", |j| {
        let start = j.superblock.start;
        j.superblock_word(START, start + 1);
    }),
    ("start at the end", |j| {
        let end = j.superblock.end;
        j.superblock_word(START, end);
    }),
    ("start in the last block", |j| {
        let end = j.superblock.end;
        j.superblock_word(START, end - 1);
    }),
    ("start huge", |j| j.superblock_word(START, u32::MAX)),
    ("errno -5", |j| {
        j.superblock_word(0x20, 5_u32.wrapping_neg());
    }),
    ("errno 7", |j| j.superblock_word(0x20, 7)),
    ("unknown compatible feature", |j| {
        j.superblock_word(0x24, 0x100);
    }),
    ("commits with CRC-32 too", |j| j.superblock_word(0x24, 1)),
    ("unknown incompatible feature", |j| {
        let at = j.journal[0] + 0x28;
        let features = j.word(at) | 0x100;
        j.superblock_word(0x28, features);
    }),
    ("checksums of versions 2 and 3", |j| {
        let at = j.journal[0] + 0x28;
        let features = j.word(at) | 0x18;
        j.superblock_word(0x28, features);
    }),
    ("unknown read-only compatible feature", |j| {
        j.superblock_word(0x2c, 0x100);
    }),
    ("users 5", |j| j.superblock_word(0x40, 5)),
    ("dynamic superblock", |j| j.superblock_word(0x44, 7)),
    ("largest transaction 1", |j| j.superblock_word(0x48, 1)),
    ("type of checksum", |j| j.superblock_word(0x50, 0x0100_0000)),
    ("fast-commit blocks, without the feature", |j| {
        j.superblock_word(0x54, 5000);
    }),
    ("head", |j| j.superblock_word(0x58, 5000)),
    ("checksum", |j| {
        let at = j.journal[0];
        j.flip(at + 0xfc);
    }),
    ("uuid", |j| {
        let at = j.journal[0];
        j.flip(at + 0x30);
        j.set_superblock_checksum();
    }),
];

pub const LOG_CASES: &[Case] = &[
    ("nothing", |_| {}),
    ("first descriptor's checksum", |j| {
        let at = j.first(Descriptor);
        j.flip(at + BLOCK_BYTES - 1);
    }),
    ("last descriptor's checksum", |j| {
        let at = j.last(Descriptor);
        j.flip(at + BLOCK_BYTES - 1);
    }),
    ("last descriptor's checksum, not committed", |j| {
        let at = j.last(Descriptor);
        j.flip(at + BLOCK_BYTES - 1);
        j.uncommit(at);
    }),
    ("descriptor's magic", |j| {
        let at = j.last(Descriptor);
        j.log_word(Descriptor, at, 0, 7);
    }),
    ("descriptor of type 9", |j| {
        let at = j.last(Descriptor);
        j.log_word(Descriptor, at, 4, 9);
    }),
    ("superblock in the log", |j| {
        let at = j.last(Descriptor);
        j.log_word(Descriptor, at, 4, 4);
    }),
    ("descriptor of another transaction", |j| {
        let at = j.last(Descriptor);
        j.log_word(Descriptor, at, 8, 999);
    }),
    ("home outside the file system", |j| {
        let at = j.last(Descriptor);
        j.log_word(Descriptor, at, 12, 0x00ff_ffff);
    }),
    ("home outside the file system, not committed", |j| {
        let at = j.last(Descriptor);
        j.log_word(Descriptor, at, 12, 0x00ff_ffff);
        j.uncommit(at);
    }),
    ("home at the end of the file system", |j| {
        let at = j.last(Descriptor);
        j.log_word(Descriptor, at, 12, 8192);
    }),
    ("home outside the file system, revoked", |j| {
        let (at, revoke) = (j.first(Descriptor), j.last(Revoke));
        j.log_word(Descriptor, at, 12, 0x00ff_ffff);
        j.put(revoke + 16, 0);
        let wide = j.superblock.format().revoked(j.block(revoke)).is_some()
            && j.superblock.features.contains(Features::BIT64);
        j.put(revoke + if wide { 20 } else { 16 }, 0x00ff_ffff);
        j.set_checksum(Revoke, revoke);
    }),
    ("no last tag", |j| {
        let at = j.last(Descriptor);
        let tags = j.superblock.format().tags(j.block(at)).count();
        let wide = j.superblock.format().has_data_checksums();
        for number in 0..tags {
            // The UUID follows the first tag.
            let tag_bytes = if wide { 16 } else { 8 };
            let skipped = if number == 0 { 0 } else { 16 };
            let flags = at + 12 + number * tag_bytes + skipped + 4;
            let kept = j.word(flags) & !8;
            j.put(flags, kept);
        }
        j.set_checksum(Descriptor, at);
    }),
    ("tag escaped", |j| {
        let at = j.last(Descriptor);
        let flags = j.word(at + 16) ^ 1;
        j.log_word(Descriptor, at, 16, flags);
    }),
    ("data that holds", |j| {
        let at = j.find_copy(|copy| !j.is_replaced(copy) && !j.revokes_after(copy));
        j.flip(at + 1000);
    }),
    ("data that is replaced", |j| {
        let at = j.find_copy(|copy| j.is_replaced(copy) && !j.revokes_after(copy));
        j.flip(at + 1000);
    }),
    ("data that is revoked", |j| {
        let at = j.find_copy(|copy| j.revokes_after(copy));
        j.flip(at + 1000);
    }),
    ("data that is not committed", |j| {
        let at = j.copies.last().expect("copies").at;
        j.flip(at + 1000);
        let descriptor = j.last(Descriptor);
        j.uncommit(descriptor);
    }),
    ("first commit's checksum", |j| {
        let at = j.first(Commit);
        j.flip(at + 0x10);
    }),
    ("last commit's checksum", |j| {
        let at = j.last(Commit);
        j.flip(at + 0x10);
    }),
    ("last commit's checksum, older than the one before", |j| {
        let at = j.last(Commit);
        j.put(at + 0x34, 1);
    }),
    ("last commit older than the one before", |j| {
        let at = j.last(Commit);
        j.log_word(Commit, at, 0x34, 1);
    }),
    (
        "last descriptor's checksum, commit older than the one before",
        |j| {
            let (descriptor, commit) = (j.last(Descriptor), j.last(Commit));
            j.flip(descriptor + BLOCK_BYTES - 1);
            j.log_word(Commit, commit, 0x34, 1);
        },
    ),
    ("commit of another transaction", |j| {
        let at = j.last(Commit);
        j.log_word(Commit, at, 8, 999);
    }),
    ("first commit missing", |j| {
        let at = j.first(Commit);
        j.uncommit(at);
    }),
    ("last commit missing", |j| {
        let at = j.last(Commit);
        j.uncommit(at);
    }),
    ("revoke block's checksum", |j| {
        let at = j.first(Revoke);
        j.flip(at + BLOCK_BYTES - 1);
    }),
    ("revoke block's checksum, not committed", |j| {
        let at = j.first(Revoke);
        j.flip(at + BLOCK_BYTES - 1);
        j.uncommit(at);
    }),
    ("revoke count 0", |j| revoke_count(j, 0)),
    ("revoke count 15", |j| revoke_count(j, 15)),
    ("revoke count 16", |j| revoke_count(j, 16)),
    ("revoke count 27", |j| revoke_count(j, 27)),
    ("revoke count up to the checksum", |j| revoke_count(j, 1020)),
    ("revoke count into the checksum", |j| revoke_count(j, 1021)),
    ("revoke count of the block", |j| revoke_count(j, 1024)),
    ("revoke count past the block", |j| revoke_count(j, 1025)),
    ("revoke count huge", |j| revoke_count(j, u32::MAX)),
    ("revoke count past the block, not committed", |j| {
        revoke_count(j, 1025);
        let at = j.first(Revoke);
        j.uncommit(at);
    }),
    ("revoke count past the block, wrong checksum", |j| {
        let at = j.first(Revoke);
        j.put(at + 12, 1025);
    }),
    (
        "revoke count past the block, after the end of the log",
        |j| {
            // After the end of the log, with the next transaction number.
            let end = j.log.last().expect("log").1;
            let index = j
                .journal
                .iter()
                .position(|at| *at == end)
                .expect("its place");
            let (at, from) = (j.journal[index + 1], j.first(Revoke));
            let next = j.word(end + 8) + 1;
            j.image.copy_within(from..from + BLOCK_BYTES, at);
            j.put(at + 8, next);
            j.log_word(Revoke, at, 12, u32::MAX);
        },
    ),
    ("revoked block outside the file system", |j| {
        let at = j.first(Revoke);
        j.log_word(Revoke, at, 16, 0x7fff_ffff);
    }),
];

fn revoke_count(j: &mut JournalBytes, count: u32) {
    let at = j.first(Revoke);
    j.log_word(Revoke, at, 12, count);
}
