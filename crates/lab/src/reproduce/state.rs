//! The finished parts of a reproduction, kept in a file so that an interrupted reproduction can resume.
//!
//! # Invariants
//! 1. The file contains finished parts only.
//! 2. All parts in the file were measured by the same program, with the same parameters, on the same processors and
//!    kernel. All other parts are discarded.
//! 3. The file is replaced atomically, so that it is complete at any time.

use super::program::Program;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The finished parts of a reproduction with parameters `S`, and the file that contains them.
#[derive(Debug)]
pub struct State<S, P> {
    path: Option<PathBuf>,
    origin: Origin<S>,
    /// How often the reproduction was resumed.
    resumed: u32,
    parts: Vec<P>,
}

/// What [`State::open`] found in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No file.
    Nothing,
    /// Finished parts.
    Parts,
    /// Parts of another program, with other parameters, or of other processors or another kernel. They are discarded.
    Other,
}

/// What must be equal for parts to belong to the same reproduction, except for the date.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Origin<S> {
    /// The program, with the date when the first part was begun.
    program: Program,
    size: S,
}

impl<S: PartialEq> Origin<S> {
    fn is_same(&self, other: &Self) -> bool {
        self.size == other.size && self.program.is_same(&other.program)
    }
}

impl<S, P> State<S, P>
where
    S: PartialEq + Serialize + DeserializeOwned,
    P: Serialize + DeserializeOwned,
{
    /// Creates a state without finished parts and without a file.
    ///
    /// # Errors
    /// Returns an error if the executable file cannot be read.
    pub fn new(size: S) -> io::Result<Self> {
        Ok(Self {
            path: None,
            origin: Origin {
                program: Program::current()?,
                size,
            },
            resumed: 0,
            parts: Vec::new(),
        })
    }

    /// Reads the finished parts from the file at `path`, if it exists. [`Self::add`] creates the file and its
    /// directory.
    ///
    /// # Errors
    /// Returns an error if the file exists but cannot be read.
    pub fn open(size: S, path: &Path) -> io::Result<(Self, Found)> {
        let mut state = Self {
            path: Some(path.to_owned()),
            ..Self::new(size)?
        };
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((state, Found::Nothing));
            }
            Err(error) => return Err(error),
        };
        // A file that another version wrote may have another format.
        let found = match serde_json::from_slice::<(Origin<S>, u32, Vec<P>)>(&text) {
            Ok((origin, resumed, parts)) if origin.is_same(&state.origin) => {
                state.origin = origin;
                state.resumed = resumed + 1;
                state.parts = parts;
                Found::Parts
            }
            _ => Found::Other,
        };
        Ok((state, found))
    }

    /// Returns the parameters of the reproduction.
    pub fn size(&self) -> &S {
        &self.origin.size
    }

    /// Returns the number of processors of this machine.
    pub fn processors(&self) -> usize {
        self.origin.program.processors
    }

    /// Returns this program, with the date when it began the first part.
    pub fn program(&self) -> &Program {
        &self.origin.program
    }

    /// Returns how often the reproduction was resumed.
    pub fn resumed(&self) -> u32 {
        self.resumed
    }

    /// Returns the finished parts.
    pub fn parts(&self) -> &[P] {
        &self.parts
    }

    /// Adds a finished part, and replaces the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn add(&mut self, part: P) -> io::Result<()> {
        self.parts.push(part);
        let Some(path) = &self.path else {
            return Ok(());
        };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let new = path.with_extension("new");
        fs::write(
            &new,
            serde_json::to_vec(&(&self.origin, self.resumed, &self.parts))?,
        )?;
        File::open(&new)?.sync_all()?;
        fs::rename(&new, path)
    }

    /// Returns the path of the file, which must be removed after the report is written.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(size: u64, path: &Path) -> (State<u64, String>, Found) {
        State::open(size, path).unwrap()
    }

    #[test]
    fn stored_parts_are_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new folder/state");
        let (mut state, found) = open(1, &path);
        assert_eq!(found, Found::Nothing);
        state.add("first".to_owned()).unwrap();
        state.add("second".to_owned()).unwrap();
        let (state, found) = open(1, &path);
        assert_eq!((found, state.resumed()), (Found::Parts, 1));
        assert_eq!(state.parts(), ["first", "second"]);
        assert_eq!(state.path(), Some(&*path));
    }

    #[test]
    fn resumed_reproduction_has_the_date_of_its_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let (mut state, _) = open(1, &path);
        state.origin.program.date = "2026-12-01T08:17:00Z".to_owned();
        state.add("part".to_owned()).unwrap();
        let (state, found) = open(1, &path);
        assert_eq!(found, Found::Parts);
        assert_eq!(state.program().date, "2026-12-01T08:17:00Z");
    }

    #[test]
    fn parts_with_other_parameters_or_of_another_program_are_discarded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let (mut state, _) = open(1, &path);
        state.add("part".to_owned()).unwrap();
        let (other, found) = open(2, &path);
        assert_eq!((found, other.parts().len()), (Found::Other, 0));
        state.origin.program.checksum ^= 1;
        state.add("part".to_owned()).unwrap();
        assert_eq!(open(1, &path).1, Found::Other);
        fs::write(&path, "another format").unwrap();
        assert_eq!(open(1, &path).1, Found::Other);
    }
}
