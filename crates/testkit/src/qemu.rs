//! The program qemu-img, which writes disk images.

use crate::error::Result;
use crate::tool::Tool;
use std::path::Path;

/// Writes the disk in the raw image `raw` to `image`, in `format`. `arguments` are further ones of `qemu-img convert`,
/// separated by blanks.
pub fn convert(raw: &Path, image: &Path, format: &str, arguments: &str) -> Result<()> {
    let convert = Tool::new("qemu-img").args(["convert", "-q", "-f", "raw", "-O", format]);
    let convert = convert.args(arguments.split_whitespace());
    convert.arg(raw).arg(image).run()?;
    Ok(())
}
