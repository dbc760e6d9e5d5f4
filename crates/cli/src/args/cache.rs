//! The arguments and the help of `larder cache`.

use clap::{Args, Subcommand};
use larder_console::size;
use std::path::PathBuf;

/// List or remove cached parts of images at URLs
///
/// Parts of images that were read from a server are kept in a cache on disk. The cache is
/// limited by --cache-disk-size of the commands that read images, so it needs no care. An image
/// that is in use is not removed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder cache ls
  larder cache prune 2G
  larder cache clear --cache-dir /var/cache/larder")]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    Ls(CacheLsArgs),
    Prune(CachePruneArgs),
    Clear(CacheClearArgs),
}

/// The directory of a disk cache.
#[derive(Debug, Args)]
pub(crate) struct CacheDirArgs {
    /// Directory of the disk cache [default: ~/.cache/larder]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
}

/// List cached images, the least recently used first
#[derive(Debug, Args)]
#[command(after_help = "\
JSON: stored_bytes (of all images), images [{image (the URL without secrets; null
  if the file is damaged), size_bytes (null if the file is damaged), stored_bytes,
  last_use_s (seconds since 1970), in_use}]")]
pub(crate) struct CacheLsArgs {
    #[command(flatten)]
    pub directory: CacheDirArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Remove the least recently used images until the rest takes at most SIZE
#[derive(Debug, Args)]
pub(crate) struct CachePruneArgs {
    /// Maximum size of the rest (suffixes K, M, G, T)
    #[arg(value_name = "SIZE", value_parser = size::parse)]
    pub size: u64,
    #[command(flatten)]
    pub directory: CacheDirArgs,
}

/// Remove all images that are not in use
#[derive(Debug, Args)]
pub(crate) struct CacheClearArgs {
    #[command(flatten)]
    pub directory: CacheDirArgs,
}
