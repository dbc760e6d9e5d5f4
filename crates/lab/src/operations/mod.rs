//! The file operations of one user. They are recorded once from real commands, and replayed by many simulated
//! users.
//!
//! # Model
//! The operations are the system calls of a script on files below one directory (the root), with their
//! results. Paths are relative to the root. The directory `home` contains the user's own files; a replay
//! creates one home for each user. All other files are shared by all users and are only read. Reads and
//! writes contain the actual file offset, so a change of only the offset is not recorded.
//!
//! # Format
//! JSON, with one value on each line. The first line is an object: `version` (1), and the `directories`
//! and `files` that must exist before the first operation, the files as `[path, bytes]`. Every other
//! line is `[operation, result]`, where the operation is an object with one field:
//!
//! | operation | arguments | result |
//! |---|---|---|
//! | `open` | path, number of the open file, mode | 0 |
//! | `read`, `write` | open file, offset, bytes | bytes |
//! | `size` | open file | its size |
//! | `truncate` | open file, bytes | 0 |
//! | `close` | open file | 0 |
//! | `stat`, `readlink`, `list`, `make_dir`, `chmod`, `unlink`, `remove_dir` | path | 0 |
//! | `rename` | path, new path | 0 |
//!
//! The mode of an open file is a string of letters: `r` opens for reading, `w` for writing, `c` creates
//! a missing file, `x` fails if the file exists, `t` truncates it. A result below 0 is an errno. Open
//! files are numbered in the order in which they were opened. The content of files is not recorded: a
//! replay generates its own.
//!
//! Tests: the recorded script of the lab is replayed, and every result must equal the recorded result.

mod error;
pub(crate) mod recorder;
mod replay;
#[cfg(test)]
mod tests;

pub use error::Error;
pub(crate) use replay::NEW;
pub use replay::{UserHomes, create_shared_files};

use larder::Ino;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// The version of the format.
const VERSION: u32 = 1;

/// The script of [`crate::sdm`], as recorded on ext4.
const SDM: &str = include_str!("sdm.operations");

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Opens a file, which receives this number.
    Open(String, u32, OpenMode),
    /// Reads from an open file: offset, bytes.
    Read(u32, u64, u64),
    /// Writes to an open file: offset, bytes.
    Write(u32, u64, u64),
    /// Returns the size of an open file.
    Size(u32),
    /// Sets the size of an open file.
    Truncate(u32, u64),
    /// Closes an open file.
    Close(u32),
    /// Reads the attributes of a path.
    Stat(String),
    /// Reads the target of a symbolic link.
    Readlink(String),
    /// Lists a directory.
    List(String),
    /// Creates a directory.
    MakeDir(String),
    /// Sets the permissions of a file.
    Chmod(String),
    /// Renames a file.
    Rename(String, String),
    /// Removes a file.
    Unlink(String),
    /// Removes a directory.
    RemoveDir(String),
}

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of open(2)")]
pub struct OpenMode {
    /// Opens for reading.
    pub read: bool,
    /// Opens for writing.
    pub write: bool,
    /// Creates the file if it does not exist.
    pub create: bool,
    /// Fails if the file exists.
    pub exclusive: bool,
    /// Truncates the file.
    pub truncate: bool,
}

impl From<OpenMode> for String {
    fn from(mode: OpenMode) -> Self {
        let flags = [
            mode.read,
            mode.write,
            mode.create,
            mode.exclusive,
            mode.truncate,
        ];
        let letters = flags.into_iter().zip("rwcxt".chars());
        letters
            .filter_map(|(is_set, letter)| is_set.then_some(letter))
            .collect()
    }
}

impl TryFrom<String> for OpenMode {
    type Error = String;

    fn try_from(letters: String) -> Result<Self, String> {
        let mut mode = Self::default();
        for letter in letters.chars() {
            let flag = match letter {
                'r' => &mut mode.read,
                'w' => &mut mode.write,
                'c' => &mut mode.create,
                'x' => &mut mode.exclusive,
                't' => &mut mode.truncate,
                _ => {
                    return Err(format!(
                        "unknown open mode '{letter}'; available: r, w, c, x, t"
                    ));
                }
            };
            *flag = true;
        }
        Ok(mode)
    }
}

/// An operation and its result: a number, or an errno below 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done(pub Operation, pub i64);

/// A file's path, and its size in bytes.
pub type SizedFile = (String, u64);

/// A name, after the directory that contains it.
pub type Name = (Ino, Vec<u8>);

/// The state before the first operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    version: u32,
    /// Directories, each after its parent.
    pub directories: Vec<String>,
    /// Files.
    pub files: Vec<SizedFile>,
}

impl Before {
    /// Returns the directories and files whose paths satisfy `is_wanted`.
    fn of(&self, is_wanted: fn(&str) -> bool) -> (Vec<&String>, Vec<&SizedFile>) {
        let directories = self.directories.iter().filter(|path| is_wanted(path));
        let files = self.files.iter().filter(|(path, _)| is_wanted(path));
        (directories.collect(), files.collect())
    }
}

/// The operations of one user's script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operations {
    /// The state before the first operation.
    pub before: Before,
    /// The operations and their results.
    pub done: Vec<Done>,
}

impl Operations {
    /// Creates operations on these directories and files.
    pub(crate) fn new(directories: Vec<String>, files: Vec<SizedFile>, done: Vec<Done>) -> Self {
        Self {
            before: Before {
                version: VERSION,
                directories,
                files,
            },
            done,
        }
    }

    /// Returns the recorded script of [`crate::sdm`].
    ///
    /// # Panics
    /// Never: the script is compiled into the program.
    #[must_use]
    pub fn sdm() -> Self {
        Self::read(SDM.as_bytes()).expect("the compiled-in operations are well-formed")
    }

    /// Reads operations that [`Operations::write`] wrote.
    ///
    /// # Errors
    /// Returns [`Error::Line`] for a line that violates the format, and [`Error::Version`] for an unsupported
    /// version.
    pub fn read(reader: impl BufRead) -> Result<Self, Error> {
        let mut lines = (1..).zip(reader.lines());
        let (_, first) = lines.next().ok_or(Error::Empty)?;
        let before: Before = parsed(1, &first.map_err(Error::Read)?)?;
        if before.version != VERSION {
            return Err(Error::Version(before.version));
        }
        let done = lines.map(|(number, line)| parsed(number, &line.map_err(Error::Read)?));
        Ok(Self {
            done: done.collect::<Result<_, _>>()?,
            before,
        })
    }

    /// Writes the operations in the format that the module documentation describes.
    ///
    /// # Errors
    /// Returns the errors of `writer`.
    pub fn write(&self, mut writer: impl Write) -> io::Result<()> {
        writeln!(writer, "{}", serde_json::to_string(&self.before)?)?;
        for done in &self.done {
            writeln!(writer, "{}", serde_json::to_string(done)?)?;
        }
        Ok(())
    }
}

fn parsed<T: serde::de::DeserializeOwned>(line: u64, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|source| Error::Line { line, source })
}
