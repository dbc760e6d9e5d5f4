//! Eviction of an image from the host's page cache, without the privilege to drop all caches.
//!
//! fsync(2) writes the dirty pages. Then `posix_fadvise(DONTNEED)` for the whole file drops each clean page
//! that is not in use. All mounts of the image must have ended. fincore(1) checks the result without side
//! effects: a trial read, even a nonblocking one, would start the kernel's readahead.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use larder_testkit::tool::{self, Tool};
use rustix::fs::Advice;

/// The maximum size of the cached pages of an image that counts as cold.
const COLD_BYTES: u64 = 1 << 20;

/// Drops `image` from the page cache. If fincore is installed, also checks that the image is cold.
pub fn make_cold(image: &Path) -> Result<()> {
    evict(image)?;
    let left_bytes = resident_bytes(image)?.unwrap_or(0);
    ensure!(
        left_bytes <= COLD_BYTES,
        "{left_bytes} bytes of the image are still cached after the eviction"
    );
    Ok(())
}

/// Drops `image` from the page cache.
pub fn evict(image: &Path) -> Result<()> {
    let file = File::open(image).with_context(|| format!("cannot open {}", image.display()))?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// Returns the number of bytes of `image` in the page cache, or `None` if fincore is not installed.
pub fn resident_bytes(image: &Path) -> Result<Option<u64>> {
    if tool::find("fincore").is_none() {
        return Ok(None);
    }
    let text = Tool::new("fincore")
        .args(["-b", "-n", "-o", "RES"])
        .arg(image)
        .run()?;
    Ok(Some(text.trim().parse().with_context(|| {
        format!("unexpected output of fincore: {text:?}")
    })?))
}
