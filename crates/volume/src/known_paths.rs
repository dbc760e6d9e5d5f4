//! The paths of files, as far as they follow from metadata in memory.
//!
//! # Model
//! `d_path` of Linux follows the dentries of a file up to the root. Larder's dentries have no references to each other.
//! Therefore the dentry cache is searched for the names of the wanted files, then for the names of their directories, and
//! so on. A file without a dentry may have been found in a listing, so its directory is searched, too, if the caller
//! knows it.
//!
//! # Cost
//! A search examines every bucket of the dentry cache. [`KnownNames`] keeps the names, so that usually one search
//! suffices. The searches take at most 1% of the time between them. A directory is searched only up to its first block
//! that is not in memory. No search counts as a lookup in a cache.

use crate::{Ino, Volume};
use larder_cache::Uncounted;
use larder_ext4::MemoryOnly;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// The maximum number of searches of the dentry cache for one query. With each search, the paths grow by one directory.
const MAX_SEARCHES: usize = 16;
/// The minimum pause before the next search, as a multiple of the time that the last search took.
const PAUSE_FACTOR: u32 = 100;
/// The maximum number of directories that are searched for one query.
const MAX_DIRECTORIES: usize = 32;
/// The maximum number of entries of these directories that are read for one query.
const MAX_ENTRIES: usize = 20_000;
/// The maximum number of names in a path. Deeper paths are not known.
const MAX_DEPTH: usize = 200;
/// The maximum length of a path, in bytes: that of Linux. Longer paths are not known.
const MAX_PATH_BYTES: usize = 4096;

/// The names that earlier queries have found. Only the names of the files of the last query and of their directories are
/// kept.
#[derive(Debug, Default)]
pub struct KnownNames {
    /// The directory of each file, and its name there.
    names: HashMap<Ino, (Ino, Box<[u8]>)>,
    /// Before this time, the dentry cache is not searched.
    next_search: Option<Instant>,
}

impl KnownNames {
    /// Returns the inodes on the way from `ino` to the root, without the root. Ends with the first inode that has no
    /// known name.
    fn way(&self, ino: Ino) -> impl Iterator<Item = Ino> {
        let parent = move |at: &Ino| Some(self.names.get(at)?.0);
        let way = std::iter::successors(Some(ino), parent).take(MAX_DEPTH);
        way.take_while(|&at| at != Ino::ROOT)
    }

    /// Returns the inodes without names on the ways from `inos` to the root.
    fn missing(&self, inos: &[Ino]) -> HashSet<Ino> {
        let ends = inos.iter().filter_map(|&ino| self.way(ino).last());
        ends.filter(|end| !self.names.contains_key(end)).collect()
    }

    /// Returns the path of `ino`, if all names are known.
    fn path(&self, ino: Ino) -> Option<Vec<u8>> {
        if ino == Ino::ROOT {
            return Some(b"/".to_vec());
        }
        let way = self.way(ino).map(|at| self.names.get(&at));
        let way: Vec<_> = way.collect::<Option<_>>()?;
        let (last, _) = way.last()?;
        let names = way.iter().rev().flat_map(|(_, name)| [&b"/"[..], &**name]);
        let len: usize = way.iter().map(|(_, name)| 1 + name.len()).sum();
        (*last == Ino::ROOT && len <= MAX_PATH_BYTES).then(|| names.collect::<Vec<_>>().concat())
    }
}

impl Volume {
    /// Returns the last known path of each file in `inos`, such as `/etc/passwd`, or `None` if it is not known. Does not
    /// wait for the device. `directory` may return a directory in which the file was found earlier.
    pub fn known_paths(
        &self,
        inos: &[Ino],
        directory: impl Fn(Ino) -> Option<Ino>,
        known: &mut KnownNames,
    ) -> Vec<Option<Vec<u8>>> {
        let start = Instant::now();
        let may_search = known.next_search.is_none_or(|next| next <= start);
        if may_search {
            // Renamed files have new names.
            let ways = inos.iter().flat_map(|&ino| known.way(ino)).collect();
            self.search_dentries(&ways, known);
        }
        let mut entries_left = MAX_ENTRIES;
        let mut searched = HashSet::new();
        for search in 0..MAX_SEARCHES {
            let missing = known.missing(inos);
            if missing.is_empty() {
                break;
            }
            let count = known.names.len();
            if may_search && search > 0 {
                self.search_dentries(&missing, known);
            }
            for ino in &missing {
                if !known.names.contains_key(ino)
                    && may_search
                    && searched.len() < MAX_DIRECTORIES
                    && let Some(directory) = directory(*ino)
                    && searched.insert(directory)
                {
                    self.search_directory(directory, &missing, known, &mut entries_left);
                }
            }
            if known.names.len() == count && search > 0 {
                break;
            }
        }
        if may_search {
            let pause = start.elapsed() * PAUSE_FACTOR;
            known.next_search = Some(Instant::now() + pause.min(Duration::from_mins(1)));
        }
        let used: HashSet<_> = inos.iter().flat_map(|&ino| known.way(ino)).collect();
        known.names.retain(|ino, _| used.contains(ino));
        inos.iter().map(|&ino| known.path(ino)).collect()
    }

    /// Adds the names of the files in `wanted` that the dentry cache contains. If a file has several names, a name that is
    /// already known is kept.
    fn search_dentries(&self, wanted: &HashSet<Ino>, known: &mut KnownNames) {
        let mut wanted: Vec<u32> = wanted.iter().map(|ino| ino.0).collect();
        wanted.sort_unstable();
        let is_wanted = |ino| wanted.binary_search(&ino).is_ok();
        let dentries = &self.inodes.caches.dentries;
        let mut found = Vec::new();
        dentries.find_names(&is_wanted, &mut |name| found.push(name));
        let places = found
            .into_iter()
            .map(|one| (Ino(one.ino), (Ino(one.parent), one.name)));
        let places: Vec<_> = places
            .filter(|(_, (_, name))| !matches!(&**name, b"." | b".."))
            .collect();
        let is_known = |(ino, place): &&(Ino, _)| known.names.get(ino) == Some(place);
        let confirmed: HashSet<_> = places
            .iter()
            .filter(is_known)
            .map(|(ino, _)| *ino)
            .collect();
        let new = places
            .into_iter()
            .filter(|(ino, _)| !confirmed.contains(ino));
        known.names.extend(new);
    }

    /// Adds the names of the files in `missing` that are in `directory`. Reads at most `entries_left` entries, and only
    /// from memory.
    fn search_directory(
        &self,
        directory: Ino,
        missing: &HashSet<Ino>,
        known: &mut KnownNames,
        entries_left: &mut usize,
    ) {
        let _memory_only = MemoryOnly::begin();
        let _uncounted = Uncounted::begin();
        // If a block is not in memory, the names in the following blocks are not found.
        let _ = self.list_from(directory, 0, &mut |entry| {
            if missing.contains(&entry.ino) && !matches!(entry.name, b"." | b"..") {
                known
                    .names
                    .insert(entry.ino, (directory, entry.name.into()));
            }
            *entries_left = entries_left.saturating_sub(1);
            if *entries_left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
    }
}
