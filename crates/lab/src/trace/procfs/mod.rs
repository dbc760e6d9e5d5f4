//! Records the keys of kernel tables that are not caches: processes, users and memory areas.
//!
//! # Model
//! Lever 2000, section 6, leaves "the uid and pid hash tables, and the vma data structures" to future work. No
//! tracepoint reports lookups in these tables. Therefore a recording scans procfs several times a second. All
//! events of a scan have the same time. They are in this order: the removals of the keys that no longer exist,
//! the insertions of the new keys, and a lookup of each key that is present, in ascending order. Together, the
//! lookups of a trace are like lookups of random entries at random times. A replay shows how a hash function
//! distributes the keys that were in use. The longer a key was in use, the more weight it has.
//!
//! | table | key (object, index) | source |
//! |---|---|---|
//! | processes | 0, the number of a thread: as in Linux 2.2, each thread has an entry | directories in `PID/task` |
//! | users | 0, a user ID | the user IDs in `PID/status`, and accounts in `/etc/passwd` |
//! | areas | the number of the process, the first page of the area | `PID/maps` |
//!
//! The number of a process represents the address of its `mm_struct`, which procfs does not show. If two processes
//! share their memory without being threads of one process, their areas are counted separately.
//!
//! # Privacy
//! A recording contains only numbers: no names, paths or command lines.
//!
//! # Cost
//! A scan reads a file or a directory of each process. An entry takes about 100 bytes.

mod parse;

use super::Error;
use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Event, Operation};
use larder_trace::TraceEvent;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time between the end of a scan and the start of the next one.
const SCAN_INTERVAL: Duration = Duration::from_millis(250);

/// A kernel table that is not a cache, and whose keys can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyTable {
    /// The numbers of processes and their threads.
    Processes,
    /// The numbers of users.
    Users,
    /// The memory areas (VMAs) of all processes.
    Areas,
}

impl KeyTable {
    /// All tables.
    pub const ALL: &[Self] = &[Self::Processes, Self::Users, Self::Areas];

    /// Returns the name of the table, as on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Users => "users",
            Self::Areas => "areas",
        }
    }

    /// Returns the cache whose rows and hash functions represent the table in a trace: a number is an inode,
    /// and an area is a page of its process.
    #[must_use]
    pub fn cache(self) -> CacheKind {
        match self {
            Self::Processes | Self::Users => CacheKind::Inode,
            Self::Areas => CacheKind::Page,
        }
    }
}

/// Summary of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeySummary {
    /// Number of scans.
    pub scans: u64,
    /// Number of different keys.
    pub keys: u64,
    /// The largest number of keys in a scan.
    pub peak: u64,
    /// The largest number of processes in a scan whose files the recording process may not read.
    pub unreadable: u64,
}

/// A recording of the keys of one table.
#[derive(Debug)]
pub struct KeyRecorder {
    table: KeyTable,
    proc: PathBuf,
    accounts: PathBuf,
    page_bytes: u64,
    /// The keys of the last scan; for areas, each with its number of pages.
    present: Keys,
    seen: BTreeSet<HashKey>,
    summary: KeySummary,
}

/// Keys, each with the number of pages of its area, or 0.
type Keys = BTreeMap<HashKey, u64>;

impl KeyRecorder {
    /// Creates a recording of `table` on this machine.
    #[must_use]
    pub fn new(table: KeyTable) -> Self {
        Self::of(table, Path::new("/proc"), Path::new("/etc/passwd"))
    }

    /// Creates a recording from `proc`, a directory in the form of procfs, and `accounts`, a file in the form
    /// of passwd(5).
    #[must_use]
    pub fn of(table: KeyTable, proc: &Path, accounts: &Path) -> Self {
        Self {
            table,
            proc: proc.to_owned(),
            accounts: accounts.to_owned(),
            page_bytes: rustix::param::page_size() as u64,
            present: Keys::new(),
            seen: BTreeSet::new(),
            summary: KeySummary::default(),
        }
    }

