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

use crate::args::{ImageArgs, ShrinkArgs, VolumeArgs};
use crate::failure::{self, Access};
use crate::opening::{self, Content};
use crate::{contents, programs, remote};
use larder::fs::copy::data_run;
use larder::{Info, JournalState, OpenOptions, Volume};
use larder_block::{FileDevice, FileRange};
use larder_console::{Failure, Result, name, size};
use larder_image::quoted;
use rustix::fs::ioctl_ficlone;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use tempfile::NamedTempFile;

/// The beginning of the name of the copy.
const PREFIX: &str = ".larder-shrink-";

pub(super) fn run(args: &ShrinkArgs) -> Result<ExitCode> {
    let info = examine(&args.image)?;
    let blocks = args.size.map(|bytes| blocks(&info, bytes)).transpose()?;
    let tools = Tools::find()?;
    let shown = name::escaped(args.image.as_os_str().as_bytes());
    let failed = |error: io::Error| Failure::new(format!("{shown}: {error}"));
    let image = fs::canonicalize(&args.image).map_err(failed)?;
    let _locked = FileDevice::open_writable(&image, FileRange::default())
        .map_err(|error| failure::of_image(&args.image, 0, Access::Write, &error.into()))?;
    let old = fs::metadata(&image).map_err(failed)?;
    let copy = copied(&image)?;
    tools.check(&copy, &args.image)?;
    tools.shrink(&copy, &args.image, blocks)?;
    let new_bytes = file_system_bytes(&copy)?;
    if new_bytes < copy.as_file().metadata()?.len() {
        copy.as_file().set_len(new_bytes)?;
    }
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

fn not_clean(image: &Path, why: &str) -> Failure {
    let path = image.display();
    Failure::with_hint(
        format!("the file system in {path} {why}"),
        format!("repair it first: e2fsck -f {}", quoted(&path.to_string())),
    )
}

/// Returns the number of blocks of a file system of `size_bytes`.
///
/// # Errors
/// If the file system is not larger.
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

/// Returns the size of the file system in `copy`.
fn file_system_bytes(copy: &NamedTempFile) -> Result<u64> {
    let volume = Volume::open(copy.path(), &OpenOptions::new())
        .map_err(|error| Failure::new(format!("{}: {error}", copy.path().display())))?;
    let info = volume.info();
    Ok(info.blocks.saturating_mul(info.block_size_bytes.into()))
}

/// Returns a copy of `image` in the same directory.
fn copied(image: &Path) -> Result<NamedTempFile> {
    let directory = image.parent().unwrap_or(Path::new("/"));
    let copy = || {
        let copy = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempfile_in(directory)?;
        let source = File::open(image)?;
        if ioctl_ficlone(copy.as_file(), &source).is_err() {
            copy_content(&source, copy.as_file())?;
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
fn copy_content(mut source: &File, mut copy: &File) -> io::Result<()> {
    let len_bytes = source.metadata()?.len();
    copy.set_len(len_bytes)?;
    let mut at_bytes = 0;
    while at_bytes < len_bytes {
        let Some(run) = data_run(source, at_bytes, len_bytes)? else {
            break;
        };
        source.seek(SeekFrom::Start(run.start))?;
        copy.seek(SeekFrom::Start(run.start))?;
        let run_bytes = run.end - run.start;
        if io::copy(&mut source.take(run_bytes), &mut copy)? < run_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at_bytes = run.end;
    }
    Ok(())
}

/// Replaces `image`, which has the attributes `old`, by `copy`.
fn replace(image: &Path, old: &fs::Metadata, copy: NamedTempFile) -> io::Result<()> {
    let file = copy.as_file();
    // A change of the owner can clear permissions.
    fchown(file, Some(old.uid()), Some(old.gid()))?;
    file.set_permissions(old.permissions())?;
    file.sync_all()?;
    copy.persist(image)?;
    File::open(image.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// The programs of e2fsprogs that the command needs.
struct Tools {
    e2fsck: PathBuf,
    resize2fs: PathBuf,
}

impl Tools {
    fn find() -> Result<Self> {
        let find = |program| {
            programs::of_system(program).ok_or_else(|| {
                Failure::with_hint(
                    format!("larder shrink needs the program {program}, which was not found"),
                    "install the package e2fsprogs",
                )
            })
        };
        Ok(Self {
            e2fsck: find("e2fsck")?,
            resize2fs: find("resize2fs")?,
        })
    }

    /// Fails if e2fsck would repair anything in the copy of `image`, except what it updates in each file system.
    fn check(&self, copy: &NamedTempFile, image: &Path) -> Result<()> {
        let output = run_program(&self.e2fsck, &["-f", "-p"], copy.path(), None)?;
        if output.status.success() {
            return Ok(());
        }
        let found = format!("has errors: {}", messages(&output, copy.path(), image));
        Err(not_clean(image, &found))
    }

    /// Shrinks the file system in the copy of `image` to a number of `blocks`, or as far as possible.
    fn shrink(&self, copy: &NamedTempFile, image: &Path, blocks: Option<u64>) -> Result<()> {
        let (options, size): (&[&str], _) = match blocks {
            Some(blocks) => (&[], Some(blocks.to_string())),
            None => (&["-M"], None),
        };
        let output = run_program(&self.resize2fs, options, copy.path(), size.as_deref())?;
        if output.status.success() {
            return Ok(());
        }
        let message = format!(
            "resize2fs cannot shrink {}: {}",
            image.display(),
            messages(&output, copy.path(), image)
        );
        Err(match blocks {
            Some(_) => Failure::with_hint(message, "omit --size for the smallest image"),
            None => Failure::new(message),
        })
    }
}

/// Runs `program` on the file at `path`. `last` is the last argument.
fn run_program(
    program: &Path,
    options: &[&str],
    path: &Path,
    last: Option<&str>,
) -> Result<Output> {
    Command::new(program)
        .args(options)
        .arg(path)
        .args(last.map(OsStr::new))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))
}

/// Returns what a program has printed about the copy of `image` at `path`, in one line.
fn messages(output: &Output, path: &Path, image: &Path) -> String {
    let text = [&*output.stdout, &*output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let text = text.replace(&*path.to_string_lossy(), &image.to_string_lossy());
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join("; ");
    name::escaped(line.as_bytes())
}
