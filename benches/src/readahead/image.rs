//! The image of the readahead benches: one big file, one file for each stream, and the table of a database.
//!
//! The files are written through the kernel's mount, one after the other, so that each file has few extents.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use larder_testkit::e2fsprogs::make_image;
use larder_testkit::{Access, LoopMount};

use crate::readahead::plan::Plan;
use crate::tree::{BIG_FILE, BIG_FILE_NUMBER, write_pages};

/// Returns the name of the file of stream `number`, in the root directory.
#[must_use]
pub fn stream_file(number: u32) -> String {
    format!("stream-{number:03}.bin")
}

/// Builds the image below `folder`, and returns its path. The directory `table` is moved to the image.
pub fn make(folder: &Path, plan: &Plan, table: Option<&Path>) -> Result<PathBuf> {
    let image = folder.join("readahead.ext4");
    let table_bytes = table.map_or(Ok(0), size_bytes)?;
    let content_bytes = plan.large_file_bytes
        + u64::from(plan.streams) * plan.stream_file_bytes
        + table_bytes
        + (64 << 20);
    let size_mib = (content_bytes + content_bytes / 16).div_ceil(1 << 20);
    let arguments = "-t ext4 -b 4096 -m 0 -E lazy_itable_init=0";
    make_image(&image, arguments, &format!("{size_mib}M"))?;
    let mount = LoopMount::new(&image, Access::ReadWrite, &[])?;
    let root = mount.path();
    let large_file = root.join(BIG_FILE);
    write_pages(&large_file, BIG_FILE_NUMBER, plan.large_file_bytes)?;
    for number in 0..plan.streams {
        let file = root.join(stream_file(number));
        write_pages(&file, number, plan.stream_file_bytes)?;
    }
    if let Some(table) = table {
        move_folder(table, &root)?;
    }
    mount.sync()?;
    Ok(image)
}

/// Returns the size of all files in `folder`, which has no directories.
fn size_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Moves `folder`, which has no directories, into the directory `root` of another file system.
fn move_folder(folder: &Path, root: &Path) -> Result<()> {
    let name = folder.file_name().context("a directory without a name")?;
    let copy = root.join(name);
    fs::create_dir(&copy)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        fs::copy(entry.path(), copy.join(entry.file_name()))?;
    }
    fs::remove_dir_all(folder)?;
    Ok(())
}
