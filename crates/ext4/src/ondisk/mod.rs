//! The codec: bytes to values, no I/O.

pub mod acl;
pub mod checksum;
pub mod dir;
pub mod dx;
pub mod fast_commit;
pub mod features;
pub mod group;
pub mod hash;
pub mod inode;
pub mod jbd2;
pub mod superblock;
pub mod time;
pub mod xattr;
