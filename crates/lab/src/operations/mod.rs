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
//! The mode of an open file is a string of letters: `r` opens the file for reading, `w` opens it for writing,
//! `c` creates a missing file, `x` fails if the file exists, and `t` truncates the file. A result below 0 is a
//! negated errno. Open files are numbered in the order in which they were opened. The content of files is not
//! recorded: a replay generates its own.
//!
//! Tests: the recorded script of the lab is replayed, and every result must equal the recorded result.

mod error;
mod operation;
mod part;
pub(crate) mod recorder;
mod replay;
mod script;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use operation::{OpenMode, Operation};
pub use part::Part;
pub(crate) use replay::NEW;
pub use replay::{User, UserHomes, create_shared_files};
pub use script::{Before, Done, Name, Operations, SizedFile};
