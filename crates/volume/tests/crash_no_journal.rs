//! Power cuts at writes to images without a journal, each followed by a repair with e2fsck.
//!
//! A second run of e2fsck after `e2fsck -fy` must find nothing. After the repair:
//! 1. Content that was synced exists, under the file's name or in `lost+found`, unless the file was
//!    removed.
//! 2. No file contains a byte of another file, or of a free block. To check this, each eight bytes
//!    of content contain the number of their file and their offset.
//!
//! `LARDER_CRASH=full` (`make crash`) tries 20 workloads on each layout instead of one. The device is in
//! memory. One workload also runs on files, with each back end, and in memory with requests that complete out of order. A
//! failure prints the seed. If `LARDER_SEED` is set to that seed, a test runs only this workload.

use larder::{FileKind, Ino, NewFile, OpenOptions, RenameFlags, Volume};
use larder_block::BlockDevice;
use larder_instruments::{OverlayDevice, PowerCuts, RecordingDevice};
use larder_testkit::crash::{layout, open};
use larder_testkit::e2fsprogs::{self, e2fsck};
use larder_testkit::seed::mix;
use larder_testkit::{Medium, Random, Requirement, Seed, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::Path;

const OPERATIONS: u32 = 260;
const STATES: usize = 24;
const STATES_ON_FILES: usize = 3;
const FULL_WORKLOADS: usize = 20;

/// Returns the content of file `id` from `offset_bytes` on.
fn content(id: u32, offset_bytes: u64, len: usize) -> Vec<u8> {
    let words = (offset_bytes / 8..).take(len / 8);
    words.flat_map(|word| word_of(id, word)).collect()
}

fn word_of(id: u32, word: u64) -> [u8; 8] {
    let place = u32::try_from(word).expect("small files");
    (u64::from(place) << 32 | u64::from(id)).to_le_bytes()
}

/// A file of the workload.
#[derive(Debug)]
struct File {
    id: u32,
    ino: Ino,
    directory: usize,
    written: Vec<Range<u64>>,
}

/// The durable content of a file.
#[derive(Debug)]
struct Durable {
    id: u32,
    written: Vec<Range<u64>>,
    /// The number of device changes after which the content is durable.
    since: usize,
    /// The number of device changes when the removal of the file began.
    until: usize,
}

struct Workload<'a> {
    volume: &'a Volume,
    position: &'a dyn Fn() -> usize,
    random: Random,
    directories: Vec<Ino>,
    files: Vec<File>,
    durable: Vec<Durable>,
    next_id: u32,
}

fn name(id: u32) -> Vec<u8> {
    // The name is long, so that directories grow and their blocks are split.
    format!("{id}-{}", "n".repeat(90)).into_bytes()
}

fn new_file() -> NewFile {
    NewFile {
        permissions: 0o644,
        umask: 0,
        uid: 0,
        gid: 0,
    }
}

