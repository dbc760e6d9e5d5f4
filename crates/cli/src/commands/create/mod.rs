//! The command `larder create`: makes an image, and fills it from directories and tar archives.
//!
//! mke2fs makes the file system. It knows all features and their defaults, and a mkfs of Larder would be thousands of lines.
//! Larder copies the files: `mke2fs -d` reads archives only with a library.
//!
//! # Steps
//! 1. The sources are opened. For `--size auto`, their content is counted first.
//! 2. mke2fs makes a file system without a journal in a temporary file in the directory of the image.
//! 3. Each source is copied: whiteouts of layers first ([`layers`]), then the files.
//! 4. tune2fs adds the journal, for which space was set aside.
//! 5. For `--size auto`, resize2fs shrinks the file system, as in `larder shrink`.
//! 6. When the file is durable, it gets the name of the image, unless another file has this name.
//!
//! # Repeatable images
//! If `SOURCE_DATE_EPOCH` is set, Larder and the programs of e2fsprogs use it instead of the present time. The names in
//! each directory are copied in sorted order, and no thread writes back in the background. Each block of zeros is a
//! hole, whatever the holes of the source are. The length of a read of a pipe has no effect ([`chunks`]). So the same
//! calls are made, and Larder's allocators depend only on these calls. Numbers of inodes and generations of files
//! depend on the hash seed and the time.
//!
//! # Threads
//! One thread creates the files. Another one writes the content of small files ([`larder::ContentQueue`]), and makes no
//! choices of its own.

mod archive;
mod chunks;
mod contents;
mod fill;
mod format;
mod header;
mod layers;
mod owners;
mod pax;
mod size;
mod source;
mod tree;

use super::copy::descriptors::raise_descriptor_limit;
use super::e2fsprogs::{Tools, truncate};
use super::unfinished;
use crate::args::{CreateArgs, ImageSize};
use crate::image_path::ImagePath;
use crate::{failure, progress, remote};
use fill::Filler;
use format::Format;
use indicatif::ProgressBar;
use larder::fs::copy::{CopyError, CopyIn, Observer, Rules};
use larder::{Clock, Ino, OpenOptions, SystemClock, Timestamp, Volume};
use larder_console::{Failure, Result, name, print_warning, size as sizes};
use owners::{Owners, PREFIX};
use size::Content;
use source::Source;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tempfile::NamedTempFile;
use tree::{Tree, is_full, of_volume};

/// The size of the caches, in bytes. Content is read from them only once, and the kernel needs time to allocate memory: with
/// 256 MiB, copying 200 MB takes a fifth longer.
const CACHE_BYTES: u64 = 64 << 20;

/// The maximum number of times that a file system for `--size auto` is made again because it was too small.
const MAX_RETRIES: u32 = 4;

