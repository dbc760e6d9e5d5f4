//! Attaches, finds and unmounts mounts.

pub(crate) mod attach;
mod fusermount;
pub(crate) mod info;
mod inherited;
pub(crate) mod unmount;
