//! The programs of e2fsprogs: mke2fs makes images, debugfs reads and changes them, and e2fsck checks
//! them.

use crate::error::{Context, Error, Result};
use crate::mount::Access;
use crate::tool::{self, Tool};
use larder_instruments::mke2fs::mke2fs;
use std::path::Path;
use std::time::SystemTime;

/// The UUID of reproducible images.
pub(crate) const UUID: &str = "6c617264-6572-4000-8000-746573746b69";

/// Returns mke2fs as [`mke2fs`] does, but with a fixed configuration and hash seed, so that the result does
/// not depend on the machine or on chance. The configuration is written to `folder`. `extended` are
/// additional options for `-E`.
pub(crate) fn repeatable_mke2fs(arguments: &str, extended: &str, folder: &Path) -> Result<Tool> {
    const FIXED: &str = "hash_seed=68617368-2073-4565-9400-6f6620746573,\
                         lazy_itable_init=1,lazy_journal_init=1";
    let configuration = folder.join("mke2fs.conf");
    let text = include_str!("mke2fs.conf");
    std::fs::write(&configuration, text).context("write", &configuration)?;
    let tool = mke2fs(arguments).env("MKE2FS_CONFIG", &configuration);
    Ok(tool.arg("-E").arg(format!("{FIXED},{extended}")))
}

/// Creates a file system of `size`, such as `20M`, in the file `image`.
pub fn make_image(image: &Path, arguments: &str, size: &str) -> Result<()> {
    mke2fs(arguments).arg(image).arg(size).run()?;
    Ok(())
}

/// Creates a file system as [`make_image`] does, with a copy of the files in `tree`.
pub fn make_image_of(tree: &Path, image: &Path, arguments: &str, size: &str) -> Result<()> {
    let mke2fs = mke2fs(arguments).arg("-d").arg(tree);
    mke2fs.arg(image).arg(size).run()?;
    Ok(())
}

/// Returns the bytes of a file system that [`make_image`] creates.
pub fn new_image(arguments: &str, size: &str) -> Result<Vec<u8>> {
    on_file(&[], |image| {
        make_image(image, arguments, size)?;
        std::fs::read(image).context("read", image)
    })
}

/// Calls `work` with a temporary file that holds `bytes`.
pub fn on_file<R>(bytes: &[u8], work: impl FnOnce(&Path) -> Result<R>) -> Result<R> {
    let folder = std::env::temp_dir();
    let file = tempfile::NamedTempFile::new().context("create a file in", &folder)?;
    std::fs::write(file.path(), bytes).context("write", file.path())?;
    work(file.path())
}

/// Returns e2fsck with `arguments`, separated by spaces; the caller adds the image. It uses the real
/// clock: with the fixed clock of the tools, Larder's timestamps would be in the future.
#[must_use]
pub fn e2fsck(arguments: &str) -> Tool {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    Tool::new("e2fsck")
        .env("E2FSPROGS_FAKE_TIME", (now + 1).to_string())
        .args(arguments.split_whitespace())
}

/// Fails if e2fsck would repair anything on `image`.
pub fn check(image: &Path) -> Result<()> {
    e2fsck("-fn").arg(image).run()?;
    Ok(())
}

/// Checks an image with these bytes, as [`check`] does.
pub fn check_bytes(bytes: &[u8]) -> Result<()> {
    on_file(bytes, check)
}

/// Returns the output of debugfs for a request that changes nothing.
pub fn debugfs(image: &Path, request: &str) -> Result<String> {
    let debugfs = Tool::new("debugfs").args(["-R", request]);
    Ok(debugfs.arg(image).run()?)
}

/// Runs the debugfs requests in `script`, one per line. Failed requests are not detected.
pub fn debugfs_script(image: &Path, access: Access, script: &str) -> Result<String> {
    on_file(script.as_bytes(), |script| {
        let mut debugfs = Tool::new("debugfs");
        if access == Access::ReadWrite {
            debugfs = debugfs.arg("-w");
        }
        Ok(debugfs.arg("-f").arg(script).arg(image).run()?)
    })
}

/// Runs debugfs requests that change `image`, one after the other.
///
/// debugfs exits with success even if a request fails. Therefore this function fails if debugfs prints errors
/// on standard error.
pub fn debugfs_write<S: AsRef<str>>(image: &Path, requests: &[S]) -> Result<()> {
    for request in requests {
        let request = request.as_ref();
        let debugfs = Tool::new("debugfs").args(["-w", "-R", request]);
        let messages = debugfs.arg(image).messages()?;
        let complaint = messages
            .lines()
            .find(|line| !line.starts_with("debugfs ") && !line.trim().is_empty());
        if let Some(complaint) = complaint {
            return Err(tool::Error {
                command: format!("debugfs -w -R '{request}' {}", image.display()),
                reason: complaint.to_owned(),
            }
            .into());
        }
    }
    Ok(())
}

/// Returns the superblock of `image` as dumpe2fs prints it.
pub fn superblock(image: &Path) -> Result<String> {
    Ok(Tool::new("dumpe2fs").arg("-h").arg(image).run()?)
}

/// Blocks and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Blocks.
    pub blocks: u64,
    /// Inodes.
    pub inodes: u64,
}

/// Returns the free blocks and inodes according to the superblock of `image`, which must not be mounted.
pub fn free_space(image: &Path) -> Result<Space> {
    let text = superblock(image)?;
    let count = |field: &str| {
        let number = text.lines().find_map(|line| line.strip_prefix(field));
        number
            .and_then(|number| number.trim().parse().ok())
            .ok_or_else(|| {
                Error::Inconsistent(format!(
                    "the output of dumpe2fs has no field `{field}`: {text}"
                ))
            })
    };
    Ok(Space {
        blocks: count("Free blocks:")?,
        inodes: count("Free inodes:")?,
    })
}
