//! Seekable zstd files, whose frames the program zstd compresses.

use crate::error::{Context, Result};
use crate::tool::Tool;
use std::fs;

/// Compresses `content` in frames of `frame_len` bytes, and adds a seek table, with fields for checksums if
/// `has_checksums`. The checksums in it are zero.
pub fn seekable(content: &[u8], frame_len: usize, has_checksums: bool) -> Result<Vec<u8>> {
    let dir = tempfile::tempdir().context("create", &std::env::temp_dir())?;
    let (plain, packed) = (dir.path().join("plain"), dir.path().join("packed"));
    let (mut bytes, mut table, mut frames) = (Vec::new(), Vec::new(), 0);
    for part in content.chunks(frame_len) {
        fs::write(&plain, part).context("write", &plain)?;
        let zstd = Tool::new("zstd").args(["-q", "-f"]).arg(&plain);
        zstd.arg("-o").arg(&packed).run()?;
        let frame = fs::read(&packed).context("read", &packed)?;
        table.extend(word(frame.len()));
        table.extend(word(part.len()));
        if has_checksums {
            table.extend(word(0));
        }
        bytes.extend(frame);
        frames += 1;
    }
    bytes.extend(word(0x184D_2A5E));
    bytes.extend(word(table.len() + 9));
    bytes.extend(table);
    bytes.extend(word(frames));
    bytes.push(if has_checksums { 0x80 } else { 0 });
    bytes.extend(word(0x8F92_EAB1));
    Ok(bytes)
}

fn word(number: usize) -> [u8; 4] {
    u32::try_from(number)
        .expect("a file of a test has less than 4 GiB")
        .to_le_bytes()
}
