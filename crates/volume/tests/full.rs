//! Small file systems that are filled completely, by every operation that takes space, and emptied
//! again: no content is lost, and no space leaks.

use larder::{Fallocate, Ino, NewFile, Volume, XattrMode};
use larder_instruments::OverlayDevice;
use larder_testkit::crash::{ImageFile, Layout, layout, open};
use larder_testkit::model::{Model, NodeId, Outcome};
use larder_testkit::operation::{NewNode, NodePath, Operation, Owned, Performer, Target};
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::sync::Arc;

const OWNED: Owned = Owned {
    permissions: 0o755,
    uid: 0,
    gid: 0,
};

struct Filling<'a> {
    volume: &'a Volume,
    performer: Performer,
}

impl Filling<'_> {
    /// Performs the operation. Returns whether there was enough space for it.
    fn fits(&mut self, operation: &Operation) -> bool {
        let full = |errno| errno == Errno::NOSPC;
        let before = self.performer.model.clone();
        let outcome = self.performer.perform(self.volume, operation, full);
        let outcome = outcome.unwrap_or_else(|what| panic!("{what}"));
        let differences = self.performer.compare_changed(self.volume, &before);
        assert_eq!(differences, [""; 0], "after {operation:?}");
        matches!(outcome, Outcome::Done { .. })
    }

    fn make(&mut self, path: &NodePath, node: NewNode) -> bool {
        self.fits(&Operation::Make {
            at: path.clone(),
            node,
            owned: OWNED,
        })
    }

    /// Performs operations that take space, of each kind in turn, until all of them fail for lack
    /// of space.
    fn fill(&mut self) {
        let root = NodePath::default();
        let mut number = 0_u32;
        let mut refused = 0;
        while refused < 40 && number < 20_000 {
            number += 1;
            let path = root.join(format!("{number:05}{}", "n".repeat(60)).as_bytes());
            let file = Target::Path(path.clone());
            let fits = match number % 8 {
                0 => self.make(&path, NewNode::Directory),
                1 => self.make(&path, NewNode::Symlink(vec![b't'; 300])),
                2 => {
                    self.make(&path, NewNode::File)
                        && self.fits(&Operation::SetXattr {
                            file,
                            name: b"user.large".to_vec(),
                            value: vec![7; 500],
                            mode: XattrMode::Any,
                        })
                }
                3 => {
                    self.make(&path, NewNode::File)
                        && self.fits(&Operation::Allocate {
                            file,
                            mode: Fallocate::Allocate { keep_size: false },
                            offset_bytes: 5000,
                            len_bytes: 100_000,
                        })
                }
                // These writes are not adjacent, so that mappings take space too.
                4 => {
                    let mut all = self.make(&path, NewNode::File);
                    for part in 0..20 {
                        all &= self.fits(&Operation::Write {
                            file: file.clone(),
                            offset_bytes: part * 200_000,
                            len_bytes: 1000,
                        });
                    }
                    all
                }
                _ => {
                    self.make(&path, NewNode::File)
                        && self.fits(&Operation::Write {
                            file,
                            offset_bytes: 0,
                            len_bytes: 150_000,
                        })
                }
            };
            refused = if fits { 0 } else { refused + 1 };
        }
    }

    /// Removes all entries of the root directory.
    fn empty(&mut self) {
        let root = self.performer.model.node(NodeId::ROOT).unwrap();
        let names: Vec<_> = root.entries().unwrap().keys().cloned().collect();
        for name in names {
            let at = NodePath::default().join(&name);
            let id = self.performer.model.resolve(&at).unwrap();
            let is_directory = self.performer.model.node(id).unwrap().is_directory();
            let operation = if is_directory {
                Operation::RemoveDir { at }
            } else {
                Operation::Unlink { at }
            };
            assert!(self.fits(&operation), "{operation:?}");
        }
    }
}

/// Returns the numbers of free blocks and inodes.
fn free(volume: &Volume) -> (u64, u64) {
    let free = volume.statfs();
    (free.free_blocks, free.free_files)
}

