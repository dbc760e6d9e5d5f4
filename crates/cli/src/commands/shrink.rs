//! The command `larder shrink`: makes an image as small as its content permits.
//!
//! resize2fs shrinks the file system. It moves blocks and inodes, and rewrites mappings, directories and the metadata of all
//! groups. The same in Larder would be thousands of lines that change every structure on the disk, for a task that is rare.
//!
//! # Safety
//! An interrupted resize2fs leaves a file system that cannot be used. Therefore it works on a copy:
//!
//! 1. The image is locked for writing until the end.
//! 2. It is copied to a temporary file in the same directory. The two files share blocks if the host supports that.
//!    Otherwise holes are not copied.
//! 3. e2fsck checks the copy, which is refused if there is anything to repair. Without this check, resize2fs refuses a file
//!    system that was mounted since the last one.
//! 4. resize2fs shrinks the copy, the file is truncated after the file system, and e2fsck checks the result.
//! 5. The copy gets the owner and the permissions of the image. When it is durable, it is renamed to the image.
//!
//! So the name of the image always refers to the old image or to the new one, each of them complete. The price is the space
//! for the copy.

use super::e2fsprogs::{Tools, not_clean, truncate};
use super::unfinished;
use crate::args::{ImageArgs, ShrinkArgs, VolumeArgs};
use crate::failure::{self, Access};
use crate::opening::{self, Content};
use crate::{contents, progress, remote};
use indicatif::ProgressBar;
use larder::fs::copy::data_run;
use larder::{Info, JournalState};
use larder_block::{FileDevice, FileRange};
use larder_console::{Failure, Result, name, size};
use larder_image::quoted;
use rustix::fs::ioctl_ficlone;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use tempfile::NamedTempFile;

/// The beginning of the name of the copy.
const PREFIX: &str = ".larder-shrink-";
/// The length of the parts after which the progress of the copy is shown, in bytes.
const PART_BYTES: u64 = 1 << 20;

pub(super) fn run(args: &ShrinkArgs) -> Result<ExitCode> {
    let info = examine(&args.image)?;
    let blocks = args.size.map(|bytes| blocks(&info, bytes)).transpose()?;
    let tools = Tools::find("shrink", None)?;
    let shown = name::escaped(args.image.as_os_str().as_bytes());
    let failed = |error: io::Error| Failure::new(format!("{shown}: {error}"));
    let image = fs::canonicalize(&args.image).map_err(failed)?;
    let _locked = FileDevice::open_writable(&image, FileRange::default())
        .map_err(|error| failure::of_image(&args.image, 0, Access::Write, &error.into()))?;
    let old = fs::metadata(&image).map_err(failed)?;
    let copy = copied(&image)?;
    tools.check(&copy, &args.image)?;
    tools.shrink(&copy, &args.image, blocks)?;
    let new_bytes = truncate(&copy)?;
    tools.check(&copy, &args.image)?;
    if new_bytes >= old.len() {
        let size = size::human(old.len());
        writeln!(io::stdout(), "{shown} is as small as possible: {size}")?;
        return Ok(ExitCode::SUCCESS);
    }
    replace(&image, &old, copy)
        .map_err(|error| Failure::new(format!("cannot replace {shown} by its copy: {error}")))?;
    let (old, new) = (size::human(old.len()), size::human(new_bytes));
    writeln!(io::stdout(), "shrank {shown} from {old} to {new}")?;
    Ok(ExitCode::SUCCESS)
}

