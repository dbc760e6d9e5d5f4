//! The image: one big file, many small files, a chain of directories, and the files of the recorded starts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use larder_testkit::e2fsprogs::make_image_of;
use larder_testkit::{Random, Seed};

use crate::remote::plan::Plan;
use crate::remote::recorded::Start;
use crate::tree::{BIG_FILE, BIG_FILE_NUMBER, write_pages};

/// A file of one page at the root.
pub const TOP_FILE: &str = "top";
/// The folder of the small files.
pub const SMALL_FILES: &str = "tree";
/// The number of directories in the chain.
const CHAIN_FOLDERS: u32 = 5;
/// The number of files in each of these directories. With so many files, the inode of the next directory is far from
/// the inodes of the files in it.
const CHAIN_FILES: u32 = 300;
const SEED: Seed = Seed(0x1a4d_e4be);

/// An image, and what it contains.
#[derive(Clone, Debug)]
pub struct Image {
    /// The ext4 image.
    pub path: PathBuf,
    /// The number of names that `find` lists below [`SMALL_FILES`], including this directory.
    pub names: u64,
}

impl Image {
    /// Creates the files in `folder`, makes an image of them, and removes them.
    pub fn make(folder: &Path, plan: &Plan) -> Result<Self> {
        let source = folder.join("files");
        fs::create_dir_all(&source)?;
        write_pages(&source.join(BIG_FILE), BIG_FILE_NUMBER, plan.big_file_bytes)?;
        write_pages(&source.join(TOP_FILE), 0, 4096)?;
        let mut random = Random::new(SEED);
        for folder in 0..plan.folders {
            let folder = source.join(SMALL_FILES).join(format!("folder-{folder:03}"));
            small_files(&folder, plan.files_each, &mut random)?;
        }
        for depth in 1..=CHAIN_FOLDERS {
            small_files(&source.join(chain(depth)), CHAIN_FILES, &mut random)?;
        }
        let mut content_bytes = plan.big_file_bytes;
        for start in Start::ALL {
            for (number, (path, size)) in (0..).zip(start.recorded().files) {
                let path = source.join(start.name()).join(path);
                fs::create_dir_all(path.parent().context("the path has a folder")?)?;
                write_pages(&path, number, size)?;
                content_bytes += size;
            }
        }
        let path = folder.join("disk.img");
        let files = plan.files() + CHAIN_FILES * CHAIN_FOLDERS;
        content_bytes += u64::from(files) * (20 << 10);
        let size_mib = (content_bytes + content_bytes / 8).div_ceil(1 << 20) + 64;
        let arguments = format!("-t ext4 -b 4096 -m 0 -N {}", files * 5 / 4 + 2_000);
        make_image_of(&source, &path, &arguments, &format!("{size_mib}M"))?;
        fs::remove_dir_all(&source)?;
        Ok(Self {
            path,
            names: u64::from(plan.files() + plan.folders) + 1,
        })
    }
}

/// Returns the path of the directory at `depth` of the chain, from 1 on.
fn chain(depth: u32) -> PathBuf {
    (1..=depth).map(|depth| format!("chain-{depth}")).collect()
}

/// Returns the paths of the chain from the second directory on, each one component longer than the one before.
pub(super) fn chain_paths() -> Vec<PathBuf> {
    (2..=CHAIN_FOLDERS).map(chain).collect()
}

/// Returns the path of small file `number`.
pub(super) fn small_file(plan: &Plan, number: u32) -> PathBuf {
    let (folder, file) = (number / plan.files_each, number % plan.files_each);
    PathBuf::from(format!("{SMALL_FILES}/folder-{folder:03}/item-{file:05}"))
}

fn small_files(folder: &Path, count: u32, random: &mut Random) -> Result<()> {
    fs::create_dir_all(folder)?;
    for number in 0..count {
        let size = 1 + usize::try_from(random.below(16 << 10))?;
        fs::write(folder.join(format!("item-{number:05}")), random.bytes(size))?;
    }
    Ok(())
}
