//! The journal (jbd2): its superblock, and the blocks of its log.
//!
//! Layout, big-endian. Every block except copies of data starts with a header of three words: magic
//! number, block type, transaction. The superblock is the journal's first block. The log is
//! circular and starts at `s_first`:
//!
//! ```text
//! [descriptor: tags][data][data]...[descriptor]...[revoke]...[commit]  next transaction
//! ```
//!
//! A tag contains the home of one data block, which is its location in the file system. The size of
//! a tag depends on the features of the journal:
//!
//! | features | bytes | fields |
//! |---|---|---|
//! | none | 8 | home (4), 0 (2), flags (2) |
//! | 64bit | 12 | home (4), 0 (2), flags (2), home's high half (4) |
//! | `csum_v2` | 10 | home (4), checksum (2), flags (2), unused (2) |
//! | `csum_v2`, 64bit | 14 | home (4), checksum (2), flags (2), high half (4), unused (2) |
//! | `csum_v3` | 16 | home (4), flags (4), high half (4), checksum (4) |
//!
//! A UUID of 16 bytes follows each tag, unless a flag of the tag indicates that the UUID is the
//! same as that of the previous tag. With `csum_v2` and `csum_v3`, each descriptor and revoke block
//! ends with the CRC-32C of the block, and each commit block contains its CRC-32C.

mod block;
mod crc32;
mod encode;
mod header;
mod superblock;

pub use block::{BlockKind, Commit, Format, Tag, commit, log_block};
pub use crc32::Crc32;
pub(crate) use encode::looks_like_log;
pub use header::{Features, MAGIC, Tid};
pub use superblock::{JournalSuperblock, SUPERBLOCK_BYTES};
