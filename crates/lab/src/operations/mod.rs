//! Whole file operations of one user: recorded once from real commands, replayed by many.
//!
//! # Model
//! What the system calls of a script did to the files below one directory, with what they returned.
//! Paths start at that directory: in `home` is what is the user's own, so that each user who replays
//! has a home of his own; everything else is shared, and only read. Offsets are those that the calls
//! ended up with, so there is no operation that only moves to another place.
//!
//! # Format
//! JSON, a value a line. The first line is an object: `version` (1), `directories` and `files` that are
//! there before, the files as `[path, bytes]`. Every other line is `[operation, result]`, the operation
//! an object of one field:
//!
//! | operation | arguments | result |
//! |---|---|---|
//! | `open` | path, number of the open file, how | 0 |
//! | `read`, `write` | open file, offset, bytes | bytes |
//! | `size` | open file | its size |
//! | `truncate` | open file, bytes | 0 |
//! | `close` | open file | 0 |
//! | `stat`, `readlink`, `list`, `make_dir`, `chmod`, `unlink`, `remove_dir` | path | 0 |
//! | `rename` | path, new path | 0 |
//!
//! How a file is opened is told by letters: `r` to read, `w` to write, `c` is made if need be, `x` must
//! not be there, `t` is emptied. A result below 0 is an errno. Open files have numbers in the order in
//! which they were opened. The content of files is not kept: who replays makes his own.
//!
//! Tests: the recorded script of the lab is replayed, and every result is as recorded.

mod error;
pub(crate) mod recorder;
mod replay;
#[cfg(test)]
mod tests;

pub use error::Error;
pub(crate) use replay::NEW;
pub use replay::{Players, share};

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
    /// Opens a file, which gets this number.
    Open(String, u32, How),
    /// Reads from an offset so many bytes.
    Read(u32, u64, u64),
    /// Writes at an offset so many bytes.
    Write(u32, u64, u64),
    /// Asks how long an open file is.
    Size(u32),
    /// Makes an open file so long.
    Truncate(u32, u64),
    /// Closes an open file.
    Close(u32),
    /// Asks for what is known of a path.
    Stat(String),
    /// Asks where a link leads.
    Readlink(String),
    /// Lists a directory.
    List(String),
    /// Makes a directory.
    MakeDir(String),
    /// Sets the permissions of a file.
    Chmod(String),
    /// Gives a file another path.
    Rename(String, String),
    /// Removes a file.
    Unlink(String),
    /// Removes a directory.
    RemoveDir(String),
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of open(2)")]
pub struct How {
    /// To read.
    pub read: bool,
    /// To write.
    pub write: bool,
    /// It is made if it is not there.
    pub create: bool,
    /// It must not be there.
    pub exclusive: bool,
    /// It is emptied.
    pub truncate: bool,
}

impl From<How> for String {
    fn from(how: How) -> Self {
        let flags = [how.read, how.write, how.create, how.exclusive, how.truncate];
        let letters = flags.into_iter().zip("rwcxt".chars());
        letters
            .filter_map(|(is_set, letter)| is_set.then_some(letter))
            .collect()
    }
}

impl TryFrom<String> for How {
    type Error = String;

    fn try_from(letters: String) -> Result<Self, String> {
        let mut how = Self::default();
        for letter in letters.chars() {
            let flag = match letter {
                'r' => &mut how.read,
                'w' => &mut how.write,
                'c' => &mut how.create,
                'x' => &mut how.exclusive,
                't' => &mut how.truncate,
                _ => return Err(format!("`{letter}` is no way to open a file")),
            };
            *flag = true;
        }
        Ok(how)
    }
}

/// An operation and what it returned: a number, or an errno below 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done(pub Operation, pub i64);

/// A file's path, and its size in bytes.
pub type SizedFile = (String, u64);

/// A name, behind the directory that it is in.
pub type Name = (Ino, Vec<u8>);

/// What is there before the first operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    version: u32,
    /// Directories, each behind the one that it is in.
    pub directories: Vec<String>,
    /// Files.
    pub files: Vec<SizedFile>,
}

impl Before {
    /// The directories and files whose paths are as asked for.
    fn of(&self, is_wanted: fn(&str) -> bool) -> (Vec<&String>, Vec<&SizedFile>) {
        let directories = self.directories.iter().filter(|path| is_wanted(path));
        let files = self.files.iter().filter(|(path, _)| is_wanted(path));
        (directories.collect(), files.collect())
    }
}

/// The operations of one user's script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operations {
    /// What is there before.
    pub before: Before,
    /// What is done.
    pub done: Vec<Done>,
}

impl Operations {
    /// Operations on these directories and files.
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

    /// The script of [`crate::sdm`], recorded.
    ///
    /// # Panics
    /// Never: it is part of the program.
    #[must_use]
    pub fn sdm() -> Self {
        Self::read(SDM.as_bytes()).expect("operations that are compiled in are well-formed")
    }

    /// Reads what [`Operations::write`] wrote.
    ///
    /// # Errors
    /// [`Error::Line`] with the line that is not as the format says, [`Error::Version`].
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

    /// Writes them, in the format that the module's documentation describes.
    ///
    /// # Errors
    /// Those of `writer`.
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
