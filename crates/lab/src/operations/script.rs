//! A script of operations with their results, and its file.

use super::error::Error;
use super::operation::Operation;
use larder::Ino;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// The version of the format.
const VERSION: u32 = 1;

/// The script of [`crate::sdm`], as recorded on ext4.
pub(super) const SDM: &str = include_str!("sdm.operations");

/// An operation and its result: a number of at least 0, or a negated errno.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done(pub Operation, pub i64);

/// A file's path, and its size in bytes.
pub type SizedFile = (String, u64);

/// A directory, and a name in it.
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
    pub(super) fn of(&self, is_wanted: fn(&str) -> bool) -> (Vec<&String>, Vec<&SizedFile>) {
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
