//! The files that every workload reads, and the images that contain them.
//!
//! There are one big file and many small files of 0 to 16 KiB. The small files are four directories deep,
//! [`FILES_PER_FOLDER`] per directory, so that each path has five components. Names, sizes and content
//! depend only on the plan. Each page of the big file begins with a number that the index of the page
//! determines, so that a reader can check each page on its own.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use larder_testkit::e2fsprogs::make_image_of;
use larder_testkit::seed::mix;
use larder_testkit::{Random, Seed, qemu, tool};

use crate::child;
use crate::plan::Plan;

/// The name of the big file, which is in the root directory.
pub const BIG_FILE: &str = "big.bin";

/// The number of the big file. Other files of an image have numbers from 0.
pub const BIG_FILE_NUMBER: u32 = u32::MAX;

/// The size of the pages in which files are read and checked.
pub const PAGE_BYTES: usize = 4096;

const FILES_PER_FOLDER: u32 = 100;
const SEED: Seed = Seed(0x1a4d_e4be);

/// The image and its contents.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The ext4 image.
    pub image: PathBuf,
    /// The squashfs archive, with the default compression of mksquashfs (gzip). It exists if mksquashfs
    /// is installed.
    pub squashfs: PathBuf,
    /// The image in the format qcow2. It exists if qemu-img is installed.
    pub qcow2: PathBuf,
    /// The number of names that `find` lists, including the root directory and `lost+found`.
    pub entries: u64,
    /// The size of the big file.
    pub big_file_bytes: u64,
    /// The path of one small file in each directory: five components, relative to the root.
    pub deep_paths: Vec<String>,
}

impl Tree {
    /// Creates the tree under `folder` and an image of it, then removes the tree.
    pub fn make(folder: &Path, plan: &Plan) -> Result<Self> {
        let source = folder.join("tree");
        let (folders, deep_paths) = make_small_files(&source, plan.files, 16 << 10)?;
        write_pages(&source.join(BIG_FILE), BIG_FILE_NUMBER, plan.big_file_bytes)?;
        let image = folder.join("image.ext4");
        make_image(&source, &image, plan)?;
        let squashfs = folder.join("image.squashfs");
        if let Ok(mksquashfs) = child::find("mksquashfs") {
            make_squashfs(&mksquashfs, &source, &squashfs)?;
        }
        let qcow2 = folder.join("image.qcow2");
        if tool::find("qemu-img").is_some() {
            qemu::convert(&image, &qcow2, "qcow2", "")?;
        }
        fs::remove_dir_all(&source)?;
        let own = 3; // the root, lost+found and the big file
        Ok(Self {
            image,
            squashfs,
            qcow2,
            entries: u64::from(plan.files) + folders + own,
            big_file_bytes: plan.big_file_bytes,
            deep_paths,
        })
    }
}

/// Archives `source`, with a directory `lost+found`, so that the archive has the same names as the image.
fn make_squashfs(mksquashfs: &Path, source: &Path, squashfs: &Path) -> Result<()> {
    fs::create_dir(source.join("lost+found"))?;
    let output = Command::new(mksquashfs)
        .args([source, squashfs])
        .args(["-noappend", "-no-progress", "-quiet"])
        .output()
        .context("run mksquashfs")?;
    let messages = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "mksquashfs: {}", messages.trim());
    Ok(())
}

/// Writes a file in which each page begins with a number that is determined by `file` and the index of
/// the page.
pub(crate) fn write_pages(path: &Path, file: u32, size_bytes: u64) -> Result<()> {
    // The rest of a page is the same in all pages: to create different content would take long, and the
    // results would be the same.
    let mut page = Random::new(SEED.part(1)).bytes(PAGE_BYTES);
    let mut written = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for index in 0..size_bytes / PAGE_BYTES as u64 {
        page[..8].copy_from_slice(&page_word(file, index));
        written.write_all(&page)?;
    }
    let written = written
        .into_inner()
        .context("cannot write a file of the image")?;
    // Sync immediately, so that the blocks of each file are allocated together.
    Ok(written.sync_all()?)
}

fn page_word(file: u32, page: u64) -> [u8; 8] {
    mix(mix(SEED.0 ^ u64::from(file)) ^ page).to_le_bytes()
}

/// Returns the number of pages in `bytes` that do not begin with the number that [`write_pages`] wrote.
/// `bytes` starts at page `page` of `file`.
#[must_use]
pub fn wrong_pages(bytes: &[u8], file: u32, page: u64) -> u64 {
    let pages = (page..).zip(bytes.chunks(PAGE_BYTES));
    pages
        .filter(|(index, bytes)| !bytes.starts_with(&page_word(file, *index)))
        .count() as u64
}

/// Returns the path of directory `number` of the small files, four levels deep.
pub(crate) fn folder_path(number: u32) -> String {
    let (top, second) = (number / 25, number / 5 % 5);
    format!(
        "area-{top:02}/hall-{second}/row-{}/shelf-{number:03}",
        number % 5
    )
}

/// Creates the small files, of less than `max_bytes` each. Returns the number of directories, and the path of a
/// file in each innermost directory.
pub(crate) fn make_small_files(
    root: &Path,
    files: u32,
    max_bytes: u64,
) -> Result<(u64, Vec<String>)> {
    let mut random = Random::new(SEED);
    let mut deep_paths = Vec::new();
    let mut folders = std::collections::BTreeSet::new();
    for number in 0..files {
        let folder = folder_path(number / FILES_PER_FOLDER);
        if number % FILES_PER_FOLDER == 0 {
            fs::create_dir_all(root.join(&folder))?;
            let parents = Path::new(&folder)
                .ancestors()
                .filter(|path| *path != Path::new(""));
            folders.extend(parents.map(Path::to_owned));
            deep_paths.push(format!("{folder}/item-{number:05}"));
        }
        let size = usize::try_from(random.below(max_bytes))?;
        fs::write(
            root.join(format!("{folder}/item-{number:05}")),
            random.bytes(size),
        )?;
    }
    Ok((folders.len() as u64, deep_paths))
}

fn make_image(source: &Path, image: &Path, plan: &Plan) -> Result<()> {
    let content_bytes = plan.big_file_bytes + u64::from(plan.files) * (20 << 10);
    let size_mib = (content_bytes + content_bytes / 4).div_ceil(1 << 20) + 64;
    let arguments = format!(
        "-t ext4 -b 4096 -L larder-bench -U 6c617264-6572-2d62-656e-636865730000 \
         -E hash_seed=6c617264-6572-2d73-6565-640000000000 -N {}",
        plan.files * 5 / 4 + 1_000,
    );
    Ok(make_image_of(
        source,
        image,
        &arguments,
        &format!("{size_mib}M"),
    )?)
}
