//! Creates the base images and the seeds of every target with mke2fs and debugfs, in `images/` and
//! `corpus/` beside this crate's manifest.
//!
//! The seeds of a parser are all structures of its kind in the images. If the kind of a block cannot be
//! recognized by a magic number, all blocks are seeds. The seeds of the other parsers are small
//! ([`small`]).

mod small;

use larder_block::{FileDevice, FileRange};
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{FileBlock, Filesystem, Ino, MappingKind};
use larder_fuzz::{BLOCK_BYTES, images};
use larder_testkit::Access;
use larder_testkit::e2fsprogs::{debugfs_script, debugfs_write, e2fsck, make_image_of};
use std::error::Error;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Image, size in KiB, arguments of mke2fs.
const IMAGES: [(&str, &str, &str); 5] = [
    ("ext2.img", "1024", "-t ext2 -O ^resize_inode -I 128"),
    (
        "ext4.img",
        "1024",
        "-t ext4 -O ^has_journal,^resize_inode,^metadata_csum,inline_data,ea_inode,large_dir",
    ),
    (
        "checksums.img",
        "1024",
        "-t ext4 -O ^has_journal,^resize_inode",
    ),
    (
        "journal.img",
        "4096",
        "-t ext4 -O ^resize_inode,^metadata_csum -J size=1",
    ),
    (
        "fast-commit.img",
        "4096",
        "-t ext4 -O ^resize_inode,^metadata_csum,fast_commit -J size=1",
    ),
];

/// Blocks in the fast-commit area of `fast-commit.img`.
const FAST_COMMIT_BLOCKS: u32 = 16;

fn main() -> Result<()> {
    let tree = tempfile::tempdir()?;
    make_tree(tree.path())?;
    fs::create_dir_all(images())?;
    for (name, size_kib, arguments) in IMAGES {
        let path = images().join(name);
        make_image(&path, size_kib, arguments, tree.path())?;
        match name {
            "journal.img" => leave_transactions(&path, tree.path())?,
            "fast-commit.img" => leave_fast_commits(&path)?,
            _ => {}
        }
        make_seeds(name, &path)?;
    }
    // Each image, with four patches of a byte that has no meaning.
    for which in 0..3 {
        let patches = [0, 0xFF, 0x03, 0, 0, 0, 0, 0].repeat(4);
        let input = [&[which], patches.as_slice()].concat();
        seed("volume", &which.to_string(), &input)?;
    }
    small::make()?;
    seed(
        "access_control_list",
        "small",
        &[1, 0, 0, 0, 1, 0, 7, 0, 2, 0, 5, 0, 232, 3, 0, 0],
    )?;
    seed(
        "fast_commit_replay",
        "create",
        &[3, 0, 9, 0, 2, 0, 0, 0, 12, 0, 0, 0, b'x'],
    )
}

/// Creates files that need every kind of structure. Each written block of `large` and `sparse` has one byte that is not
/// zero, because blocks with more such bytes are treated as metadata.
fn make_tree(root: &Path) -> Result<()> {
    fs::write(root.join("inline"), [b'i'; 100])?;
    let large = fs::File::create(root.join("large"))?;
    for block in 0..280 {
        large.write_all_at(&[1], block * 1024)?;
    }
    large.set_len(280 * 1024)?;
    let sparse = fs::File::create(root.join("sparse"))?;
    for block in 0..30 {
        sparse.write_all_at(&[1], block * 8192)?;
    }
    let names = root.join("names");
    fs::create_dir(&names)?;
    for number in 0..60 {
        let name = format!("{number}-{}", "n".repeat(60));
        fs::hard_link(root.join("inline"), names.join(name))?;
    }
    fs::create_dir(root.join("few"))?;
    fs::write(root.join("few/one"), [])?;
    std::os::unix::fs::symlink("inline", root.join("short"))?;
    std::os::unix::fs::symlink("t".repeat(100), root.join("long"))?;
    Ok(())
}

/// The UUID of every image, also used as the seed of its hashes.
const UUID: &str = "11111111-2222-3333-4444-555555555555";

fn make_image(path: &Path, size_kib: &str, arguments: &str, tree: &Path) -> Result<()> {
    let _ = fs::remove_file(path);
    let arguments = format!("-b 1024 -N 64 -m 0 -U {UUID} -E hash_seed={UUID} {arguments}");
    make_image_of(tree, path, &arguments, size_kib)?;
    let mut value = tempfile::NamedTempFile::new()?;
    value.write_all(&[b'v'; 200])?;
    let long = format!("ea_set -f {} /sparse user.long", value.path().display());
    debugfs_write(
        path,
        &["ea_set /inline user.a b", "ea_set /sparse user.c d", &long],
    )?;
    // Builds the index of the directory of names.
    e2fsck("-fyD").accept(1).arg(path).run()?;
    Ok(())
}

