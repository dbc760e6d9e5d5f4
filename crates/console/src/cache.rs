//! The names of the caches as values of options.

use clap::ValueEnum;
use larder::CacheKind;

/// One of the four caches.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Cache {
    /// File pages
    Page,
    /// Metadata blocks
    Buffer,
    /// File names
    Dentry,
    /// Inodes
    Inode,
}

impl From<Cache> for CacheKind {
    fn from(cache: Cache) -> Self {
        match cache {
            Cache::Page => Self::Page,
            Cache::Buffer => Self::Buffer,
            Cache::Dentry => Self::Dentry,
            Cache::Inode => Self::Inode,
        }
    }
}
