//! The command `larder export`: writes files of an image to a tar archive.
//!
//! Model: GNU tar for the members and for errors, and `docker export` for the names.
//!
//! Cost: that of a sorted walk, and the first name of each file with several hard links. For the present file, its
//! extended attributes and its map of data.

mod attributes;
mod header;
mod output;
mod records;
mod sparse;

use super::expand::{NamedFile, NamedFiles};
use super::operands::Operands;
use super::reading::{Failures, check_kind};
use super::tree_bytes::tree_bytes;
use crate::args::ExportArgs;
use crate::failure::{CHECK_IT, of_cause, of_path};
use crate::opening::open_image;
use crate::progress;
use header::{BLOCK_BYTES, Kind, Member};
use indicatif::ProgressBar;
use larder::fs::copy::BUFFER_BYTES;
use larder::fs::{DirEntry, Step, Walk};
use larder::{FileKind, Fs, Ino, Metadata};
use larder_console::{Failure, Result, name, print_warning};
use output::Output;
use sparse::Content;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

/// The size of the buffer of the output, in bytes.
const OUT_BYTES: usize = 1 << 16;

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let Operands { source, paths } =
        Operands::new(&args.files.source, &args.files.paths, Some("/"))?;
    let output = Output::open(args.output.as_deref(), &source)?;
    let is_stdout = output.is_stdout();
    // A program that reads the archive may print its own lines on the same terminal.
    let shows_progress = output.is_file() || !is_stdout;
    let fs = Fs::new(open_image(&source)?);
    let failures = Failures::new(1);
    let roots: Vec<NamedFile> = NamedFiles::new(&fs, &paths, false, &failures).collect();
    let progress = if shows_progress {
        progress::bar(|| {
            let sizes = roots
                .iter()
                .map(|root| tree_bytes(fs.volume(), root.metadata.ino));
            sizes.fold(0, u64::saturating_add)
        })
    } else {
        ProgressBar::hidden()
    };
    let mut export = Export {
        fs: &fs,
        failures: &failures,
        progress: &progress,
        out: BufWriter::with_capacity(OUT_BYTES, output),
        first_names: HashMap::new(),
        buffer: vec![0; BUFFER_BYTES],
    };
    let written = roots
        .iter()
        .try_for_each(|root| export.root(root))
        .and_then(|()| export.finish());
    progress.finish_and_clear();
    match written {
        // The reader of standard output has closed it early.
        Err(error) if is_stdout && error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => return Err(Failure::new(format!("cannot write the archive: {error}"))),
        Ok(()) => {}
    }
    Ok(failures.exit_code())
}

/// An archive that is written. Functions return errors of the output, and report those of the image.
struct Export<'a> {
    fs: &'a Fs,
    failures: &'a Failures,
    progress: &'a ProgressBar,
    out: BufWriter<Output>,
    /// The first name in the archive of each file that has several hard links.
    first_names: HashMap<Ino, Vec<u8>>,
    buffer: Vec<u8>,
}

