//! Metadata that is not in the caches: no operation waits for a device read of another operation,
//! and every operation ends, however small the caches are.

use larder::{Fallocate, Ino, NewFile, OpenOptions, RenameFlags, Volume, XattrMode};
use larder_block::{BlockDevice, MemoryDevice, Result};
use larder_testkit::e2fsprogs::{check_bytes, new_image};
use larder_testkit::{Requirement, skip};
use std::io::{IoSlice, IoSliceMut};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

const NEW: NewFile = NewFile {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// A longer wait is a hang.
const HANG: Duration = Duration::from_mins(1);

/// A device in memory that can block one read of one thread.
#[derive(Debug)]
struct GatedDevice {
    inner: MemoryDevice,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    /// The thread whose reads are counted.
    thread: Option<ThreadId>,
    reads: usize,
    /// The number of the read to block, from 0.
    blocked: Option<usize>,
    /// Whether the thread has reached the read `blocked`, or has ended.
    is_reached: bool,
}

impl GatedDevice {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryDevice::new(bytes),
            gate: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn before_read(&self) {
        let mut gate = self.gate.lock().unwrap();
        if gate.thread != Some(thread::current().id()) {
            return;
        }
        let number = gate.reads;
        gate.reads += 1;
        if gate.blocked == Some(number) {
            gate.is_reached = true;
            self.changed.notify_all();
            let open = |gate: &mut Gate| gate.blocked.is_some();
            drop(self.changed.wait_while(gate, open).unwrap());
        }
    }

    /// From now on, counts the reads of the calling thread, and blocks its read `number`.
    fn block(&self, number: usize) {
        *self.gate.lock().unwrap() = Gate {
            thread: Some(thread::current().id()),
            blocked: Some(number),
            ..Gate::default()
        };
    }

    /// Records that the thread has ended. Returns the number of its reads.
    fn end(&self) -> usize {
        let mut gate = self.gate.lock().unwrap();
        gate.is_reached = true;
        self.changed.notify_all();
        gate.reads
    }

    /// Waits until the read is blocked, or the thread has ended.
    fn wait(&self) {
        let gate = self.gate.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(gate, HANG, |gate| !gate.is_reached);
        assert!(!waited.unwrap().1.timed_out(), "the operation hangs");
    }

    fn open(&self) {
        self.gate.lock().unwrap().blocked = None;
        self.changed.notify_all();
    }
}

impl BlockDevice for GatedDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.before_read();
        self.inner.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.before_read();
        self.inner.read_vectored_at(bufs, offset_bytes)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.inner.write_at(buf, offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        self.inner.write_vectored_at(bufs, offset_bytes)
    }
}

fn open(device: Arc<dyn BlockDevice>, cache_size_bytes: u64) -> Volume {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options.cache_size_bytes = cache_size_bytes;
    options.readahead_max_bytes = 0;
    options.commit_seconds = 3600;
    Volume::open_device(device, &options).unwrap()
}

const CACHE_BYTES: u64 = 16 << 20;

/// The operations whose reads are blocked, on the directory `/far`.
type Change = fn(&Volume, Ino);

const CHANGES: &[(&str, Change)] = &[
    ("create", |volume, dir| {
        volume.create(dir, b"new", &NEW).unwrap();
    }),
    ("make_dir", |volume, dir| {
        volume.make_dir(dir, b"new", &NEW).unwrap();
    }),
    ("symlink", |volume, dir| {
        volume.symlink(dir, b"new", &[b'x'; 200], &NEW).unwrap();
    }),
    ("unlink", |volume, dir| {
        volume.unlink(dir, b"plain").unwrap();
    }),
    ("delete", |volume, dir| {
        volume.unlink(dir, b"fragmented").unwrap();
    }),
    ("remove_dir", |volume, dir| {
        volume.remove_dir(dir, b"empty").unwrap();
    }),
    ("rename", |volume, dir| {
        let flags = RenameFlags::empty();
        volume
            .rename(dir, b"plain", dir, b"fragmented", flags)
            .unwrap();
    }),
    ("link", |volume, dir| {
        let ino = volume.lookup(dir, b"plain").unwrap();
        volume.link(ino, dir, b"second").unwrap();
    }),
    ("truncate", |volume, dir| {
        let ino = volume.lookup(dir, b"fragmented").unwrap();
        volume.truncate(ino, 1024).unwrap();
    }),
    ("write", |volume, dir| {
        let ino = volume.lookup(dir, b"fragmented").unwrap();
        volume.write_at(ino, &[1; 1024], 1024).unwrap();
        volume.sync_file(ino, false).unwrap();
    }),
    ("punch", |volume, dir| {
        let ino = volume.lookup(dir, b"fragmented").unwrap();
        volume
            .fallocate(ino, Fallocate::PunchHole, 4096, 64 << 10)
            .unwrap();
    }),
    ("set_xattr", |volume, dir| {
        let ino = volume.lookup(dir, b"plain").unwrap();
        volume
            .set_xattr(ino, b"user.new", &[1; 300], XattrMode::Any)
            .unwrap();
    }),
    ("share_xattr", |volume, dir| {
        let ino = volume.lookup(dir, b"attributed").unwrap();
        let value = volume.xattr(ino, b"user.old").unwrap().unwrap();
        let ino = volume.lookup(dir, b"plain").unwrap();
        volume
            .set_xattr(ino, b"user.old", &value, XattrMode::Any)
            .unwrap();
    }),
];

