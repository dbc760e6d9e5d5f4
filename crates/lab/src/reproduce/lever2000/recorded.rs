//! Measures the tables whose keys the document leaves to future work: of processes, users and memory areas.
//!
//! # Model
//! Section 6: "there is still opportunity to analyze even more carefully the real keys and hash functions in use
//! in [...] several tables we didn't visit in this report, such as the uid and pid hash tables, and the vma data
//! structures." The keys were recorded by `larder lab record --keys`, and are replayed in the caches' own table
//! with the functions of that time and of today. All lookups hit: see [`crate::trace::procfs`].
//!
//! For comparison, the same number of keys is distributed at random, [`DRAWS`] times. Each row also has the
//! expected links of such distributions, and the ranges of their links and of their longest chains.
//!
//! Linux 2.2 finds a memory area by any address in it. It searches a list in the order of the addresses or an AVL tree,
//! which it builds when a process gets its 32nd area (`insert_vm_struct` in `mm/mmap.c`). The tree remains when the
//! process has fewer areas again, until none is left: `do_munmap` only removes areas from it. Areas that exist only
//! between two scans of the recording are unknown. Linux 2.4 uses red-black trees instead. [`AreaSearch`] compares
//! both, a list for any number of areas, and the best possible binary tree. The AVL tree is not built: its depth is
//! between that of the best possible tree and the greatest height of an AVL tree. A hash table finds an area only by
//! one known page, such as its first.

use super::error::Error;
use crate::hash::{self, BatchConsumer, Capacity, Combination, Row, Source, Wanted};
use crate::run_report::{as_f64, quotient, ratio};
use crate::trace::procfs::KeyTable;
use crate::trace::{self, Tolerance, TraceReader};
use crate::workload::chance::generator;
use larder_cache::hash::Function;
use larder_cache::tables::Finder;
use larder_cache::tape::Operation;
use larder_trace::{Batch, TraceEvent};
use rand::Rng;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// Number of random distributions.
const DRAWS: usize = 1000;

/// Number of random distributions that are outside of a range at each of its ends, so that 95% are inside.
const OUTSIDE: usize = DRAWS / 40;

/// A recording, and the tables in which it is replayed.
struct Recording {
    table: KeyTable,
    trace: &'static [u8],
    /// Sizes of the tables, as log2 of the number of buckets.
    bits: &'static [u32],
    finders: &'static [Finder],
}

/// The recordings. The sizes of the tables are the sizes in Linux 2.2, and sizes with a bucket for each key. For
/// processes, there is also the size in Linux 2.4; for users, there is also the size in current Linux.
const RECORDINGS: [Recording; 3] = [
    Recording {
        table: KeyTable::Processes,
        trace: include_bytes!("recorded/processes.parquet"),
        bits: &[7, 8, 10],
        finders: &[
            Finder::Function(Function::PidReference),
            Finder::Function(Function::Pid4000Slots),
            Finder::Function(Function::InodeMult),
            Finder::Function(Function::Hash64),
            Finder::Function(Function::Golden),
            Finder::Function(Function::Murmur64),
        ],
    },
    Recording {
        table: KeyTable::Users,
        trace: include_bytes!("recorded/users.parquet"),
        bits: &[5, 7],
        finders: &[
            Finder::Function(Function::PidReference),
            Finder::Function(Function::UidAdd),
            Finder::Function(Function::InodeMult),
            Finder::Function(Function::Golden),
            Finder::Function(Function::Murmur64),
        ],
    },
    Recording {
        table: KeyTable::Areas,
        trace: include_bytes!("recorded/areas.parquet"),
        bits: &[11, 13],
        finders: &[
            Finder::Function(Function::PageReference),
            Finder::Function(Function::PageOffset),
            Finder::Function(Function::PageMult),
            Finder::Function(Function::PageReference64),
            Finder::Function(Function::PageOffset64),
            Finder::Function(Function::PageMult64),
            Finder::Function(Function::Golden),
            Finder::Function(Function::Murmur64),
            Finder::RedBlackTrees,
        ],
    },
];

/// Number of areas at which Linux 2.2 builds an AVL tree (`AVL_MIN_MAP_COUNT`).
const AVL_MIN_AREAS: usize = 32;

/// The only size of the table of a kernel with 4000 process slots.
pub(super) const BITS_OF_4000_SLOTS: u32 = 10;

