//! Kinds of damage to fast commits.

use super::{BLOCK_BYTES, Case, JournalBytes, TAIL};

const ADD_RANGE: u16 = 1;
const CREATE: u16 = 3;
const UNLINK: u16 = 5;
const INODE: u16 = 6;
const HEAD: u16 = 9;

pub const FAST_COMMIT_CASES: &[Case] = &[
    ("nothing", |_| {}),
    ("fast-commit blocks 0", |j| j.superblock_word(0x54, 0)),
    ("fast-commit blocks 1", |j| j.superblock_word(0x54, 1)),
    ("fast-commit blocks, all but 100", |j| {
        let blocks = j.superblock.length_blocks - 100;
        j.superblock_word(0x54, blocks);
    }),
    ("fast-commit blocks huge", |j| {
        j.superblock_word(0x54, 1 << 20);
    }),
    ("no feature of fast commits", |j| {
        let at = j.journal[0] + 0x28;
        let features = j.word(at) & !0x20;
        j.superblock_word(0x28, features);
    }),
    ("last tail's checksum", |j| {
        let at = j.tag(TAIL, true);
        j.flip(at + 8);
    }),
    ("first tail's checksum", |j| {
        let at = j.tag(TAIL, false);
        j.flip(at + 8);
    }),
    ("tail of another transaction", |j| j.tag_word(TAIL, 4, 999)),
    ("head of another transaction", |j| j.tag_word(HEAD, 8, 999)),
    ("head with a feature", |j| j.tag_word(HEAD, 4, 1)),
    ("no head", |j| {
        let at = j.tag(HEAD, false);
        j.image[at] = 7;
        j.set_fast_commit_checksums();
    }),
    ("unknown tag instead of the head", |j| {
        let at = j.tag(HEAD, false);
        j.image[at] = 20;
        j.set_fast_commit_checksums();
    }),
    ("nothing instead of the head", |j| {
        let at = j.tag(HEAD, false);
        j.image[at] = 0;
        j.set_fast_commit_checksums();
    }),
    ("head past its block", |j| {
        let at = j.tag(HEAD, false);
        j.image[at + 2..at + 4].fill(0xff);
    }),
    ("head too short", |j| {
        let at = j.tag(HEAD, false);
        j.image[at + 2] = 4;
    }),
    ("second commit's unknown tag", |j| {
        let at = j.tag(INODE, true);
        j.image[at] = 20;
        j.set_fast_commit_checksums();
    }),
    ("second commit's tag past its block", |j| {
        let at = j.tag(INODE, true);
        j.image[at + 2..at + 4].fill(0xff);
    }),
    ("second head", |j| {
        let at = j.tag(INODE, true);
        j.image[at] = 9;
        j.set_fast_commit_checksums();
    }),
    ("second head with a feature", |j| {
        let at = j.tag(INODE, true);
        j.put_le(at, 9 | 8 << 16);
    }),
    ("second head of another transaction", |j| {
        let at = j.tag(INODE, true);
        j.put_le(at, 9 | 8 << 16);
        j.put_le(at + 4, 0);
    }),
    ("fast-commit blocks, one too many", |j| {
        let blocks = j.superblock.length_blocks - 1023;
        j.superblock_word(0x54, blocks);
    }),
    ("tail too short", |j| {
        let at = j.tag(TAIL, false);
        j.image[at + 2..at + 4].copy_from_slice(&[4, 0]);
    }),
    ("unknown tag", |j| {
        let at = j.tag(CREATE, false);
        j.image[at] = 20;
        j.set_fast_commit_checksums();
    }),
    ("tag past its block", |j| {
        let at = j.tag(CREATE, false);
        j.image[at + 2..at + 4].fill(0xff);
        j.set_fast_commit_checksums();
    }),
    ("tag too short", |j| {
        let at = j.tag(ADD_RANGE, false);
        let code_and_len = u32::from(ADD_RANGE) | 12 << 16;
        j.put_le(at, code_and_len);
        j.set_fast_commit_checksums();
    }),
    ("range of inode 0", |j| j.tag_word(ADD_RANGE, 4, 0)),
    ("range of an inode that does not exist", |j| {
        j.tag_word(ADD_RANGE, 4, 1 << 30);
    }),
    ("range of an inode not in use", |j| {
        j.tag_word(ADD_RANGE, 4, 2000);
    }),
    ("range outside the file system", |j| {
        j.tag_word(ADD_RANGE, 16, 1 << 30);
    }),
    ("range of 0 blocks", |j| {
        let at = j.tag(ADD_RANGE, false);
        let word = j.half(at + 14);
        j.tag_word(ADD_RANGE, 12, u32::from(word) << 16);
    }),
    ("range past the longest file", |j| {
        j.tag_word(ADD_RANGE, 8, u32::MAX);
    }),
    ("range in the group descriptors", |j| {
        j.tag_word(ADD_RANGE, 16, 2);
    }),
    ("range in the journal", |j| {
        let block = j.journal[700] / BLOCK_BYTES;
        j.tag_word(ADD_RANGE, 16, u32::try_from(block).expect("small"));
    }),
    ("inode 0", |j| j.tag_word(INODE, 4, 0)),
    ("inode that does not exist", |j| {
        j.tag_word(INODE, 4, 1 << 30);
    }),
    ("name in a directory that does not exist", |j| {
        j.tag_word(CREATE, 4, 1 << 30);
    }),
    ("name in directory 0", |j| j.tag_word(CREATE, 4, 0)),
    ("name of an inode that does not exist", |j| {
        j.tag_word(CREATE, 8, 1 << 30);
    }),
    ("name of inode 0", |j| j.tag_word(CREATE, 8, 0)),
    ("name in a directory not in use", |j| {
        j.tag_word(CREATE, 4, 2000);
    }),
    ("name in a file", |j| {
        let file = j.tag(INODE, true) + 4;
        let ino = u32::from_le_bytes(j.image[file..file + 4].try_into().expect("four bytes"));
        j.tag_word(CREATE, 4, ino);
    }),
    ("link in a directory that does not exist", |j| {
        let at = j.tag(CREATE, false);
        j.image[at] = 4;
        j.put_le(at + 4, 1 << 30);
        j.set_fast_commit_checksums();
    }),
    ("link of inode 0", |j| {
        let at = j.tag(CREATE, false);
        j.image[at] = 4;
        j.put_le(at + 8, 0);
        j.set_fast_commit_checksums();
    }),
    ("removal in a directory that does not exist", |j| {
        let at = j.tag(CREATE, false);
        j.image[at] = 5;
        j.put_le(at + 4, 1 << 30);
        j.set_fast_commit_checksums();
    }),
    ("removal of inode 0", |j| {
        let at = j.tag(CREATE, false);
        j.image[at] = 5;
        j.put_le(at + 8, 0);
        j.set_fast_commit_checksums();
    }),
    ("name removed that is not there", |j| {
        let at = j.tag(CREATE, false);
        let len = u32::from(j.half(at + 2)) << 16;
        j.put_le(at, len | u32::from(UNLINK));
        j.set_fast_commit_checksums();
    }),
];

/// Inserts a slash into the first name that a fast commit logs.
pub fn put_slash(j: &mut JournalBytes) {
    let at = j.tag(CREATE, false);
    j.image[at + 13] = b'/';
    j.set_fast_commit_checksums();
}

/// Maps the logged ranges that start at these file blocks to blocks outside the file system.
pub fn move_ranges_outside(j: &mut JournalBytes, starts: &[u32]) {
    for (code, at) in j.tags.clone() {
        let start = u32::from_le_bytes(j.image[at + 8..at + 12].try_into().expect("four bytes"));
        if code == ADD_RANGE && starts.contains(&start) {
            j.put_le(at + 16, (1 << 30) + 100 * start);
        }
    }
    j.set_fast_commit_checksums();
}
