//! Threads that set, remove and read attributes from a small pool, on files of their own and on files
//! of all, with caches that hold next to nothing: whoever wrote last is right, nothing else is ever
//! read, and e2fsck agrees with every count.

use larder::{Ino, MbCacheVariant, NewFile, OpenOptions, Volume, XattrMode};
use larder_block::OverlayDevice;
use larder_testkit::crash::{ImageFile, layout};
use larder_testkit::{Random, Requirement, Seed, skip};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

const THREADS: usize = 8;
const STEPS: usize = 300;
/// Files of each thread.
const OWN_FILES: usize = 6;
/// Files that all threads change.
const COMMON_FILES: usize = 4;

const NAMES: [&str; 3] = ["user.one", "user.two", "trusted.three"];
/// Values, by letter and length: the last needs an inode of its own where blocks are small.
const VALUES: [(u8, usize); 4] = [(b'a', 130), (b'b', 130), (b'c', 260), (b'd', 3000)];
/// What fills the cache beside them.
const CONTENT_BYTES: usize = 1 << 16;

/// What was last done to an attribute, by file and name: the value, or nothing.
type Last = BTreeMap<(Ino, &'static str), Option<Vec<u8>>>;

struct Bed<'a> {
    volume: &'a Volume,
    common: &'a [Ino],
    own: &'a [Ino],
    random: Random,
    last: Last,
}

impl Bed<'_> {
    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        *self.random.choose(items).unwrap()
    }

    fn step(&mut self) {
        let files = [self.own, self.common][usize::from(self.random.below(3) == 0)];
        let (ino, name) = (self.pick(files), self.pick(&NAMES));
        match self.random.below(10) {
            0..=4 => {
                let (letter, len) = self.pick(&VALUES);
                let value = vec![letter; len];
                let set = self
                    .volume
                    .set_xattr(ino, name.as_bytes(), &value, XattrMode::Any);
                match set {
                    Ok(()) => drop(self.last.insert((ino, name), Some(value))),
                    // The large one, where there are no inodes for values.
                    Err(error) => assert_eq!((error.errno(), len), (Errno::NOSPC, 3000)),
                }
            }
            5..=6 => match self.volume.remove_xattr(ino, name.as_bytes()) {
                Ok(()) => drop(self.last.insert((ino, name), None)),
                Err(error) => assert_eq!(error.errno(), Errno::NODATA),
            },
            7..=8 => {
                if let Some(value) = self.volume.xattr(ino, name.as_bytes()).unwrap() {
                    let is_whole = VALUES.iter().any(|&(letter, len)| {
                        value.len() == len && value.iter().all(|byte| *byte == letter)
                    });
                    assert!(is_whole, "{name}: {} bytes", value.len());
                }
            }
            _ => {
                let ino = self.pick(self.own);
                let letter = self.random.byte();
                let written = self.volume.write_at(ino, &vec![letter; CONTENT_BYTES], 0);
                written.unwrap();
            }
        }
        if files.len() == OWN_FILES
            && let Some(expected) = self.last.get(&(ino, name))
        {
            let found = self.volume.xattr(ino, name.as_bytes()).unwrap();
            assert!(found == *expected, "{name} of inode {ino}");
        }
    }
}

fn create(volume: &Volume, name: &str) -> Ino {
    let new = NewFile {
        permissions: 0o600,
        umask: 0,
        uid: 0,
        gid: 0,
    };
    volume.create(Ino::ROOT, name.as_bytes(), &new).unwrap().ino
}

fn run(layout_name: &str, variant: MbCacheVariant, seed: Seed) {
    let what = format!("{layout_name}, {variant}, seed {seed}");
    let device = Arc::new(OverlayDevice::new(
        layout(layout_name).unwrap().base().unwrap(),
    ));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.commit_seconds = 1;
    options.cache_size_bytes = 1 << 20;
    options.mbcache = variant;
    let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
    let files: Vec<Ino> = (0..COMMON_FILES + THREADS * OWN_FILES)
        .map(|file| create(&volume, &file.to_string()))
        .collect();
    let (common, own) = files.split_at(COMMON_FILES);
    let lasts: Vec<Last> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(own.chunks(OWN_FILES))
            .map(|(number, own)| {
                let mut bed = Bed {
                    volume: &volume,
                    common,
                    own,
                    random: Random::new(seed.part(number)),
                    last: Last::new(),
                };
                scope.spawn(move || {
                    (0..STEPS).for_each(|_| bed.step());
                    bed.last
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| panic!("{what}")))
            .collect()
    });
    volume.close().unwrap();
    drop(volume);
    let image = ImageFile::new(&device).unwrap();
    image
        .check()
        .unwrap_or_else(|error| panic!("{what}: {error}"));

    let reading = Volume::open_device(device, &OpenOptions::default()).unwrap();
    for ino in &files {
        for name in NAMES {
            let found = reading.xattr(*ino, name.as_bytes()).unwrap();
            // Of a file of all, whoever was last; of the others, the only one.
            let mut last = lasts.iter().filter_map(|last| last.get(&(*ino, name)));
            let is_untouched = last.clone().next().is_none() && found.is_none();
            assert!(
                is_untouched || last.any(|value| *value == found),
                "{what}: {name} of inode {ino}"
            );
        }
    }
}

#[test]
fn attributes_changed_by_many_threads_are_those_of_the_last() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let seed = Seed::from_environment(0x7200);
    let layouts = ["ext4", "ext3-1k", "ea-inode-1k", "ext2-1k"];
    for (number, layout) in (0..).zip(layouts) {
        for variant in MbCacheVariant::ALL {
            run(layout, variant, seed.part(number));
        }
    }
}