fn fill_and_empty(layout: &Layout) {
    let device = Arc::new(OverlayDevice::new(layout.base().unwrap()));
    let mut image = ImageFile::new(&device).unwrap();
    let volume = open(Arc::clone(&device) as _).unwrap();
    let before = free(&volume);
    let mut filling = Filling {
        volume: &volume,
        performer: Performer::new(Model::new(layout.rules)),
    };
    filling.fill();
    // All operations that succeeded can be made durable.
    volume.sync().unwrap();
    // A write that fails for lack of space sets the times, as in Linux. The model does not.
    let mut differences = filling.performer.compare_all(&volume);
    differences.retain(|difference| !difference.contains("time of change"));
    assert_eq!(differences, [""; 0]);
    filling.empty();
    volume.sync().unwrap();
    let after = free(&volume);
    volume.close().unwrap();
    drop(volume);
    image.show(&device).unwrap();
    image.check().unwrap();
    // The root directory keeps the blocks of its former names.
    let slack = 1 << 20 >> 10;
    assert_eq!(before.1, after.1, "{}: inodes", layout.name);
    assert!(
        after.0 + slack >= before.0,
        "{}: {before:?} free before, {after:?} after",
        layout.name
    );
}

macro_rules! fills {
    ($($test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                if !skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
                    fill_and_empty(layout($name).unwrap());
                }
            }
        )*
    };
}

fills! {
    ext4_filled_and_emptied_is_as_before "ext4"
    ext3_1k_filled_and_emptied_is_as_before "ext3-1k"
    ext2_1k_filled_and_emptied_is_as_before "ext2-1k"
    bigalloc_filled_and_emptied_is_as_before "bigalloc"
    inline_data_filled_and_emptied_is_as_before "inline-data"
    no_journal_4k_filled_and_emptied_is_as_before "no-journal-4k"
}

const THREADS: usize = 8;
const ATTRIBUTE: &[u8] = b"user.large";

/// Each thread has one block or none, and the image has a free block for each thread. A freed block
/// becomes available with the next commit by any thread, so no operation ever fails for lack of
/// space.
#[test]
fn blocks_freed_by_one_thread_are_available_to_all() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    for name in ["ext4", "no-journal-4k"] {
        let device = Arc::new(OverlayDevice::new(layout(name).unwrap().base().unwrap()));
        let volume = open(Arc::clone(&device) as _).unwrap();
        let new = NewFile {
            permissions: 0o600,
            umask: 0,
            uid: 0,
            gid: 0,
        };
        let make = |name: String| volume.create(Ino::ROOT, name.as_bytes(), &new).unwrap().ino;
        let files: Vec<Ino> = (0..THREADS).map(|file| make(file.to_string())).collect();
        let set = |ino: Ino, value: [u8; 2]| {
            volume.set_xattr(ino, ATTRIBUTE, &value.repeat(250), XattrMode::Any)
        };
        for (ino, letter) in files.iter().zip(b'a'..) {
            set(*ino, [letter, 0]).unwrap();
        }
        allocate_all(&volume, make("filler".to_owned()));
        // Attributes may use the space that is reserved for metadata, except for the part that is
        // reserved for mappings.
        let more = (0..1000_u16).map(|file| (make(format!("more{file}")), file.to_le_bytes()));
        let full = more
            .map(|(ino, value)| set(ino, value))
            .find(Result::is_err);
        assert_eq!(full.unwrap().unwrap_err().errno(), Errno::NOSPC);
        let left = volume.statfs().free_blocks;
        let for_mappings = volume.info().blocks / 50 / 4;
        assert!(left < for_mappings + 2, "{name}: {left} blocks are left");
        let (shared, set) = (&volume, &set);
        std::thread::scope(|scope| {
            for (ino, letter) in files.iter().zip(b'a'..) {
                scope.spawn(move || {
                    for round in 0..200 {
                        shared.remove_xattr(*ino, ATTRIBUTE).unwrap();
                        set(*ino, [letter, round])
                            .unwrap_or_else(|error| panic!("{name}: {error}"));
                    }
                });
            }
        });
        volume.close().unwrap();
        drop(volume);
        ImageFile::new(&device).unwrap().check().unwrap();
    }
}

/// Allocates all free blocks to `ino`.
fn allocate_all(volume: &Volume, ino: Ino) {
    let (mut at, mut len_bytes) = (0, 64 << 20);
    while len_bytes >= 1024 {
        let mode = Fallocate::Allocate { keep_size: false };
        match volume.fallocate(ino, mode, at, len_bytes) {
            Ok(()) => at += len_bytes,
            Err(error) => {
                assert_eq!(error.errno(), Errno::NOSPC);
                len_bytes /= 2;
            }
        }
    }
}
