//! The program sfdisk of util-linux, which writes partition tables.

use crate::e2fsprogs::on_file;
use crate::error::{Context, Result};
use crate::tool::Tool;
use std::fs::File;
use std::path::Path;

/// Writes the partition table that `script` describes to `disk`. Bytes outside of the table do not change.
pub fn write_table(disk: &Path, script: &str) -> Result<()> {
    on_file(script.as_bytes(), |script| {
        let input = File::open(script).context("open", script)?;
        let sfdisk =
            Tool::new("sfdisk").args(["--quiet", "--wipe=never", "--wipe-partitions=never"]);
        sfdisk.arg(disk).stdin(input).run()?;
        Ok(())
    })
}
