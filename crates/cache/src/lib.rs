//! The page, buffer, dentry and inode caches.

pub mod buffer;
