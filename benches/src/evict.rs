//! Getting an image out of the host's page cache, with no right to drop all caches.
//!
//! Model: sync, then `posix_fadvise(DONTNEED)` over the whole file, which drops each page that is
//! clean and that nobody uses. Whoever had the image mounted must be gone by then. Whether it
//! worked is asked of fincore(1), which only looks: to try a read that must not block would set
//! off the kernel's readahead.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use larder_testkit::tool::{self, Tool};
use rustix::fs::Advice;

/// Drops `image` from the page cache.
pub fn evict(image: &Path) -> Result<()> {
    let file = File::open(image).with_context(|| format!("open {}", image.display()))?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// The bytes of `image` that are in the page cache; `None` where fincore is not installed.
pub fn resident_bytes(image: &Path) -> Result<Option<u64>> {
    if tool::find("fincore").is_none() {
        return Ok(None);
    }
    let text = Tool::new("fincore")
        .args(["-b", "-n", "-o", "RES"])
        .arg(image)
        .run()?;
    Ok(Some(
        text.trim()
            .parse()
            .with_context(|| format!("fincore said {text:?}"))?,
    ))
}
