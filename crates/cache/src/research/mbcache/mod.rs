//! Variants of [`mbcache`](crate::mbcache) that a mount does not use by default.

pub(crate) mod clock;
pub(crate) mod old;