/// The results of a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordedKeys {
    /// The name of the table.
    pub table: &'static str,
    /// The description in the trace.
    pub source: String,
    /// Number of different keys.
    pub keys: u64,
    /// The largest number of keys at any time.
    pub peak: u64,
    pub lookups: u64,
    /// The results of each table and function.
    pub rows: Vec<RecordedRow>,
    /// The search for memory areas without a hash table.
    pub search: Option<AreaSearch>,
}

/// The results of one function and size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RecordedRow {
    pub function: Function,
    pub bits: u32,
    /// Mean links of a lookup.
    pub links: f64,
    /// The expected mean links of a lookup in a random distribution.
    pub random_links: f64,
    /// The range of the mean links in 95% of random distributions.
    pub random_links_range: [f64; 2],
    pub longest: u64,
    /// The range of the longest chain in 95% of random distributions.
    pub random_longest_range: [u64; 2],
}

/// Mean numbers of areas that are compared with an address.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AreaSearch {
    /// In a list in the order of the addresses, for any number of areas.
    pub list: f64,
    /// In the list and the AVL tree of Linux 2.2: the smallest and the largest possible number.
    pub linux_2_2: [f64; 2],
    /// In a perfectly balanced binary tree: no other binary tree compares fewer.
    pub balanced: f64,
    /// In red-black trees.
    pub red_black: f64,
    /// Number of processes with areas.
    pub processes: u64,
    /// Number of areas of the process with the most areas.
    pub most_areas: u64,
    /// Number of pages in all areas, at the end of the recording.
    pub pages: u64,
    /// Number of areas, at the end of the recording.
    pub areas: u64,
}

impl RecordedKeys {
    /// Returns the row of a function and a size.
    pub(super) fn row(&self, function: Function, bits: u32) -> Option<&RecordedRow> {
        let mut rows = self.rows.iter();
        rows.find(|row| (row.function, row.bits) == (function, bits))
    }
}

/// Replays all recordings.
pub(super) fn measure() -> Result<Vec<RecordedKeys>, Error> {
    RECORDINGS.iter().map(Recording::measure).collect()
}

impl Recording {
    fn measure(&self) -> Result<RecordedKeys, Error> {
        let recorded = Events::read(self.trace).map_err(|source| {
            let path = PathBuf::from(self.table.as_str());
            hash::Error::Trace { path, source }
        })?;
        let cache = self.table.cache();
        let wanted = Wanted::default().with(cache, Capacity::AsRecorded);
        let surveys = hash::survey(&recorded, wanted)?;
        let survey = surveys[&cache];
        let outcomes = hash::replay(
            &recorded,
            wanted,
            &surveys,
            &self.combinations(),
            &mut |_| (),
        )?;
        let rows: Vec<Row> = outcomes
            .iter()
            .map(|outcome| Row::new(outcome, &survey))
            .collect();
        let objects = rows.first().map_or(0, |row| row.objects);
        let random: BTreeMap<u32, Random> = self
            .bits
            .iter()
            .map(|bits| (*bits, Random::draw(objects, *bits)))
            .collect();
        let of_function = |row: &Row| match row.function {
            Finder::Function(function) => Some(RecordedRow {
                function,
                bits: row.bits,
                links: row.links.lookup,
                random_links: survey.chance(row.bits).lookup,
                random_links_range: random[&row.bits].links,
                longest: row.chains?.longest_chain,
                random_longest_range: random[&row.bits].longest,
            }),
            Finder::Larder | Finder::RedBlackTrees => None,
        };
        let trees = rows
            .iter()
            .find(|row| row.function == Finder::RedBlackTrees);
        let keys: BTreeSet<_> = recorded.events.iter().map(TraceEvent::key).collect();
        Ok(RecordedKeys {
            table: self.table.as_str(),
            source: recorded.source.clone(),
            keys: keys.len() as u64,
            peak: survey.peak_objects,
            lookups: survey.lookups,
            rows: rows.iter().filter_map(of_function).collect(),
            search: trees.map(|row| AreaSearch::of(&recorded.events, row.links.lookup)),
        })
    }

    fn combinations(&self) -> Vec<Combination> {
        let cache = self.table.cache();
        let of_size = |bits: u32| {
            let finders = self.finders.iter().copied().filter(move |finder| {
                *finder != Finder::Function(Function::Pid4000Slots) || bits == BITS_OF_4000_SLOTS
            });
            finders.map(move |function| Combination {
                cache,
                function,
                bits,
            })
        };
        self.bits.iter().copied().flat_map(of_size).collect()
    }
}

