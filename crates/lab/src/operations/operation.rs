//! The operations.

use serde::{Deserialize, Serialize};

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