pub(super) fn run(args: &CreateArgs) -> Result<ExitCode> {
    let shown = name::escaped(args.image.as_os_str().as_bytes());
    check_image(args, &shown)?;
    let time = time()?;
    let format = Format::new(args, time)?;
    let (bytes, tools) = match args.size {
        Some(ImageSize::Bytes(bytes)) => (bytes, None),
        Some(ImageSize::Auto) | None => (0, Some(Tools::find("create", time)?)),
    };
    raise_descriptor_limit();
    let failed = |error: io::Error| Failure::new(format!("cannot create {shown}: {error}"));
    let directory = unfinished::directory(&args.image);
    let image = unfinished::create(&args.image, PREFIX).map_err(failed)?;
    let is_read_twice = tools.is_some() || args.from.len() > 1;
    let sources = args.from.iter();
    let sources = sources.map(|path| Source::open(path, is_read_twice, directory));
    let sources = sources.collect::<Result<_>>()?;
    let unfinished = image.path().file_name().unwrap_or_default().as_bytes();
    let owners = Owners::new(args, unfinished.to_vec());
    let build = Build {
        args,
        time,
        format,
        image,
        sources,
        owners,
    };
    let files = match &tools {
        Some(tools) => build.make_fitting(tools)?,
        None => build.make_sized(bytes)?,
    };
    let image = build.image;
    let size_bytes = image.as_file().metadata()?.len();
    finish(image, &args.image, directory).map_err(failed)?;
    let (kind, size) = (args.fs_type.as_str(), sizes::human(size_bytes));
    let unit = if files == 1 { "file" } else { "files" };
    writeln!(
        io::stdout(),
        "created {shown}: {kind}, {size}, {files} {unit}"
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Fails if the image exists, or cannot be a file.
fn check_image(args: &CreateArgs, shown: &str) -> Result<()> {
    if remote::is_remote(&args.image) {
        return Err(Failure::new(format!("image {shown} is not local")));
    }
    if let Some(inside) = ImagePath::parse(args.image.as_os_str())
        && inside.image.is_file()
    {
        let image = inside.image.display();
        return Err(Failure::usage_with_hint(
            format!("{shown} is a path in an image, not a new image"),
            format!("write create NEW.img, or copy into {image}: larder cp -r DIR {shown}"),
        ));
    }
    if fs::symlink_metadata(&args.image).is_ok() {
        return Err(Failure::with_hint(
            format!("{shown} exists"),
            "remove it first, or choose another name; larder cp copies files into an existing image",
        ));
    }
    let inputs = args.from.iter().filter(|path| *path == Path::new("-"));
    if inputs.count() > 1 {
        return Err(Failure::usage(
            "standard input can be only one of the sources",
        ));
    }
    Ok(())
}

/// Returns the time in `SOURCE_DATE_EPOCH`, in seconds since 1970.
fn time() -> Result<Option<i64>> {
    let Some(value) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let time = value.to_str().and_then(|text| text.parse::<u32>().ok());
    let time = time.ok_or_else(|| {
        Failure::usage_with_hint(
            format!(
                "SOURCE_DATE_EPOCH is not a time: {}",
                name::escaped(value.as_bytes())
            ),
            "set it to a number of seconds since 1970, as in SOURCE_DATE_EPOCH=$(date +%s)",
        )
    })?;
    Ok(Some(time.into()))
}

/// An image under construction.
#[derive(Debug)]
struct Build<'a> {
    args: &'a CreateArgs,
    /// The time that is recorded instead of the present time, in seconds since 1970.
    time: Option<i64>,
    format: Format<'a>,
    image: NamedTempFile,
    sources: Vec<Source>,
    owners: Owners<'a>,
}

impl Build<'_> {
    /// Makes and fills a file system of `bytes`. Returns the number of files.
    fn make_sized(&self, bytes: u64) -> Result<u64> {
        let size_bytes = bytes / size::BLOCK_BYTES * size::BLOCK_BYTES;
        let journal_bytes = size::journal_bytes(size_bytes);
        if self.args.fs_type.has_journal() && journal_bytes == 0 {
            return Err(Failure::with_hint(
                "--size is too small for a journal",
                "give at least 8M, or --type ext2",
            ));
        }
        self.image.as_file().set_len(size_bytes)?;
        self.format
            .make(&self.image, self.owners.owner(0, 0), None)?;
        self.fill(journal_bytes)
    }

    /// Makes a file system that is larger than the content of the sources, fills it, and shrinks it. Returns the number of
    /// files.
    fn make_fitting(&self, tools: &Tools) -> Result<u64> {
        let (image, name) = (&self.image, &self.args.image);
        let mut content = Content::default();
        for source in &self.sources {
            match source {
                Source::Directory(path) => {
                    content.add_directory(path, &self.owners, self.time.is_some())?;
                }
                Source::Archive(archive) => content.add_archive(&mut archive.read()?)?,
            }
        }
        let mut capacity = content.capacity();
        let mut retries = 0;
        let files = loop {
            // Nothing of a file system that was too small must remain.
            image.as_file().set_len(0)?;
            image.as_file().set_len(capacity.size_bytes)?;
            self.format
                .make(image, self.owners.owner(0, 0), Some(capacity))?;
            match self.fill(content.journal_bytes()) {
                Err(failure) if is_full(&failure) && retries < MAX_RETRIES => {
                    retries += 1;
                    capacity = capacity.doubled();
                }
                result => break result?,
            }
        };
        tools.check(image, name)?;
        tools.shrink(image, name, None)?;
        truncate(image)?;
        tools.check(image, name)?;
        Ok(files)
    }

    /// Copies the sources into the new file system, and adds its journal of `journal_bytes`. Returns the number of files.
    fn fill(&self, journal_bytes: u64) -> Result<u64> {
        let has_journal = self.args.fs_type.has_journal();
        let clock: Arc<dyn Clock> = match self.time {
            Some(seconds) => Arc::new(FixedClock(seconds)),
            None => Arc::new(SystemClock),
        };
        let options = OpenOptions::new()
            .read_write(true)
            .cache_size_bytes(CACHE_BYTES)
            .background(false)
            .clock(clock);
        let volume =
            Volume::open(self.image.path(), &options).map_err(|error| of_volume(&error))?;
        if has_journal {
            // A block of the mapping covers at least 340 blocks of the journal, so 1/256 more is enough for the
            // mapping.
            let set_aside = volume.set_aside(journal_bytes + journal_bytes / 256);
            set_aside.map_err(|error| of_volume(&error))?;
        }
        let free_inodes = volume.statfs().free_files;
        let progress = if self.sources.iter().all(Source::has_length) {
            progress::bar(|| self.sources.iter().map(Source::len_bytes).sum())
        } else {
            progress::spinner()
        };
        let copied = self.copy(&volume, &progress);
        progress.finish_and_clear();
        copied?;
        let files = free_inodes.saturating_sub(volume.statfs().free_files);
        volume.close().map_err(|error| of_volume(&error))?;
        drop(volume);
        if has_journal {
            self.format.add_journal(&self.image, journal_bytes)?;
        }
        Ok(files)
    }

    /// Copies the sources in order.
    fn copy(&self, volume: &Volume, progress: &ProgressBar) -> Result<()> {
        let mut tree = Tree::new(volume, &self.owners);
        let mut filler = Filler::new(progress.clone());
        for source in &self.sources {
            if self.owners.has_layers() {
                match source {
                    Source::Directory(path) => layers::apply_directory(&mut tree, path)?,
                    Source::Archive(archive) => {
                        layers::apply_archive(&mut tree, &mut archive.read()?)?;
                    }
                }
            }
            match source {
                Source::Directory(path) => {
                    tree.finish()?;
                    copy_directory(volume, path, &self.owners, progress)?;
                }
                Source::Archive(archive) => filler.fill(&mut tree, &mut archive.read()?)?,
            }
            tree.finish()?;
        }
        Ok(())
    }
}