impl Workload<'_> {
    fn any(&mut self, count: usize) -> usize {
        usize::try_from(self.random.below(count as u64)).expect("an index")
    }

    fn step(&mut self) {
        let choice = self.random.below(100);
        if self.files.len() < 4 || choice < 30 {
            self.create();
            return;
        }
        let at = self.any(self.files.len());
        match choice {
            30..55 => self.write(at),
            55..75 => self.sync(at),
            75..90 => self.remove(at),
            90..97 => self.rename(at),
            _ => {
                self.volume.sync().expect("sync");
                for at in 0..self.files.len() {
                    self.note(at);
                }
            }
        }
    }

    fn create(&mut self) {
        let (id, directory) = (self.next_id, self.any(2));
        self.next_id += 1;
        let parent = self.directories[directory];
        let made = self.volume.create(parent, &name(id), &new_file());
        let ino = made.expect("create").ino;
        let written = Vec::new();
        self.files.push(File {
            id,
            ino,
            directory,
            written,
        });
        self.write(self.files.len() - 1);
    }

    /// Writes some blocks that are not adjacent to other blocks, so that the mapping grows.
    fn write(&mut self, at: usize) {
        let start = self.random.below(64) * 8192;
        let len = 1024 * (1 + self.any(8));
        let file = &mut self.files[at];
        let bytes = content(file.id, start, len);
        let written = self.volume.write_all_at(file.ino, &bytes, start);
        written.expect("write");
        file.written.push(start..start + len as u64);
    }

    fn sync(&mut self, at: usize) {
        self.volume
            .sync_file(self.files[at].ino, false)
            .expect("fsync");
        self.note(at);
    }

    /// Records that the written content of the file is durable.
    fn note(&mut self, at: usize) {
        let file = &self.files[at];
        self.durable.push(Durable {
            id: file.id,
            written: file.written.clone(),
            since: (self.position)(),
            until: usize::MAX,
        });
    }

    fn remove(&mut self, at: usize) {
        let file = self.files.swap_remove(at);
        let position = (self.position)();
        for durable in self
            .durable
            .iter_mut()
            .filter(|durable| durable.id == file.id)
        {
            durable.until = position;
        }
        let parent = self.directories[file.directory];
        self.volume.unlink(parent, &name(file.id)).expect("unlink");
    }

    fn rename(&mut self, at: usize) {
        let file = &mut self.files[at];
        let [from, to] = [file.directory, 1 - file.directory].map(|at| self.directories[at]);
        file.directory = 1 - file.directory;
        let name = name(file.id);
        let renamed = self
            .volume
            .rename(from, &name, to, &name, RenameFlags::empty());
        renamed.expect("rename");
    }
}

/// Returns the content of each nonempty file in the volume, by the file number in the content.
fn contents(volume: &Volume) -> Result<BTreeMap<u32, Vec<u8>>, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![Ino::ROOT];
    let mut seen = BTreeSet::new();
    while let Some(directory) = left.pop() {
        let mut entries = Vec::new();
        let listed = volume.read_dir(directory, 0, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                entries.push((entry.name.to_vec(), entry.ino));
            }
            ControlFlow::Continue(())
        });
        listed.map_err(|error| format!("listing {directory}: {error}"))?;
        for (name, ino) in entries {
            let name = String::from_utf8_lossy(&name).into_owned();
            let failed = |error: larder::Error| format!("{name}: {error}");
            let metadata = volume.metadata(ino).map_err(failed)?;
            if metadata.kind == FileKind::Directory {
                left.push(ino);
                continue;
            }
            if !seen.insert(ino) {
                continue;
            }
            let mut bytes = vec![0; usize::try_from(metadata.size_bytes).expect("small")];
            let read = volume.read_at(ino, &mut bytes, 0).map_err(failed)?;
            bytes.truncate(read);
            let owner = owner(&name, &bytes)?;
            if let Some(owner) = owner {
                found.insert(owner, bytes);
            }
        }
    }
    Ok(found)
}

/// Returns the number of the file to which `bytes` belong. All of them must belong to the same
/// file.
fn owner(name: &str, bytes: &[u8]) -> Result<Option<u32>, String> {
    let named = name
        .split_once('-')
        .and_then(|(id, _)| id.parse::<u32>().ok());
    let mut owner = named;
    for (word, found) in (0..).zip(bytes.chunks_exact(8)) {
        if found.iter().all(|byte| *byte == 0) {
            continue;
        }
        let id = u32::from_le_bytes([found[0], found[1], found[2], found[3]]);
        let expected = *owner.get_or_insert(id);
        if found != word_of(expected, word) {
            return Err(format!("{name} shows {found:?} in byte {}", word * 8));
        }
    }
    Ok(owner)
}

