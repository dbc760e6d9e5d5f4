//! Variants of [`mbcache`](crate::mbcache) that a mount does not use by default.

pub(crate) mod clock;
mod lru;
pub(crate) mod old;

pub(crate) use lru::Lru;