/// Copies the directory at `path` to the root directory.
fn copy_directory(
    volume: &Volume,
    path: &Path,
    owners: &Owners<'_>,
    progress: &ProgressBar,
) -> Result<()> {
    let mut observer = FirstFailure {
        progress: progress.clone(),
        failure: None,
    };
    CopyIn::new(volume, &mut observer)
        .rules(owners)
        .without_access_times()
        .into_unused()
        .map_err(|error| of_volume(&error))?
        .copy_into(path, Ino::ROOT);
    observer.failure.map_or(Ok(()), Err)
}

/// Makes the image durable, and gives it its name, unless another file has this name.
fn finish(image: NamedTempFile, path: &Path, directory: &Path) -> io::Result<()> {
    image.as_file().sync_all()?;
    image.persist_noclobber(path)?;
    if let Err(error) = File::open(directory).and_then(|directory| directory.sync_all()) {
        print_warning(&format!(
            "the name of the image may be lost in a crash: {error}"
        ));
    }
    Ok(())
}

/// A clock that always returns the same time, in seconds since 1970.
#[derive(Debug)]
struct FixedClock(i64);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp {
            seconds: self.0,
            nanoseconds: 0,
        }
    }
}

/// Shows the progress of a copy, and ends it at the first failure.
#[derive(Debug)]
struct FirstFailure {
    progress: ProgressBar,
    failure: Option<Failure>,
}

impl Observer for FirstFailure {
    fn copied(&mut self, len_bytes: u64) {
        self.progress.inc(len_bytes);
    }

    fn failed(&mut self, path: &Path, error: CopyError) -> ControlFlow<()> {
        let failure = match failure::cause(&error.cause) {
            Some(cause) if error.what.is_empty() => of_volume(cause),
            Some(cause) => of_volume(cause).at(error.what.as_bytes()),
            None => Failure::new(error.to_string()),
        };
        // The content of several files is written together. An error in it has no path.
        self.failure = Some(match path.as_os_str().as_bytes() {
            b"" => failure,
            path => failure.at(path),
        });
        ControlFlow::Break(())
    }
}