/// Repairs the state after a power cut with e2fsck, and checks it.
fn check(state: &OverlayDevice, image: &Path, durable: &[&Durable]) -> Result<(), String> {
    let mut bytes = vec![0; usize::try_from(state.size_bytes()).expect("small")];
    state
        .read_at(&mut bytes, 0)
        .map_err(|error| error.to_string())?;
    fs::write(image, bytes).map_err(|error| error.to_string())?;
    let repaired = e2fsck("-fy").accept(1).accept(2).arg(image).run();
    let repaired = repaired.map_err(|error| error.to_string())?;
    let checked = e2fsprogs::check(image);
    checked.map_err(|error| format!("e2fsck leaves damage: {error}"))?;
    let volume = Volume::open(image, &OpenOptions::default());
    let volume = volume.map_err(|error| error.to_string())?;
    let found = contents(&volume).map_err(|what| format!("{what}\n{repaired}"))?;
    for durable in durable {
        for range in &durable.written {
            let [start, end] =
                [range.start, range.end].map(|at| usize::try_from(at).expect("small"));
            let expected = content(durable.id, range.start, end - start);
            let actual = found
                .get(&durable.id)
                .and_then(|bytes| bytes.get(start..end));
            if actual != Some(&expected) {
                let what = if actual.is_some() {
                    "differs"
                } else {
                    "is lost"
                };
                let id = durable.id;
                return Err(format!(
                    "{start}..{end} of {id}, synced, {what}\n{repaired}"
                ));
            }
        }
    }
    Ok(())
}

fn survive(name: &str, seed: u64) {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let is_full = std::env::var("LARDER_CRASH").is_ok_and(|value| value == "full");
    let workloads = if is_full { FULL_WORKLOADS } else { 1 };
    for seed in Seed::parts_from_environment(seed).take(workloads) {
        survive_workload(name, Medium::Memory, seed, STATES);
    }
    let seed = Seed::from_environment(seed);
    for medium in Medium::others(seed) {
        survive_workload(name, medium, seed, STATES_ON_FILES);
    }
}

/// Cuts the power at about `states` changes of one workload.
fn survive_workload(name: &str, medium: Medium, seed: Seed, states: usize) {
    let base = layout(name).expect("layout").base().expect("mke2fs");
    let disk = OverlayDevice::new(base);
    let store = medium.store_of(&disk).expect("store");
    let restored = medium.restore(&disk, &store, RecordingDevice::new);
    let (stored, recorder) = restored.expect("medium");
    let volume = open(stored.device()).expect("open");
    let directories = [b"d0", b"d1"].map(|name| {
        let made = volume.make_dir(Ino::ROOT, name, &new_file());
        made.expect("directory").ino
    });
    volume.sync().expect("sync");
    let position = || recorder.change_count();
    let mut workload = Workload {
        volume: &volume,
        position: &position,
        random: Random::new(seed),
        directories: directories.to_vec(),
        files: Vec::new(),
        durable: Vec::new(),
        next_id: 1,
    };
    for _ in 0..OPERATIONS {
        workload.step();
    }
    let durable = workload.durable;
    volume.close().expect("close");
    assert!(
        stored.request_count() > 0,
        "the back end performed no request"
    );
    let changes = recorder.take_changes();
    let folder = tempfile::tempdir().expect("folder");
    let image = folder.path().join("image");
    let mut cuts = PowerCuts::new(&store, &changes).without_tearing(0..u64::MAX);
    let every = (changes.len() / states).max(1);
    for position in (0..=changes.len()).step_by(every) {
        let expected: Vec<&Durable> = durable
            .iter()
            .filter(|durable| (durable.since..durable.until).contains(&position))
            .collect();
        cuts.advance_to(position).expect("changes");
        for number in 0..3 {
            let state = match number {
                0 => cuts.all_written(),
                _ => cuts
                    .reordered(seed.0 ^ mix((position as u64) << 8 | number))
                    .expect("state"),
            };
            let state = medium.content(&disk, &state).expect("state");
            if let Err(what) = check(&state, &image, &expected) {
                panic!(
                    "{name}, {medium}, seed {seed}, cut after {position} of {} changes, {number}: {what}",
                    changes.len()
                );
            }
        }
    }
    println!(
        "{name}, {medium}: {} changes, {} synced",
        changes.len(),
        durable.len()
    );
    assert!(durable.len() > 20, "{name}: too few files were synced");
}

#[test]
fn ext2_1k_repaired_after_power_cuts_has_what_was_synced() {
    survive("ext2-1k", 0x4400);
}

#[test]
fn ext4_without_journal_repaired_after_power_cuts_has_what_was_synced() {
    survive("no-journal-4k", 0x4401);
}

#[test]
fn ext2_4k_large_inodes_repaired_after_power_cuts_has_what_was_synced() {
    survive("ext2-4k-large-inodes", 0x4402);
}