/// Leaves two transactions in the journal that were not written to their final blocks.
fn leave_transactions(path: &Path, dir: &Path) -> Result<()> {
    let block = dir.join("block");
    fs::write(&block, [b'j'; BLOCK_BYTES])?;
    let block = block.display();
    let text = format!("jo\njw -b 1500 {block}\njw -r 1501\njw -b 1502 {block}\njc\n");
    debugfs_script(path, Access::ReadWrite, &text)?;
    Ok(())
}

/// Leaves an empty log before an area of fast commits, which the targets fill. The offset of the area,
/// in bytes, is stored in `fast-commit.area`.
fn leave_fast_commits(path: &Path) -> Result<()> {
    debugfs_write(path, &["feature needs_recovery"])?;
    let fs = open(path)?;
    let journal = fs.inode(fs.superblock().journal_ino)?;
    let offset_bytes = |block: u32| -> Result<u64> {
        match fs.map(&journal, FileBlock(block), 1)?.kind {
            MappingKind::Written(block) => Ok(block.0 * BLOCK_BYTES as u64),
            other => Err(format!("journal block {block}: {other:?}").into()),
        }
    };
    let blocks = u32::try_from(journal.size_bytes() / BLOCK_BYTES as u64)?;
    let image = fs::File::options().write(true).open(path)?;
    let start = offset_bytes(0)?;
    // Transaction 1 would start at block 1, but does not exist.
    for (at, word) in [
        (0x18, 1),
        (0x1C, 1),
        (0x28, 0x20),
        (0x54, FAST_COMMIT_BLOCKS),
    ] {
        image.write_all_at(&u32::to_be_bytes(word), start + at)?;
    }
    let area = offset_bytes(blocks - FAST_COMMIT_BLOCKS + 1)?;
    fs::write(images().join("fast-commit.area"), area.to_string())?;
    Ok(())
}

fn open(path: &Path) -> Result<Filesystem> {
    let device = Arc::new(FileDevice::open(path, FileRange::default())?);
    let sb = Superblock::read(&*device)?;
    let buffers = larder_cache::buffer::BufferCache::small(device, BLOCK_BYTES);
    Ok(Filesystem::new(sb, Arc::new(buffers), None))
}

fn make_seeds(image: &str, path: &Path) -> Result<()> {
    let bytes = fs::read(path)?;
    let superblock = &bytes[1024..2048];
    seed("superblock", image, superblock)?;
    seed(
        "group_descriptor",
        image,
        &[superblock, &bytes[2048..2112]].concat(),
    )?;
    let fs = open(path)?;
    for ino in 1..=fs.superblock().inodes_count {
        let Ok(inode) = fs.inode(Ino(ino)) else {
            continue;
        };
        let raw = fs.inode_bytes(Ino(ino))?;
        let name = format!("{image}-{ino}");
        seed("inode", &name, &[superblock, &raw].concat())?;
        seed("extent_node", &name, inode.i_block())?;
        seed("indirect_block", &name, inode.i_block())?;
        let after_core = 128 + usize::from(inode.extra_isize());
        seed(
            "attributes_in_inode",
            &name,
            raw.get(after_core..).unwrap_or_default(),
        )?;
        let logged = [&[6, 0, 132, 0], &ino.to_le_bytes()[..], &raw[..128]].concat();
        seed("fast_commit_tags", &name, &logged)?;
        seed("fast_commit_replay", &name, &logged)?;
    }
    for (index, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        if block.iter().filter(|&&byte| byte != 0).count() > 1 {
            block_seeds(&format!("{image}-{index}"), block)?;
        }
    }
    Ok(())
}

fn block_seeds(name: &str, block: &[u8]) -> Result<()> {
    match block {
        [0x0A, 0xF3, ..] => seed("extent_node", name, block),
        [0, 0, 2, 0xEA, ..] => {
            seed("attributes_in_block", name, block)?;
            seed(
                "attributes_shared",
                name,
                &[&[3, 0, 0, 0], block, block].concat(),
            )
        }
        [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, kind, ..] => {
            let target = match kind {
                1 => "journal_descriptor",
                2 => "journal_commit",
                5 => "journal_revoke",
                _ => return seed("journal_superblock", name, block),
            };
            for features in [0, 0x02, 0x12] {
                let name = format!("{name}-{features}");
                seed(target, &name, &[&[features], block].concat())?;
            }
            Ok(())
        }
        _ => {
            seed("hash_tree", name, block)?;
            seed("directory_block", name, block)?;
            seed("indirect_block", name, block)
        }
    }
}

fn seed(target: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    fs::create_dir_all(&corpus)?;
    fs::write(corpus.join(name), bytes)?;
    Ok(())
}
