//! The command `larder tree`: shows directory trees of an image.

use super::expand::{NamedFile, named_files};
use super::image_path::Operands;
use crate::args::TreeArgs;
use crate::failure::{of_cause, of_path};
use crate::opening::open_image;
use larder::fs::{DirEntry, Step};
use larder::{FileKind, Fs};
use larder_console::name::Names;
use larder_console::{Failure, Result};
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

/// The branches before the name of an entry that others follow, and of the last one.
const BRANCHES: [&str; 2] = ["├── ", "└── "];
/// What precedes the entries of a directory that others follow, and of the last one.
const TRUNKS: [&str; 2] = ["│   ", "    "];

struct Printer<'a, W> {
    fs: &'a Fs,
    args: &'a TreeArgs,
    out: W,
    names: Names,
    directories: u64,
    files: u64,
    has_failed: bool,
}

pub(super) fn run(args: &TreeArgs) -> Result<ExitCode> {
    let Operands { source, paths } =
        Operands::new(&args.files.source, &args.files.paths, Some("/"))?;
    let fs = Fs::new(open_image(&source)?);
    let mut printer = Printer {
        fs: &fs,
        args,
        out: BufWriter::new(io::stdout().lock()),
        names: Names::for_stdout(),
        directories: 0,
        files: 0,
        has_failed: false,
    };
    for root in named_files(&fs, &paths, true, |failure| printer.report(failure)) {
        printer.tree(&root)?;
    }
    printer.summary()?;
    Ok(ExitCode::from(u8::from(printer.has_failed)))
}

impl<W: Write> Printer<'_, W> {
    /// Prints the tree of a file, whose name is its path.
    fn tree(&mut self, root: &NamedFile) -> Result<()> {
        self.names.write(&mut self.out, &root.path)?;
        self.out.write_all(b"\n")?;
        if !root.metadata.is_dir() {
            self.files += 1;
            return Ok(());
        }
        let mut walk = match self.fs.walk(OsStr::from_bytes(&root.path)) {
            Ok(walk) => walk.sorted(),
            Err(error) => {
                self.report(&of_cause(&root.path, &error));
                return Ok(());
            }
        };
        // What precedes the branch of each entry, and how long it is for the directories above.
        let mut prefix = String::new();
        let mut lens = Vec::new();
        let mut is_last = false;
        while let Some(step) = walk.step() {
            match step {
                Ok(Step::Entry(entry)) if !self.is_shown(&entry) => walk.skip_directory(),
                Ok(Step::Entry(entry)) => {
                    is_last = !walk.rest().any(|entry| self.is_shown(entry));
                    self.out.write_all(prefix.as_bytes())?;
                    self.out.write_all(BRANCHES[usize::from(is_last)].as_bytes())?;
                    self.entry(&entry)?;
                }
                Ok(Step::Entered) => {
                    lens.push(prefix.len());
                    prefix.push_str(TRUNKS[usize::from(is_last)]);
                }
                Ok(Step::Left) => prefix.truncate(lens.pop().unwrap_or_default()),
                Err(error) => self.report(&of_cause(b"", &error)),
            }
        }
        Ok(())
    }

    fn is_shown(&self, entry: &DirEntry) -> bool {
        self.args.all || !entry.file_name().as_bytes().starts_with(b".")
    }

    /// Prints the name of an entry and, of a symbolic link, the target.
    fn entry(&mut self, entry: &DirEntry) -> Result<()> {
        let path = || entry.path().into_os_string().into_vec();
        self.names.write(&mut self.out, entry.file_name().as_bytes())?;
        match entry.kind() {
            Ok(FileKind::Directory) => self.directories += 1,
            Ok(FileKind::Symlink) => {
                self.files += 1;
                match self.fs.volume().read_link(entry.ino()) {
                    Ok(target) => {
                        self.out.write_all(b" -> ")?;
                        self.names.write(&mut self.out, &target)?;
                    }
                    Err(error) => self.report(&of_path(&path(), &error)),
                }
            }
            // If the type cannot be read, the walk reports the error.
            _ => self.files += 1,
        }
        Ok(self.out.write_all(b"\n")?)
    }

    /// Prints the numbers of directories and files, without the files of the command line that are directories.
    fn summary(&mut self) -> Result<()> {
        let counted = |count: u64, one: &str, several: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {several}"),
        };
        let directories = counted(self.directories, "directory", "directories");
        let files = counted(self.files, "file", "files");
        writeln!(self.out, "\n{directories}, {files}")?;
        Ok(self.out.flush()?)
    }

    fn report(&mut self, failure: &Failure) {
        failure.print(1);
        self.has_failed = true;
    }
}
