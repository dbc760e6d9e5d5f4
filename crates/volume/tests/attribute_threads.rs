//! Threads that set, remove and read attributes from a small pool, with tiny caches. Each thread
//! has its own files, which it also deletes, and all threads share some files. At the end, each
//! attribute is in the state of the last change by one of the threads. No read returns a value that
//! was not set, and e2fsck confirms every count.

use larder::{ChangedBy, Ino, MbCacheVariant, NewFile, OpenOptions, Volume, XattrMode};
use larder_instruments::OverlayDevice;
use larder_testkit::crash::{ImageFile, layout};
use larder_testkit::{Random, Requirement, Seed, skip};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};

const THREADS: usize = 8;
const STEPS: usize = 300;
/// The number of files of each thread.
const OWN_FILES: usize = 6;
/// The number of files that all threads change.
const COMMON_FILES: usize = 4;

const NAMES: [&str; 3] = ["user.one", "user.two", "trusted.three"];
/// The values, as letter and length. The last value needs an inode of its own if blocks are small.
const VALUES: [(u8, usize); 4] = [(b'a', 130), (b'b', 130), (b'c', 260), (b'd', 3000)];
/// The size of the content that each thread also uses, to fill the caches.
const CONTENT_BYTES: usize = 1 << 16;

/// A file: its number, which is its name, and its inode number.
type File = (usize, Ino);

/// The last change of each attribute: the file's number and the attribute's name, with the value,
/// or `None` if the attribute was removed.
type Last = BTreeMap<(usize, &'static str), Option<Vec<u8>>>;

struct Fixture<'a> {
    volume: &'a Volume,
    common: &'a [File],
    own: Vec<File>,
    random: Random,
    last: Last,
}

