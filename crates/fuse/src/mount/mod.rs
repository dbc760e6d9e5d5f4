//! Mounts: attaching one, finding one, taking one away.

pub(crate) mod attach;
mod fusermount;
pub(crate) mod info;
pub(crate) mod unmount;