    /// Scans once, and again until `stop` returns true. `stop` is called between two scans, and may wait for
    /// at most the duration that it receives. Calls `emit` with each event.
    ///
    /// # Errors
    /// Returns the errors of `emit`, and an error if the list of processes cannot be read.
    pub fn run(
        mut self,
        stop: &mut dyn FnMut(Duration) -> bool,
        emit: &mut dyn FnMut(TraceEvent) -> Result<(), Error>,
    ) -> Result<KeySummary, Error> {
        let began = Instant::now();
        loop {
            let time_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.scan(time_ns, emit)?;
            if stop(SCAN_INTERVAL) {
                return Ok(self.summary);
            }
        }
    }

    /// Scans the processes, and emits the events of the scan.
    fn scan(
        &mut self,
        time_ns: u64,
        emit: &mut dyn FnMut(TraceEvent) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (keys, unreadable) = self.keys()?;
        let table = self.table;
        let mut emit = |operation, key: &HashKey, pages: u64| {
            let event = Event {
                cache: table.cache(),
                operation,
                key: *key,
            };
            emit(TraceEvent {
                name_hash: pages,
                ..TraceEvent::new(time_ns, 0, event)
            })
        };
        // An area that grew or shrank counts as another area.
        let is_in = |keys: &Keys, key: &HashKey, pages: &u64| keys.get(key) == Some(pages);
        for (key, pages) in &self.present {
            if !is_in(&keys, key, pages) {
                emit(Operation::Remove, key, *pages)?;
            }
        }
        for (key, pages) in &keys {
            if !is_in(&self.present, key, pages) {
                emit(Operation::Insert, key, *pages)?;
                self.seen.insert(*key);
            }
        }
        for (key, pages) in &keys {
            emit(Operation::Lookup { hit: true }, key, *pages)?;
        }
        self.summary = KeySummary {
            scans: self.summary.scans + 1,
            keys: self.seen.len() as u64,
            peak: self.summary.peak.max(keys.len() as u64),
            unreadable: self.summary.unreadable.max(unreadable),
        };
        self.present = keys;
        Ok(())
    }

    /// Returns the present keys, and the number of processes that could not be read.
    fn keys(&self) -> io::Result<(Keys, u64)> {
        let mut keys = Keys::new();
        let mut unreadable = 0;
        if self.table == KeyTable::Users {
            let accounts = fs::read(&self.accounts).unwrap_or_default();
            keys.extend(parse::accounts(&accounts).map(|uid| (uid.into(), 0)));
        }
        for pid in numbers_in(&self.proc)? {
            let process = self.proc.join(pid.to_string());
            // Other errors mean that the process has ended.
            let read = self.keys_of(&process, pid, &mut keys);
            let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            unreadable += u64::from(read.is_err_and(is_denied));
        }
        Ok((keys, unreadable))
    }

    /// Adds the keys of the process whose directory is `process`.
    fn keys_of(&self, process: &Path, pid: u32, keys: &mut Keys) -> io::Result<()> {
        match self.table {
            KeyTable::Processes => {
                let threads = numbers_in(&process.join("task"))?;
                keys.extend(threads.into_iter().map(|thread| (thread.into(), 0)));
            }
            KeyTable::Users => {
                let status = fs::read(process.join("status"))?;
                let users = parse::users(&status).into_iter().flatten();
                keys.extend(users.map(|uid| (uid.into(), 0)));
            }
            KeyTable::Areas => {
                let maps = fs::read(process.join("maps"))?;
                let areas = parse::areas(&maps, self.page_bytes);
                keys.extend(areas.map(|(index, pages)| {
                    let object = pid.into();
                    (HashKey { object, index }, pages)
                }));
            }
        }
        Ok(())
    }
}

/// Returns the names in `folder` that are numbers.
pub(super) fn numbers_in(folder: &Path) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(folder)?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(names.collect())
}

#[cfg(test)]
mod tests;