impl Fixture<'_> {
    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        *self.random.choose(items).unwrap()
    }

    fn step(&mut self) {
        let is_own = self.random.below(3) > 0;
        let at = self
            .random
            .below(if is_own { OWN_FILES } else { COMMON_FILES } as u64);
        let at = usize::try_from(at).unwrap();
        let (file, ino) = if is_own {
            self.own[at]
        } else {
            self.common[at]
        };
        let name = self.pick(&NAMES);
        match self.random.below(12) {
            0..=4 => {
                let (letter, len) = self.pick(&VALUES);
                let value = vec![letter; len];
                let set = self
                    .volume
                    .set_xattr(ino, name.as_bytes(), &value, XattrMode::Any);
                match set {
                    Ok(()) => drop(self.last.insert((file, name), Some(value))),
                    // Only the large value can fail, on a layout without value inodes.
                    Err(error) => assert_eq!((error.errno(), len), (Errno::NOSPC, 3000)),
                }
            }
            5..=6 => match self.volume.remove_xattr(ino, name.as_bytes()) {
                Ok(()) => drop(self.last.insert((file, name), None)),
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
            9 => self
                .volume
                .remove_privileges(ino, ChangedBy::Other)
                .unwrap(),
            10 if is_own => {
                let text = file.to_string();
                self.volume.unlink(Ino::ROOT, text.as_bytes()).unwrap();
                self.own[at].1 = create(self.volume, &text);
                for name in NAMES {
                    self.last.insert((file, name), None);
                }
            }
            _ => {
                let letter = self.random.byte();
                let (_, ino) = self.own[0];
                let written = self.volume.write_at(ino, &vec![letter; CONTENT_BYTES], 0);
                written.unwrap();
            }
        }
        if is_own && let Some(expected) = self.last.get(&(file, name)) {
            let (_, ino) = self.own[at];
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

fn open(layout_name: &str, variant: MbCacheVariant) -> (Arc<OverlayDevice>, Volume) {
    let base = layout(layout_name).unwrap().base().unwrap();
    let device = Arc::new(OverlayDevice::new(base));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.commit_seconds = 1;
    options.cache_size_bytes = 1 << 20;
    options.mbcache = variant;
    let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
    (device, volume)
}

/// Closes the volume, and checks the image with e2fsck.
fn check(device: &OverlayDevice, volume: Volume, what: &str) {
    volume.close().unwrap();
    drop(volume);
    let checked = ImageFile::new(device).unwrap().check();
    checked.unwrap_or_else(|error| panic!("{what}: {error}"));
}

fn run(layout_name: &str, variant: MbCacheVariant, seed: Seed) {
    let what = format!("{layout_name}, {variant}, seed {seed}");
    let (device, volume) = open(layout_name, variant);
    let files: Vec<File> = (0..COMMON_FILES + THREADS * OWN_FILES)
        .map(|file| (file, create(&volume, &file.to_string())))
        .collect();
    let (common, own) = files.split_at(COMMON_FILES);
    let lasts: Vec<Last> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(own.chunks(OWN_FILES))
            .map(|(number, own)| {
                let mut fixture = Fixture {
                    volume: &volume,
                    common,
                    own: own.to_vec(),
                    random: Random::new(seed.part(number)),
                    last: Last::new(),
                };
                scope.spawn(move || {
                    (0..STEPS).for_each(|_| fixture.step());
                    fixture.last
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| panic!("{what}")))
            .collect()
    });
    check(&device, volume, &what);

    let reading = Volume::open_device(device, &OpenOptions::default()).unwrap();
    for (file, _) in files {
        let ino = reading
            .lookup(Ino::ROOT, file.to_string().as_bytes())
            .unwrap();
        for name in NAMES {
            let found = reading.xattr(ino, name.as_bytes()).unwrap();
            // The value must be the last value that one of the threads set. A file that is not shared
            // has only one thread.
            let mut last = lasts.iter().filter_map(|last| last.get(&(file, name)));
            let is_untouched = last.clone().next().is_none() && found.is_none();
            assert!(
                is_untouched || last.any(|value| *value == found),
                "{what}: {name} of inode {ino}"
            );
        }
    }
}

#[test]
fn attributes_changed_by_many_threads_keep_the_last_values() {
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

/// Each removal frees a value inode, while the other thread searches for a value inode to share.
#[test]
fn value_set_and_removed_by_two_threads_leaves_no_inode() {
    const ROUNDS: usize = 300;
    const NAME: &[u8] = b"user.large";
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    for variant in MbCacheVariant::ALL {
        let (device, volume) = open("ea-inode-1k", variant);
        let files = ["a", "b"].map(|name| create(&volume, name));
        let free = volume.statfs().free_files;
        let start = Barrier::new(files.len());
        std::thread::scope(|scope| {
            for ino in files {
                let (volume, start) = (&volume, &start);
                scope.spawn(move || {
                    start.wait();
                    for _ in 0..ROUNDS {
                        let set = volume.set_xattr(ino, NAME, &[9; 3000], XattrMode::Any);
                        set.unwrap();
                        volume.remove_xattr(ino, NAME).unwrap();
                    }
                });
            }
        });
        assert_eq!(volume.statfs().free_files, free, "{variant}");
        check(&device, volume, variant.as_str());
    }
}

/// A lookup of a capability reads an attribute block, and offers the block for sharing. Meanwhile,
/// another thread frees the block.
#[test]
fn block_freed_during_a_search_is_not_shared() {
    const ROUNDS: u8 = 200;
    const NAME: &[u8] = b"user.a";
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    for variant in MbCacheVariant::ALL {
        let (device, volume) = open("ext2-1k", variant);
        let [seen, other] = ["seen", "other"].map(|name| create(&volume, name));
        std::thread::scope(|scope| {
            let setting = scope.spawn(|| {
                for round in 0..ROUNDS {
                    let set = |ino| volume.set_xattr(ino, NAME, &[round; 300], XattrMode::Any);
                    set(seen).unwrap();
                    // The freed block is on the device: a late read of the block finds its old
                    // contents.
                    volume.sync().unwrap();
                    volume.remove_xattr(seen, NAME).unwrap();
                    set(other).unwrap();
                    volume.remove_xattr(other, NAME).unwrap();
                }
            });
            while !setting.is_finished() {
                volume.remove_privileges(seen, ChangedBy::Other).unwrap();
            }
        });
        let shares = volume.stats().attributes.unwrap().shares;
        assert_eq!(shares, 0, "{variant}");
        check(&device, volume, variant.as_str());
    }
}
