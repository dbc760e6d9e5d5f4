//! Attaches, finds and unmounts mounts.

pub(crate) mod attach;
mod fusermount;
pub(crate) mod info;
pub(crate) mod unmount;
