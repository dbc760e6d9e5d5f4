//! File content: every size, holes, unwritten extents, fragments.

use super::Tree;
use super::builder::Builder;
use crate::error::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};
use std::path::Path;

/// Sizes near those of inodes, blocks and pages.
const SIZES: [usize; 26] = [
    0, 1, 4, 59, 60, 61, 100, 128, 150, 156, 160, 200, 700, 900, 1023, 1024, 1025, 2048, 4095,
    4096, 4097, 12_288, 12_289, 16_384, 65_535, 65_537,
];

/// Files without holes, of many sizes.
pub(super) fn sizes(builder: &mut Builder, tree: &Tree) -> Result<()> {
    builder.folder("sizes")?;
    for len in SIZES {
        if u64::try_from(len).is_ok_and(|len| len <= tree.largest_bytes) {
            builder.file(&builder.path(format!("sizes/{len}")), len)?;
        }
    }
    let path = builder.path("sizes/largest");
    let file = builder.create(&path)?;
    let mut offset_bytes = 0;
    while offset_bytes < tree.largest_bytes {
        let len = (tree.largest_bytes - offset_bytes).min(1 << 20);
        builder.write(
            &file,
            &path,
            usize::try_from(len).unwrap_or(0),
            offset_bytes,
        )?;
        offset_bytes += len;
    }
    Ok(())
}

/// Files with holes, up to offsets far above 4 GiB.
pub(super) fn sparse(builder: &mut Builder) -> Result<()> {
    builder.folder("sparse")?;
    let tables: [(&str, u64, &[u64]); 7] = [
        ("all-hole", 1 << 20, &[]),
        ("hole-then-data", 300_000, &[299_000]),
        ("data-then-hole", 300_000, &[0]),
        ("odd-end", 123_457, &[50_000, 100_001]),
        // Each level of the block map, for blocks of 1, 2 and 4 KiB.
        (
            "levels",
            3 << 30,
            &[
                0,
                11_000,
                50_000,
                300_000,
                700_000,
                3_000_000,
                70_000_000,
                600_000_000,
                3_000_000_000,
            ],
        ),
        (
            "above-4g",
            (5 << 30) + 77,
            &[0, (4 << 30) - 1000, (5 << 30) - 3],
        ),
        ("far", (1 << 40) + 5, &[1 << 32, 1 << 40]),
    ];
    for (name, len_bytes, data_at) in tables {
        let path = builder.path(format!("sparse/{name}"));
        let file = builder.create(&path)?;
        let fits = builder.size(&file, &path, len_bytes)?;
        for &offset_bytes in data_at.iter().filter(|_| fits) {
            let len = (len_bytes - offset_bytes).min(2000);
            builder.write(
                &file,
                &path,
                usize::try_from(len).unwrap_or(0),
                offset_bytes,
            )?;
        }
    }
    Ok(())
}

/// Blocks that are allocated but were never written: they read as zeros, and may be reported as data or
/// as a hole.
pub(super) fn unwritten(builder: &mut Builder) -> Result<()> {
    builder.folder("unwritten")?;
    let path = builder.path("unwritten/all");
    let file = builder.create(&path)?;
    let plain = FallocateFlags::empty();
    if !builder.attempt("fallocate", fallocate(&file, plain, 0, 400_000))? {
        return Ok(());
    }
    let path = builder.path("unwritten/middle-written");
    let file = builder.create(&path)?;
    builder.attempt("fallocate", fallocate(&file, plain, 0, 400_000))?;
    builder.write(&file, &path, 30_000, 100_000)?;

    let path = builder.path("unwritten/behind-the-end");
    let file = builder.file(&path, 10_000)?;
    builder.attempt(
        "fallocate",
        fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 300_000),
    )?;

    let path = builder.path("unwritten/with-holes");
    let file = builder.create(&path)?;
    for number in 0..20 {
        let start = number * 200_000;
        builder.attempt("fallocate", fallocate(&file, plain, start, 70_000))?;
        builder.write(&file, &path, 5000, start + 140_000)?;
    }
    let path = builder.path("unwritten/punched");
    let file = builder.file(&path, 200_000)?;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    builder.attempt("punch", fallocate(&file, punch, 40_000, 90_000))?;
    // Blocks past the end of the file, where fs-verity stores its metadata.
    let path = builder.path("verity/data");
    let file = std::fs::File::options()
        .write(true)
        .open(&path)
        .context("open", &path)?;
    builder.attempt(
        "fallocate",
        fallocate(&file, FallocateFlags::KEEP_SIZE, 10_000, 200_000),
    )?;
    Ok(())
}

/// A file with many extents, separated by holes, and two files whose blocks alternate.
pub(super) fn fragmented(builder: &mut Builder, tree: &Tree) -> Result<()> {
    builder.folder("fragmented")?;
    let path = builder.path("fragmented/comb");
    let file = builder.create(&path)?;
    for number in 0..u64::from(tree.fragments) {
        builder.write(&file, &path, 700, number * 8192)?;
    }
    let paths = [
        builder.path("fragmented/left"),
        builder.path("fragmented/right"),
    ];
    let files = [builder.create(&paths[0])?, builder.create(&paths[1])?];
    let rounds = u64::from(tree.fragments.min(400));
    for round in 0..rounds {
        for (file, path) in files.iter().zip(&paths) {
            // The block is allocated immediately if possible, and otherwise by the write and a sync.
            let start = round * 4096;
            let plain = FallocateFlags::empty();
            let allocated = builder.attempt("fallocate", fallocate(file, plain, start, 4096))?;
            builder.write(file, path, 4096, start)?;
            if !allocated && round < 20 {
                sync(file, path)?;
            }
        }
    }
    Ok(())
}

/// Two files of the same size, which may be given the same blocks.
pub(super) fn shared(builder: &mut Builder) -> Result<()> {
    builder.folder("shared")?;
    for name in ["shared/a", "shared/b"] {
        builder.file(&builder.path(name), 8000)?;
    }
    Ok(())
}

fn sync(file: &std::fs::File, path: &Path) -> Result<()> {
    rustix::fs::fdatasync(file).context("sync", path)
}
