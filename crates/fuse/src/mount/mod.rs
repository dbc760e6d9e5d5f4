//! Mounts: attaching, finding and unmounting them.

pub(crate) mod attach;
mod fusermount;
pub(crate) mod info;
pub(crate) mod unmount;