/// The ranges of 95% of random distributions.
struct Random {
    links: [f64; 2],
    longest: [u64; 2],
}

impl Random {
    /// Distributes `objects` over 2^`bits` buckets at random, [`DRAWS`] times.
    fn draw(objects: u64, bits: u32) -> Self {
        let mut random = generator(u64::from(bits), objects);
        let draws = (0..DRAWS).map(|_| {
            let mut chains = vec![0_u64; 1 << bits];
            for _ in 0..objects {
                chains[random.random_range(0..1 << bits)] += 1;
            }
            let links = chains.iter().map(|length| length * (length + 1) / 2);
            let longest = chains.iter().copied().max().unwrap_or(0);
            (quotient(links.sum(), objects), longest)
        });
        let (mut links, mut longest): (Vec<f64>, Vec<u64>) = draws.unzip();
        links.sort_by(f64::total_cmp);
        longest.sort_unstable();
        Self {
            links: [links[OUTSIDE], links[DRAWS - 1 - OUTSIDE]],
            longest: [longest[OUTSIDE], longest[DRAWS - 1 - OUTSIDE]],
        }
    }
}

impl AreaSearch {
    /// Replays `events` of memory areas. `red_black` is the mean number of areas that red-black trees compare.
    fn of(events: &[TraceEvent], red_black: f64) -> Self {
        let mut spaces: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
        let mut with_tree = BTreeSet::new();
        let (mut lookups, mut list, mut balanced, mut most_areas) = (0, 0, 0.0, 0);
        let mut linux_2_2 = [0.0_f64; 2];
        for event in events {
            let areas = spaces.entry(event.inode).or_default();
            match event.operation {
                Operation::Insert => {
                    areas.insert(event.index, event.name_hash);
                    if areas.len() >= AVL_MIN_AREAS {
                        with_tree.insert(event.inode);
                    }
                }
                Operation::Remove | Operation::Evict => {
                    areas.remove(&event.index);
                    if areas.is_empty() {
                        with_tree.remove(&event.inode);
                    }
                }
                Operation::Lookup { .. } => {
                    lookups += 1;
                    let in_list = areas.range(..=event.index).count() as u64;
                    let in_tree = balanced_depth(areas.len());
                    list += in_list;
                    balanced += in_tree;
                    let compared = if with_tree.contains(&event.inode) {
                        [in_tree, avl_height(areas.len())]
                    } else {
                        [as_f64(in_list); 2]
                    };
                    for (sum, compared) in linux_2_2.iter_mut().zip(compared) {
                        *sum += compared;
                    }
                }
            }
            most_areas = most_areas.max(areas.len() as u64);
        }
        let at_end = spaces.values().filter(|areas| !areas.is_empty());
        let (processes, areas, pages) = at_end.fold((0, 0, 0), |(processes, all, pages), areas| {
            (
                processes + 1,
                all + areas.len() as u64,
                pages + areas.values().sum::<u64>(),
            )
        });
        Self {
            list: quotient(list, lookups),
            linux_2_2: linux_2_2.map(|compared| ratio(compared, as_f64(lookups))),
            balanced: ratio(balanced, as_f64(lookups)),
            red_black,
            processes,
            most_areas,
            pages,
            areas,
        }
    }
}

/// Returns the mean depth of the nodes of a perfectly balanced binary tree, where the root has the depth 1.
fn balanced_depth(nodes: usize) -> f64 {
    let depths = (1..=nodes as u64).map(|node| u64::from(node.ilog2()) + 1);
    quotient(depths.sum(), nodes as u64)
}

/// Returns an upper bound of the height of an AVL tree (Knuth, The Art of Computer Programming, volume 3, section 6.2.3,
/// theorem A).
fn avl_height(nodes: usize) -> f64 {
    1.4405 * as_f64(nodes as u64 + 2).log2() - 0.3277
}

/// A trace in memory.
struct Events {
    source: String,
    events: Vec<TraceEvent>,
}