impl Export<'_> {
    /// Writes a file of the command line, and all files below it.
    fn root(&mut self, root: &NamedFile) -> io::Result<()> {
        let Some(path) = absolute(&root.path) else {
            let failure = Failure::with_hint(
                "a name in an archive cannot contain ..",
                "give the path without ..",
            );
            let failure = failure.at(&root.path);
            self.progress
                .suspend(|| self.failures.report_path(&failure));
            return Ok(());
        };
        self.file(&path, &root.metadata)?;
        if !root.metadata.is_dir() {
            return Ok(());
        }
        match self.fs.walk(OsStr::from_bytes(&path)) {
            Ok(walk) => self.tree(&path, walk.sorted()),
            Err(error) => {
                self.report(&of_cause(&path, &error));
                Ok(())
            }
        }
    }

    /// Writes all files below the directory at `root`, in the order of the sorted `walk`.
    fn tree(&mut self, root: &[u8], mut walk: Walk) -> io::Result<()> {
        // The last path that several entries of a directory have. All of these entries are left out: if one is a link,
        // a program that extracts the archive could follow it when it writes the files of another.
        let mut repeated: Option<Vec<u8>> = None;
        while let Some(step) = walk.step() {
            match step {
                Ok(Step::Entry(entry)) => {
                    let path = entry.path().into_os_string().into_vec();
                    let next = walk.rest().next();
                    if next.is_some_and(|next| next.file_name() == entry.file_name()) {
                        if repeated.as_ref() != Some(&path) {
                            let failure = Failure::with_hint(
                                "the directory contains this name several times",
                                CHECK_IT,
                            );
                            self.report(&failure.at(&path));
                        }
                        repeated = Some(path);
                        walk.skip_directory();
                    } else if repeated.as_ref() == Some(&path) || !self.entry(&path, &entry)? {
                        walk.skip_directory();
                    }
                }
                Ok(Step::Entered | Step::Left) => {}
                Err(error) => self.report(&of_cause(root, &error)),
            }
        }
        Ok(())
    }

    /// Writes the entry of a directory at `path`. If it is a directory that the walk must not enter, returns false.
    fn entry(&mut self, path: &[u8], entry: &DirEntry) -> io::Result<bool> {
        let checked = || -> larder::Result<Metadata> {
            let metadata = self.fs.volume().metadata(entry.ino())?;
            check_kind(entry.kind().ok(), &metadata)?;
            Ok(metadata)
        };
        match checked() {
            Ok(metadata) => {
                self.file(path, &metadata)?;
                Ok(true)
            }
            Err(error) => {
                self.report(&of_path(path, &error));
                Ok(false)
            }
        }
    }

    /// Writes the file at `path`, which begins with a slash: its content, or a link if the archive already contains it.
    fn file(&mut self, path: &[u8], metadata: &Metadata) -> io::Result<()> {
        let kind = match metadata.kind {
            FileKind::Regular => Kind::Regular,
            FileKind::Directory => Kind::Directory,
            FileKind::Symlink => Kind::Symlink,
            FileKind::CharDevice => Kind::Char,
            FileKind::BlockDevice => Kind::Block,
            FileKind::Fifo => Kind::Fifo,
            FileKind::Socket => {
                let path = name::escaped(path);
                let message = format!("{path}: an archive cannot contain a socket");
                self.progress.suspend(|| print_warning(&message));
                return Ok(());
            }
        };
        let name = member_name(path, metadata.is_dir());
        let has_several_names = metadata.links > 1 && !metadata.is_dir();
        if has_several_names
            && let Some(first) = self.first_names.get(&metadata.ino)
            && *first != name
        {
            let mut link = Member::new(Kind::Link, &name, metadata);
            link.link = first;
            return link.write(&mut self.out);
        }
        let is_written = self.member(kind, path, &name, metadata)?;
        if has_several_names && is_written {
            self.first_names.insert(metadata.ino, name);
        }
        Ok(())
    }

    /// Writes the member `name` for the file at `path`, with its data. If the file cannot be read, writes nothing, and returns
    /// false.
    fn member(
        &mut self,
        kind: Kind,
        path: &[u8],
        name: &[u8],
        metadata: &Metadata,
    ) -> io::Result<bool> {
        let volume = self.fs.volume();
        let ino = metadata.ino;
        let opened = || -> larder::Result<_> {
            let target = match metadata.kind {
                FileKind::Symlink => volume.read_link(ino)?,
                _ => Vec::new(),
            };
            let data = match metadata.kind {
                FileKind::Regular => {
                    let content = Content::of(volume, ino, metadata.size_bytes)?;
                    Some((volume.open_file(ino)?, content))
                }
                _ => None,
            };
            Ok((target, data))
        };
        let (target, data) = match opened() {
            Ok(opened) => opened,
            Err(error) => {
                self.report(&of_path(path, &error));
                return Ok(false);
            }
        };
        let mut member = Member::new(kind, name, metadata);
        member.link = &target;
        member.records = attributes::records(volume, ino, |message| {
            self.report(&Failure::new(message).at(path));
        });
        if let Some((_, content)) = &data {
            member.data_bytes = content.data_bytes();
            member.sparse_bytes = content.is_sparse().then_some(metadata.size_bytes);
        }
        member.write(&mut self.out)?;
        if let Some((file, content)) = data {
            let progress = self.progress;
            let read = |buffer: &mut [u8], at_bytes: u64| -> larder::Result<usize> {
                let len = file.read_at(buffer, at_bytes)?;
                progress.inc(len as u64);
                Ok(len)
            };
            let failed = content.write(read, &mut self.buffer, &mut self.out)?;
            if let Some(error) = failed {
                self.report(&of_path(path, &error));
            }
        }
        Ok(true)
    }

    /// Writes the end of the archive: two blocks of zeros.
    fn finish(self) -> io::Result<()> {
        let mut out = self.out;
        io::copy(&mut io::repeat(0).take(2 * BLOCK_BYTES), &mut out)?;
        let output = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        output.finish()
    }

    fn report(&self, failure: &Failure) {
        self.progress.suspend(|| self.failures.report(failure));
    }
}

/// Returns `path` from the root, without `.` and empty names. Returns `None` if it contains `..`.
fn absolute(path: &[u8]) -> Option<Vec<u8>> {
    let mut absolute = Vec::new();
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return None,
            name => {
                absolute.push(b'/');
                absolute.extend_from_slice(name);
            }
        }
    }
    if absolute.is_empty() {
        absolute.push(b'/');
    }
    Some(absolute)
}

/// Returns the name in the archive of the file at `path`, which begins with a slash.
fn member_name(path: &[u8], is_directory: bool) -> Vec<u8> {
    let mut name = path.strip_prefix(b"/").unwrap_or(path).to_vec();
    if is_directory {
        if name.is_empty() {
            name.push(b'.');
        }
        name.push(b'/');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_and_those_of_directories_end_in_a_slash() {
        for (path, name) in [
            ("/", "./"),
            ("", "./"),
            ("etc", "etc/"),
            ("//etc/./init.d/", "etc/init.d/"),
            ("/a/..b", "a/..b/"),
        ] {
            let path = absolute(path.as_bytes()).unwrap();
            assert_eq!(member_name(&path, true), name.as_bytes());
        }
        assert_eq!(member_name(b"/etc/passwd", false), b"etc/passwd");
        assert_eq!(absolute(b"/etc/../usr"), None);
    }
}
