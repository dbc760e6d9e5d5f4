//! The arguments and the help of `larder cache`.

use clap::{Args, Subcommand, ValueHint};
use larder_console::size;
use std::path::PathBuf;

/// List or remove cached parts of images at URLs
///
/// In a cache on disk, larder stores the parts of images that it has read from a server. The cache
/// takes at most 10G. Commands that read an image can set another limit with --cache-disk-size.
/// When the cache is full, larder removes the parts of the least recently used images that are not in
/// use, so prune and clear are rarely needed. Both remove only cached parts, never an image on a server,
/// and keep the parts of images that are in use.
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
    /// The directory of the disk cache; `None` for the default.
    // The help text is separate: in a doc comment, it would need backticks, which clap would show.
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        help = "Directory of the disk cache [default: $XDG_CACHE_HOME/larder]",
        long_help = "\
Directory of the disk cache [default: $XDG_CACHE_HOME/larder]

If XDG_CACHE_HOME is not set, the default is ~/.cache/larder."
    )]
    pub cache_dir: Option<PathBuf>,
}

/// List images with cached parts, the least recently used first
#[derive(Debug, Args)]
#[command(after_help = "\
JSON: stored_bytes (cached parts of all images), images [{image (the URL without
  secrets), size_bytes (of the image), stored_bytes (its cached parts),
  last_use_s (seconds since 1970), in_use}]. If the file that contains the cached
  parts is damaged, image and size_bytes are null.")]
pub(crate) struct CacheLsArgs {
    #[command(flatten)]
    pub directory: CacheDirArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Remove cached parts of images until at most SIZE is left
///
/// The parts of the least recently used images are removed first. The parts of images that are in
/// use are kept, even if they take more than SIZE.
#[derive(Debug, Args)]
pub(crate) struct CachePruneArgs {
    /// Maximum size of remaining parts (suffixes K, M, G, T)
    #[arg(value_name = "SIZE", value_parser = size::parse)]
    pub size: u64,
    #[command(flatten)]
    pub directory: CacheDirArgs,
}

/// Remove the cached parts of all images that are not in use
#[derive(Debug, Args)]
pub(crate) struct CacheClearArgs {
    #[command(flatten)]
    pub directory: CacheDirArgs,
}
