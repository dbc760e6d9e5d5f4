//! The image of the readahead benches: one large file, and one file for each stream.
//!
//! The kernel writes it through its own mount, one file after the other, so that each lies in few
//! pieces. Each page begins with a number that only its file and index determine.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use larder_testkit::seed::mix;
use larder_testkit::tool::Tool;
use larder_testkit::{Access, LoopMount, Random, Seed};

use crate::readahead::plan::Plan;
use crate::tree::PAGE_BYTES;

/// The large file, at the root.
pub const LARGE_FILE: &str = "large.bin";

/// The number of the large file; streams are numbered from 0.
pub const LARGE_FILE_NUMBER: u32 = u32::MAX;

const SEED: Seed = Seed(0x7ead_a4ed);

/// The file of stream `number`, at the root.
#[must_use]
pub fn stream_file(number: u32) -> String {
    format!("stream-{number:03}.bin")
}

/// The first eight bytes of page `page` of file `number`.
#[must_use]
pub fn page_word(number: u32, page: u64) -> u64 {
    mix(mix(SEED.0 ^ u64::from(number)) ^ page)
}

/// How many of the pages in `bytes`, the first of which is page `page` of file `number`, do not
/// hold what was written there.
#[must_use]
pub fn wrong_pages(bytes: &[u8], number: u32, page: u64) -> u64 {
    let is_wrong = |(index, bytes): &(u64, &[u8])| {
        bytes.first_chunk() != Some(&page_word(number, *index).to_le_bytes())
    };
    let pages = (page..).zip(bytes.chunks(PAGE_BYTES));
    pages.filter(is_wrong).count() as u64
}

/// Makes the image below `folder`, and returns its path.
pub fn make(folder: &Path, plan: &Plan) -> Result<PathBuf> {
    let image = folder.join("readahead.ext4");
    let content_bytes =
        plan.large_file_bytes + u64::from(plan.streams) * plan.stream_file_bytes + (64 << 20);
    let size_mib = (content_bytes + content_bytes / 16).div_ceil(1 << 20);
    Tool::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0"])
        .args(["-E", "lazy_itable_init=0"])
        .arg(&image)
        .arg(format!("{size_mib}M"))
        .run()?;
    let mount = LoopMount::new(&image, Access::ReadWrite, &[])?;
    let root = mount.path();
    write(
        &root.join(LARGE_FILE),
        LARGE_FILE_NUMBER,
        plan.large_file_bytes,
    )?;
    for number in 0..plan.streams {
        write(
            &root.join(stream_file(number)),
            number,
            plan.stream_file_bytes,
        )?;
    }
    mount.sync()?;
    Ok(image)
}

fn write(path: &Path, number: u32, size_bytes: u64) -> Result<()> {
    let mut page = Random::new(SEED).bytes(PAGE_BYTES);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for index in 0..size_bytes / PAGE_BYTES as u64 {
        page[..8].copy_from_slice(&page_word(number, index).to_le_bytes());
        file.write_all(&page)?;
    }
    let file = file.into_inner().context("write a file of the image")?;
    // On the device at once, so that its blocks are found together.
    file.sync_all()?;
    Ok(())
}

/// The size of `file`.
pub fn size_bytes(file: &Path) -> Result<u64> {
    Ok(fs::metadata(file)
        .with_context(|| format!("find {}", file.display()))?
        .len())
}