impl Events {
    fn read(trace: &[u8]) -> Result<Self, trace::Error> {
        let file = memfd_create("trace", MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let file = File::from(file);
        file.write_all_at(trace, 0)?;
        let mut reader = TraceReader::of(file, Tolerance::Whole)?;
        let (mut events, mut batch) = (Vec::new(), Batch::default());
        while reader.read(&mut batch)? {
            events.extend(batch.events());
        }
        Ok(Self {
            source: reader.info().source.clone(),
            events,
        })
    }
}

impl Source for Events {
    fn title(&self) -> String {
        self.source.clone()
    }

    fn events(&self) -> u64 {
        self.events.len() as u64
    }

    fn has_changes(&self) -> bool {
        true
    }

    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), hash::Error> {
        each(&mut self.events.iter().copied());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_cache::hash::HashKey;
    use larder_cache::tape::{CacheKind, Event};
    use std::ops::Range;

    #[test]
    fn random_distribution_of_many_keys_has_the_expected_links() {
        let Random { links, longest } = Random::draw(1024, 10);
        let expected = 1.0 + 1023.0 / 1024.0 / 2.0;
        assert!(links[0] < expected && expected < links[1], "{links:?}");
        assert!(links[1] - links[0] < 0.15, "{links:?}");
        assert!(4 <= longest[0] && longest[1] <= 9, "{longest:?}");
    }

    #[test]
    fn balanced_tree_has_the_smallest_mean_depth() {
        let depths = [(1, 1.0), (3, 5.0 / 3.0), (7, 17.0 / 7.0), (8, 21.0 / 8.0)];
        for (nodes, depth) in depths {
            assert!((balanced_depth(nodes) - depth).abs() < 1e-12, "{nodes}");
        }
    }

    /// Fibonacci trees have the fewest nodes of all AVL trees of their height.
    #[test]
    fn fibonacci_trees_are_almost_as_high_as_the_bound() {
        for (nodes, height) in [(4, 3.0), (7, 4.0), (33, 7.0), (54, 8.0)] {
            let bound = avl_height(nodes);
            assert!((height..height + 0.5).contains(&bound), "{nodes}: {bound}");
        }
    }

    #[test]
    fn process_keeps_its_tree_until_it_has_no_areas() {
        let events = |operation, pages: Range<u64>| {
            pages.map(move |index| {
                let key = HashKey { object: 7, index };
                let cache = CacheKind::Page;
                let event = Event {
                    cache,
                    operation,
                    key,
                };
                TraceEvent::new(0, 0, event)
            })
        };
        let full = events(Operation::Insert, 0..32);
        let last_of_30 = events(Operation::Lookup { hit: true }, 29..30);
        let fewer = full.clone().chain(events(Operation::Remove, 30..32));
        let fewer: Vec<_> = fewer.chain(last_of_30.clone()).collect();
        let [least, most] = AreaSearch::of(&fewer, 1.0).linux_2_2;
        assert_eq!((least, most), (balanced_depth(30), avl_height(30)));
        let new = full.chain(events(Operation::Remove, 0..32));
        let new = new.chain(events(Operation::Insert, 0..30));
        let new: Vec<_> = new.chain(last_of_30).collect();
        let [least, most] = AreaSearch::of(&new, 1.0).linux_2_2;
        assert_eq!((least, most), (30.0, 30.0));
    }

    #[test]
    fn linux_2_2_compares_no_more_areas_than_a_list() {
        let search = RECORDINGS[2].measure().unwrap().search.unwrap();
        let [least, most] = search.linux_2_2;
        assert!(
            search.balanced < least && least < most && most < search.list,
            "{search:?}"
        );
    }

    #[test]
    fn recordings_contain_only_numbers() {
        for recording in &RECORDINGS {
            let events = Events::read(recording.trace).unwrap();
            let (table, kernel) = events.source.split_once(", kernel ").unwrap();
            assert_eq!(table, format!("keys of {}", recording.table.as_str()));
            assert!(!kernel.contains(' '), "{kernel}");
            assert!(
                events
                    .events
                    .iter()
                    .all(|event| event.cache == recording.table.cache())
            );
        }
    }

    #[test]
    fn mask_of_4000_process_slots_lengthens_chains_of_recorded_processes() {
        let measured = RECORDINGS[0].measure().unwrap();
        let row = |function| *measured.row(function, 10).unwrap();
        let (slots, reference) = (row(Function::Pid4000Slots), row(Function::PidReference));
        assert!(slots.links > slots.random_links_range[1], "{slots:?}");
        assert!(reference.links < slots.links && reference.longest < slots.longest);
    }
}
