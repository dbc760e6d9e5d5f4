//! Repeats a recording of a volume with a separate implementation, and compares the counts with the
//! volume's.

use super::read_rest;
use larder::{Ino, OpenOptions, Tables, Volume};
use larder_cache::hash::HashKey;
use larder_cache::table::HashFunction as _;
use larder_cache::tables::Finder;
use larder_cache::tape::Operation;
use larder_lab::trace::{Tolerance, TraceReader};
use larder_testkit::e2fsprogs::make_image_of;
use larder_testkit::{Random, Requirement, Seed, skip};
use larder_trace::{Recording, TraceEvent, TraceRecorder};
use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A short hash table: chains with the latest entry first.
#[derive(Default)]
struct Chains {
    buckets: HashMap<u32, Vec<HashKey>>,
    lookups: u64,
    hits: u64,
    links_on_hits: u64,
    links_on_misses: u64,
    objects: u64,
}

impl Chains {
    fn follow(&mut self, event: &TraceEvent, finder: Finder, bits: u32) {
        let Finder::Function(function) = finder else {
            panic!("{finder} has no named function");
        };
        let key = event.key();
        let chain = self.buckets.entry(function.bucket(key, bits)).or_default();
        let at = chain.iter().position(|other| *other == key);
        match event.operation {
            Operation::Lookup { hit } => {
                assert_eq!(hit, at.is_some(), "{event:?}");
                self.lookups += 1;
                match at {
                    Some(at) => {
                        self.hits += 1;
                        self.links_on_hits += at as u64 + 1;
                    }
                    None => self.links_on_misses += chain.len() as u64,
                }
            }
            Operation::Insert => {
                chain.insert(0, key);
                self.objects += 1;
            }
            Operation::Remove | Operation::Evict => {
                chain.remove(at.expect("a removed key is present"));
                self.objects -= 1;
            }
        }
    }
}

/// Looks up names and reads files, so many that a small cache evicts.
fn use_volume(volume: &Volume, random: &mut Random) {
    let mut found = vec![Ino(2)];
    let mut next = 0;
    while let Some(&directory) = found.get(next) {
        next += 1;
        let mut names = Vec::new();
        let listed = volume.read_dir(directory, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." && entry.name.len() < 39 {
                names.push(entry.name.to_vec());
            }
            ControlFlow::Continue(())
        });
        if listed.is_ok() {
            let inodes = names
                .iter()
                .map(|name| volume.lookup(directory, name).unwrap());
            found.extend(inodes);
        }
    }
    let mut page = [0; 4096];
    for _ in 0..20_000 {
        let ino = *random.choose(&found).unwrap();
        // Directories and links return an error.
        let _ = volume.read_at(ino, &mut page, random.below(7) * 4096);
        let name = format!("absent{}", random.below(3000));
        assert!(volume.lookup(Ino(2), name.as_bytes()).is_err());
    }
}

/// Creates an image with 20 directories of 40 files, with several pages each.
pub fn make_image(dir: &Path) -> PathBuf {
    let (tree, image) = (dir.join("tree"), dir.join("image"));
    for directory in 0..20_usize {
        let path = tree.join(format!("directory{directory}"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..40 {
            let content = vec![1; 4096 * (1 + (directory + file) % 7)];
            fs::write(path.join(format!("file{file}")), content).unwrap();
        }
    }
    make_image_of(&tree, &image, "-t ext4", "32M").unwrap();
    image
}

/// Records the use of a volume with these `tables`, whose caches have `memory_bytes`.
pub fn record(
    image: &Path,
    path: &Path,
    tables: &str,
    memory_bytes: u64,
    seed: Seed,
) -> larder::Stats {
    let recorder = TraceRecorder::start(path, "a test", Recording::lossless()).unwrap();
    let mut options = OpenOptions::default();
    options.cache_size_bytes = memory_bytes;
    options.readahead_max_bytes = 0;
    options.tables = tables.parse::<Tables>().unwrap();
    options.tape = Some(recorder.tape());
    let volume = Volume::open(image, &options).unwrap();
    use_volume(&volume, &mut Random::new(seed));
    let stats = volume.stats();
    drop(volume);
    assert_eq!(recorder.finish().unwrap().lost, 0);
    stats
}

#[test]
fn replay_of_a_recorded_volume_gives_the_same_counts() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let seed = Seed::from_environment(5);
    let images = tempfile::tempdir().unwrap();
    let image = make_image(images.path());
    for tables in [
        "reference+iget=all",
        "A+iget=all",
        "B",
        "D+page=mult/6+inode=golden/4+iget=all",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let stats = record(&image, &path, tables, 1 << 20, seed);
        let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
        let events = read_rest(&mut reader).unwrap();
        for (cache, of) in stats.caches() {
            let mut chains = Chains::default();
            let mut removals = 0;
            for event in events.iter().filter(|event| event.cache == cache) {
                chains.follow(event, of.finder, of.buckets.ilog2());
                removals += u64::from(matches!(
                    event.operation,
                    Operation::Remove | Operation::Evict
                ));
            }
            let counts = (chains.lookups, chains.hits, chains.objects);
            assert_eq!(
                counts,
                (of.lookups, of.hits, of.objects),
                "{tables}, {cache:?}, {seed}"
            );
            // A hit by a reference is recorded, but walks no link.
            let uses_references = tables == "B" && cache == larder::CacheKind::Inode;
            assert_eq!(of.by_reference > 0, uses_references, "{tables}, {cache:?}");
            let links = (chains.links_on_hits, chains.links_on_misses);
            let counted = (of.links_on_hits, of.links_on_misses);
            assert_eq!(
                links == counted,
                !uses_references,
                "{tables}, {cache:?}, {seed}"
            );
            assert!(of.lookups > 0 && chains.hits < chains.lookups, "{cache:?}");
            if cache == larder::CacheKind::Page {
                assert!(removals > 1000, "only {removals} pages were evicted");
            }
        }
    }
}
