//! Keys of recorded lookups in caches.
//!
//! Without a trace, a volume with a tree of small files is recorded in process. First, each file is looked
//! up by its path and read, in order. Then the same number of lookups and reads follows, each of a random
//! file; popular files occur more often. The files consist of holes, which need no writes and result in the
//! same keys as content.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use larder::{OpenOptions, Volume};
use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::{Tolerance, TraceReader};
use larder_testkit::e2fsprogs::make_image_of;
use larder_testkit::requirement::Requirement;
use larder_trace::{Batch, Recording, TraceRecorder};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::hash_table::draws::{rank, shuffle, zipf};
use crate::hash_table::plan::Plan;
use crate::tree::folder_path;

/// The number of files in a directory.
const FOLDER_FILES: u32 = 100;

/// The size of the volume's caches. In a full run, the content of the files is larger, so that pages are
/// evicted and read again.
const CACHE_BYTES: u64 = 256 << 20;

/// Returns the reason why no volume can be recorded here, if there is one.
#[must_use]
pub fn missing() -> Option<String> {
    Requirement::Tool("mke2fs").missing()
}

/// Returns the first `most_objects` different keys (or fewer) that are looked up in `cache` according to
/// `trace`, and the first `lookups` lookups of these keys. If the trace has fewer lookups, they are
/// repeated from the beginning.
pub(super) fn keys(
    trace: &Path,
    cache: Option<CacheKind>,
    most_objects: u32,
    lookups: usize,
) -> Result<(Vec<HashKey>, Vec<HashKey>)> {
    let mut known = HashSet::new();
    let (mut objects, mut recorded) = (Vec::new(), Vec::new());
    let mut reader = TraceReader::open(trace, Tolerance::Whole)?;
    let mut batch = Batch::default();
    while recorded.len() < lookups && reader.read(&mut batch)? {
        let events = batch.events().filter(|event| {
            Some(event.cache) == cache && matches!(event.operation, Operation::Lookup { .. })
        });
        for key in events.map(|event| event.key()) {
            if objects.len() < most_objects as usize && known.insert(key) {
                objects.push(key);
            }
            if known.contains(&key) {
                recorded.push(key);
            }
        }
    }
    ensure!(
        !recorded.is_empty(),
        "{} has no lookups of the {} cache",
        trace.display(),
        cache.map_or("", CacheKind::as_str)
    );
    let order: Vec<HashKey> = recorded.iter().copied().cycle().take(lookups).collect();
    Ok((objects, order))
}

/// Records a volume with `plan.files` files. Returns the path of the trace, which is stored in `folder`.
pub(super) fn record(plan: &Plan, folder: &Path) -> Result<PathBuf> {
    let random = &mut Pcg64::seed_from_u64(plan.seed);
    let (source, image) = (folder.join("files"), folder.join("files.ext4"));
    let mut paths = make_files(&source, plan.files, random)?;
    let arguments = format!("-t ext4 -b 4096 -N {}", plan.files * 5 / 4 + 1_000);
    let size = format!("{}M", plan.files / 1_000 + 64);
    make_image_of(&source, &image, &arguments, &size)?;
    fs::remove_dir_all(&source)?;
    let trace = folder.join("files.parquet");
    let title = format!("a volume of {} files", plan.files);
    let recorder = TraceRecorder::start(&trace, &title, Recording::lossless())?;
    let mut options = OpenOptions::default();
    options.cache_size_bytes = CACHE_BYTES;
    options.tape = Some(recorder.tape());
    let volume = Volume::open(&image, &options)?;
    for path in &paths {
        read(&volume, path)?;
    }
    shuffle(&mut paths, random);
    let popular = zipf(paths.len());
    for _ in 0..paths.len() {
        read(&volume, &paths[rank(popular, random)])?;
    }
    drop(volume);
    recorder.finish()?;
    fs::remove_file(&image)?;
    Ok(trace)
}

/// Creates files of up to 128 KiB, most of them small, and returns their paths below `root`.
fn make_files(root: &Path, files: u32, random: &mut Pcg64) -> Result<Vec<String>> {
    let mut paths = Vec::with_capacity(files as usize);
    for number in 0..files {
        let folder = folder_path(number / FOLDER_FILES);
        if number % FOLDER_FILES == 0 {
            fs::create_dir_all(root.join(&folder))?;
        }
        let path = format!("{folder}/item-{number:05}");
        let most = 4096 << random.random_range(0..6);
        File::create(root.join(&path))?.set_len(random.random_range(0..=most))?;
        paths.push(path);
    }
    Ok(paths)
}

/// Looks up the file at `path` and reads all of it.
fn read(volume: &Volume, path: &str) -> Result<()> {
    let mut buf = [0; 16 << 10];
    let ino = volume.resolve(path.as_bytes())?;
    let mut offset = 0;
    loop {
        let bytes = volume.read_at(ino, &mut buf, offset)?;
        offset += bytes as u64;
        if bytes < buf.len() {
            return Ok(());
        }
    }
}