/// Describes the file system of `image`.
///
/// # Errors
/// If the image is not a local raw image of a clean file system.
fn examine(image: &Path) -> Result<Info> {
    let path = image.display();
    if remote::is_remote(image) {
        return Err(Failure::with_hint(
            format!("image {path} is not local, and is never changed in place"),
            "download the image, and shrink the local file",
        ));
    }
    if fs::metadata(image).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return Err(Failure::with_hint(
            format!("{path} is not a file, so its size cannot change"),
            format!(
                "resize2fs -M {} shrinks only its file system",
                quoted(&path.to_string())
            ),
        ));
    }
    let opened = opening::open_any(&ImageArgs {
        volume: VolumeArgs::default(),
        image: image.to_owned(),
    })?;
    if let Some(disk) = opened.disk {
        return Err(contents::not_writable(image, disk));
    }
    let info = match opened.content {
        Content::Volume(volume) => volume.info(),
        Content::Other(found) if found.table().is_none() => {
            return Err(contents::not_ext(image, None, &found));
        }
        Content::OnlyPartition { .. } | Content::Other(_) => {
            return Err(Failure::with_hint(
                format!("{path} has partitions, whose table would have to change, too"),
                format!(
                    "copy the file system to a file of its own, and shrink this file; larder info {} shows where it is",
                    quoted(&path.to_string())
                ),
            ));
        }
    };
    let is_replayed = matches!(info.journal, JournalState::Recovered { .. });
    if !opened.is_in_use && (!info.clean || is_replayed) {
        return Err(not_clean(image, "was not unmounted, or has errors"));
    }
    Ok(info)
}

/// Returns the number of blocks of a file system of `size_bytes`.
///
/// # Errors
/// If the present file system is not larger.
fn blocks(info: &Info, size_bytes: u64) -> Result<u64> {
    let block_bytes = u64::from(info.block_size_bytes);
    let blocks = size_bytes / block_bytes;
    if blocks >= info.blocks {
        let size = size::human(info.blocks.saturating_mul(block_bytes));
        return Err(Failure::with_hint(
            format!("the file system is not larger than --size: it has {size}"),
            "give a smaller --size, or omit it for the smallest image",
        ));
    }
    Ok(blocks)
}

/// Returns a copy of `image` in the same directory.
fn copied(image: &Path) -> Result<NamedTempFile> {
    let directory = image.parent().unwrap_or(Path::new("/"));
    let copy = || {
        let copy = unfinished::create_private(image, PREFIX)?;
        let source = File::open(image)?;
        if ioctl_ficlone(copy.as_file(), &source).is_err() {
            let metadata = source.metadata()?;
            let stored_bytes = metadata.blocks().saturating_mul(512);
            let progress = progress::bar(|| metadata.len().min(stored_bytes));
            let copied = copy_content(&source, copy.as_file(), &progress);
            progress.finish_and_clear();
            copied?;
        }
        Ok(copy)
    };
    copy().map_err(|error: io::Error| {
        let directory = name::escaped(directory.as_os_str().as_bytes());
        Failure::with_hint(
            format!("cannot copy the image in {directory}: {error}"),
            "the copy is necessary so that an interruption cannot damage the image",
        )
    })
}

/// Copies the content of `source` to the empty file `copy`. Holes stay holes.
fn copy_content(mut source: &File, mut copy: &File, progress: &ProgressBar) -> io::Result<()> {
    let len_bytes = source.metadata()?.len();
    copy.set_len(len_bytes)?;
    let mut at_bytes = 0;
    while at_bytes < len_bytes {
        let Some(run) = data_run(source, at_bytes, len_bytes)? else {
            break;
        };
        source.seek(SeekFrom::Start(run.start))?;
        copy.seek(SeekFrom::Start(run.start))?;
        let mut left_bytes = run.end - run.start;
        while left_bytes > 0 {
            let part_bytes = left_bytes.min(PART_BYTES);
            if io::copy(&mut source.take(part_bytes), &mut copy)? < part_bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            progress.inc(part_bytes);
            left_bytes -= part_bytes;
        }
        at_bytes = run.end;
    }
    Ok(())
}

/// Replaces `image`, which has the attributes `old`, by `copy`.
fn replace(image: &Path, old: &fs::Metadata, copy: NamedTempFile) -> io::Result<()> {
    unfinished::keep_attributes(copy.as_file(), old)?;
    copy.as_file().sync_all()?;
    copy.persist(image)?;
    File::open(image.parent().unwrap_or(Path::new("/")))?.sync_all()
}
