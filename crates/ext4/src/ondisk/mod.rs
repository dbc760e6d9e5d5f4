//! The codec: bytes to values, no I/O.
pub mod hash;
pub mod acl;
pub mod dir;
pub mod dx;
pub mod xattr;
pub mod fast_commit;
pub mod jbd2;