/// The mke2fs arguments and the sizes of file systems with several groups, whose metadata is not
/// adjacent. Without a journal, blocks must be as large as frames: a commit drops the frames of
/// smaller blocks, and both threads would then need the same frames.
const LAYOUTS: &[(&str, &str)] = &[
    ("-t ext4 -b 1024 -g 2048 -G 1 -N 2048", "16M"),
    (
        "-t ext4 -b 4096 -g 1024 -G 1 -N 2048 -O ^has_journal",
        "32M",
    ),
    (
        "-t ext4 -b 4096 -g 1024 -G 1 -N 2048 -O inline_data,^orphan_file",
        "32M",
    ),
    ("-t ext2 -b 4096 -g 1024 -N 2048", "32M"),
    ("-t ext4 -b 1024 -G 1 -N 2048 -O bigalloc -C 4096", "64M"),
];

/// Makes an image with many groups, in which `/far` and its files are in another group than `/near`.
fn image((arguments, size): (&str, &str)) -> Vec<u8> {
    let device = Arc::new(MemoryDevice::new(new_image(arguments, size).unwrap()));
    let volume = open(Arc::clone(&device) as _, CACHE_BYTES);
    volume.make_dir(Ino::ROOT, b"near", &NEW).unwrap();
    let far = volume.make_dir(Ino::ROOT, b"far", &NEW).unwrap().ino;
    for number in 0..200 {
        let name = format!("{number:0100}");
        volume.create(far, name.as_bytes(), &NEW).unwrap();
    }
    volume.create(far, b"plain", &NEW).unwrap();
    volume.make_dir(far, b"empty", &NEW).unwrap();
    let attributed = volume.create(far, b"attributed", &NEW).unwrap().ino;
    volume
        .set_xattr(attributed, b"user.old", &[7; 300], XattrMode::Any)
        .unwrap();
    let fragmented = volume.create(far, b"fragmented", &NEW).unwrap().ino;
    for block in (0..400).step_by(2) {
        volume
            .write_at(fragmented, &[2; 1024], block * 1024)
            .unwrap();
    }
    volume.close().unwrap();
    drop(volume);
    device.to_bytes()
}

/// Blocks read `number` of `change`, counted from 0. Meanwhile, another thread changes other files
/// and commits. Returns false if `change` ended without a read of this number.
fn is_blocked(base: &[u8], (name, change): (&str, Change), number: usize) -> bool {
    let device = GatedDevice::new(base.to_vec());
    let volume = open(Arc::clone(&device) as _, CACHE_BYTES);
    let near = volume.lookup(Ino::ROOT, b"near").unwrap();
    let far = volume.lookup(Ino::ROOT, b"far").unwrap();
    let work = |name: &[u8]| {
        let ino = volume.create(near, name, &NEW).unwrap().ino;
        volume.write_at(ino, b"content", 0).unwrap();
        volume
            .set_xattr(ino, b"user.near", &[3; 200], XattrMode::Any)
            .unwrap();
        volume.sync_file(ino, false).unwrap();
    };
    // This reads the metadata that the second call needs.
    work(b"first");
    let (sender, receiver) = channel();
    let reads = thread::scope(|scope| {
        let changer = scope.spawn(|| {
            device.block(number);
            change(&volume, far);
            device.end()
        });
        device.wait();
        scope.spawn(|| {
            work(b"second");
            sender.send(()).unwrap();
        });
        let worked = receiver.recv_timeout(HANG);
        device.open();
        let reads = changer.join().unwrap();
        assert!(
            worked.is_ok(),
            "read {number} of {name} blocks other changes"
        );
        reads
    });
    volume.close().unwrap();
    drop(volume);
    if reads > number {
        return true;
    }
    check_bytes(&device.inner.to_bytes()).unwrap();
    false
}

#[test]
fn blocked_read_of_one_operation_blocks_no_other() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    for layout in LAYOUTS {
        let base = image(*layout);
        let arguments = layout.0;
        for &(name, change) in CHANGES {
            if name == "punch" && arguments.contains("ext2") {
                continue;
            }
            let mut blocked = 0;
            while is_blocked(&base, (name, change), blocked) {
                blocked += 1;
            }
            println!("{arguments}: {name} reads {blocked} times");
            assert!(blocked > 0, "{name} is not cold");
        }
    }
}
