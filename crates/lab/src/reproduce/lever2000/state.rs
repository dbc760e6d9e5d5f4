//! The finished rounds of a reproduction, kept in a file so that an interrupted reproduction can resume.
//!
//! # Invariants
//! 1. The file contains complete rounds only: one run of each kernel of a table under a load.
//! 2. All rounds in the file were measured by the same program, with the same parameters, and with the same
//!    number of processors. Rounds of another program or with other parameters are discarded.
//! 3. The file is replaced atomically, so that it is complete at any time.

use super::error::Error;
use super::kernel_run::KernelRun;
use super::size::Size;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The version of the format of the file.
const VERSION: u32 = 1;

/// The typical duration of a run of the full size in seconds. This includes the creation and removal of homes.
const RUN_S: usize = 16;

/// The finished rounds, and the file that contains them.
#[derive(Debug)]
pub struct State {
    path: Option<PathBuf>,
    content: Content,
}

/// What [`State::open`] found in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No file.
    Nothing,
    /// This number of finished runs.
    Runs(usize),
    /// Runs of another program or with other parameters, which are discarded.
    Other,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// Checksum of the executable file.
    program: u32,
    processors: usize,
    size: Size,
    /// How often the reproduction was resumed.
    resumed: u32,
    loads: Vec<StoredLoad>,
}

/// The finished rounds of a table under a load.
#[derive(Debug, Serialize, Deserialize)]
struct StoredLoad {
    table: u32,
    users: u32,
    turn_passes: u32,
    rounds: Vec<Vec<KernelRun>>,
}

impl Content {
    fn new(size: Size) -> Result<Self, Error> {
        let program = std::env::current_exe().and_then(fs::read);
        Ok(Self {
            version: VERSION,
            program: crc32c::crc32c(&program.map_err(Error::State)?),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            size,
            resumed: 0,
            loads: Vec::new(),
        })
    }

    fn has_parameters_of(&self, other: &Self) -> bool {
        let of = |content: &Self| {
            let Self {
                version,
                program,
                processors,
                size,
                ..
            } = *content;
            (version, program, processors, size)
        };
        of(self) == of(other)
    }
}

impl State {
    /// Creates a state without finished rounds and without a file.
    ///
    /// # Errors
    /// [`Error::State`] if the executable file cannot be read.
    pub fn new(size: Size) -> Result<Self, Error> {
        Ok(Self {
            path: None,
            content: Content::new(size)?,
        })
    }

    /// Reads the finished rounds from the file at `path`. The first round creates the file and its directory.
    ///
    /// # Errors
    /// [`Error::State`] if the file exists but cannot be read.
    pub fn open(size: Size, path: &Path) -> Result<(Self, Found), Error> {
        let mut state = Self {
            path: Some(path.to_owned()),
            ..Self::new(size)?
        };
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((state, Found::Nothing));
            }
            Err(error) => return Err(Error::State(error)),
        };
        // A file that another version wrote may have another format.
        let found = match serde_json::from_slice::<Content>(&text) {
            Ok(mut content) if content.has_parameters_of(&state.content) => {
                content.resumed += 1;
                state.content = content;
                Found::Runs(state.finished_runs())
            }
            _ => Found::Other,
        };
        Ok((state, found))
    }

    /// Returns the size of the reproduction.
    #[must_use]
    pub fn size(&self) -> Size {
        self.content.size
    }

    /// Returns the number of finished runs.
    #[must_use]
    pub fn finished_runs(&self) -> usize {
        let loads = self.content.loads.iter();
        loads.flat_map(|load| &load.rounds).map(Vec::len).sum()
    }

    /// Returns the estimated duration of the runs that are not finished, in minutes.
    #[must_use]
    pub fn estimated_minutes(&self) -> usize {
        let left = self.size().total_runs() - self.finished_runs();
        left * RUN_S / 60
    }

    /// Returns how often the reproduction was resumed.
    #[must_use]
    pub fn resumed(&self) -> u32 {
        self.content.resumed
    }

    /// Returns the number of processors of this machine.
    pub(super) fn processors(&self) -> usize {
        self.content.processors
    }

    fn load(&self, table: u32, users: u32) -> Option<&StoredLoad> {
        let mut loads = self.content.loads.iter();
        loads.find(|load| (load.table, load.users) == (table, users))
    }

    /// Returns the finished rounds of a table under a load.
    pub(super) fn rounds(&self, table: u32, users: u32) -> &[Vec<KernelRun>] {
        self.load(table, users).map_or(&[], |load| &load.rounds)
    }

    /// Returns the number of passes of a turn in the finished rounds; `None` if there are no rounds.
    pub(super) fn turn_passes(&self, table: u32, users: u32) -> Option<u32> {
        Some(self.load(table, users)?.turn_passes)
    }

    /// Adds a finished round, and replaces the file.
    pub(super) fn add(
        &mut self,
        table: u32,
        users: u32,
        turn_passes: u32,
        round: Vec<KernelRun>,
    ) -> Result<(), Error> {
        let loads = &mut self.content.loads;
        match loads
            .iter_mut()
            .find(|load| (load.table, load.users) == (table, users))
        {
            Some(load) => load.rounds.push(round),
            None => loads.push(StoredLoad {
                table,
                users,
                turn_passes,
                rounds: vec![round],
            }),
        }
        self.write().map_err(Error::State)
    }

    fn write(&self) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec(&self.content)?)?;
        File::open(&new)?.sync_all()?;
        fs::rename(&new, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> KernelRun {
        let text =
            r#"{"scripts":1,"elapsed_s":0.1,"processor_s":0.3,"device_reads":2,"caches":[]}"#;
        serde_json::from_str(text).unwrap()
    }

    fn open(size: Size, path: &Path) -> (State, Found) {
        State::open(size, path).unwrap()
    }

    #[test]
    fn stored_rounds_are_found_again_until_the_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new folder/state");
        let (mut state, found) = open(Size::full(1), &path);
        assert_eq!(found, Found::Nothing);
        state.add(1, 16, 7, vec![run(), run()]).unwrap();
        state.add(1, 16, 7, vec![run(), run()]).unwrap();
        state.add(1, 32, 5, vec![run(), run()]).unwrap();
        let (state, found) = open(Size::full(1), &path);
        assert_eq!((found, state.resumed()), (Found::Runs(6), 1));
        assert_eq!(state.rounds(1, 16).len(), 2);
        assert_eq!(state.turn_passes(1, 32), Some(5));
        assert!(state.rounds(2, 16).is_empty());
        let stored = serde_json::to_string(&state.rounds(1, 16)[1][1]).unwrap();
        assert_eq!(stored, serde_json::to_string(&run()).unwrap());
        fs::remove_file(&path).unwrap();
        assert_eq!(open(Size::full(1), &path).1, Found::Nothing);
    }

    #[test]
    fn rounds_with_other_parameters_or_of_another_program_are_discarded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let (mut state, _) = open(Size::full(1), &path);
        state.add(1, 16, 7, vec![run()]).unwrap();
        let (other, found) = open(Size::full(2), &path);
        assert_eq!((found, other.finished_runs()), (Found::Other, 0));
        state.content.program ^= 1;
        state.add(1, 16, 7, vec![run()]).unwrap();
        assert_eq!(open(Size::full(1), &path).1, Found::Other);
        fs::write(&path, "another format").unwrap();
        assert_eq!(open(Size::full(1), &path).1, Found::Other);
    }
}
