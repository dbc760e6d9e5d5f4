//! Copies of images that preserve holes.

use crate::error::{Context, Result};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const CHUNK_BYTES: usize = 1 << 16;

/// Copies `from` to `to`, which is created or replaced. Holes and zeros become holes.
pub fn copy_sparse(from: &Path, to: &Path) -> Result<()> {
    let source = File::open(from).context("open", from)?;
    let target = File::create(to).context("create", to)?;
    let size_bytes = source.metadata().context("stat", from)?.len();
    target.set_len(size_bytes).context("truncate", to)?;
    let mut buf = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < size_bytes {
        let start = match seek(&source, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error).context("seek in", from),
        };
        let end = seek(&source, SeekFrom::Hole(start)).context("seek in", from)?;
        at = start;
        while at < end {
            let len = usize::try_from(end - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            let chunk = &mut buf[..len];
            source.read_exact_at(chunk, at).context("read", from)?;
            if chunk.iter().any(|&byte| byte != 0) {
                target.write_all_at(chunk, at).context("write", to)?;
            }
            at += len as u64;
        }
    }
    Ok(())
}
