//! Open files and inode numbers whose files lose their names: an open file never refers to another
//! file, and the number of a deleted file is stale.

use larder::{
    Advice, ChangedBy, Clock, Fallocate, FileKind, Ino, Make, MemoryOnly, NewFile, OpenFile,
    OpenOptions, RenameFlags, SetAttributes, Timestamp, Volume, XattrMode,
};
use larder_block::{BlockDevice, MemoryDevice};
use larder_testkit::e2fsprogs::{check_bytes, new_image};
use larder_testkit::requirement::{Requirement, skip};
use rustix::io::Errno;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const TOOLS: [Requirement; 2] = [Requirement::Tool("mke2fs"), Requirement::Tool("e2fsck")];

/// A layout that stores small content in blocks, and a layout that stores small content in inodes.
const LAYOUTS: [&str; 2] = ["^inline_data", "inline_data"];

const FIFO: Make<'_> = Make::Node {
    kind: FileKind::Fifo,
    device: None,
};

const NEW: NewFile = NewFile {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// A clock that always returns the same time.
#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp {
            seconds: 1_600_000_000,
            nanoseconds: 0,
        }
    }
}

fn image(features: &str) -> Vec<u8> {
    new_image(&format!("-t ext4 -b 1024 -O {features}"), "16M").expect("image")
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options.cache_size_bytes = 4 << 20;
    options.clock = Arc::new(FixedClock);
    options
}

fn open(bytes: Vec<u8>) -> (Volume, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let opened: Arc<dyn BlockDevice> = device.clone();
    let volume = Volume::open_device(opened, &options()).expect("writable volume");
    (volume, device)
}

fn assert_clean(device: &MemoryDevice, what: &str) {
    check_bytes(&device.to_bytes()).unwrap_or_else(|error| panic!("{what}: {error}"));
}

fn create(volume: &Volume, name: &[u8], content: &[u8]) -> Ino {
    let ino = volume.create(Ino::ROOT, name, &NEW).expect("file").ino;
    volume.write_at(ino, content, 0).expect("written");
    ino
}

fn content(file: &OpenFile) -> Vec<u8> {
    let mut buf = vec![0; 4 * usize::try_from(file.size_bytes()).expect("small") + 1];
    let len = file.read_at(&mut buf, 0).expect("read");
    buf.truncate(len);
    buf
}

fn errno<T>(result: larder::Result<T>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

#[test]
fn unlinked_open_file_is_readable_until_dropped_and_then_deleted() {
    if skip(&TOOLS) {
        return;
    }
    for layout in LAYOUTS {
        let (volume, device) = open(image(layout));
        let kept = create(&volume, b"kept", b"kept");
        let free = volume.statfs();
        for len in [40, 100_000] {
            let ino = create(&volume, b"a", &vec![b'a'; len]);
            let file = volume.open_file(ino).expect("open");
            let again = volume.open_file(ino).expect("open");
            volume.unlink(Ino::ROOT, b"a").expect("unlinked");
            let other = create(&volume, b"b", &vec![b'b'; len]);
            assert_ne!(other, ino, "{layout}: a number in use is reused");
            volume.sync().expect("durable");
            assert!(content(&file) == vec![b'a'; len], "{layout}");
            drop(again);
            assert!(content(&file) == vec![b'a'; len], "{layout}");
            drop(file);
            assert_eq!(errno(volume.metadata(ino)), Some(Errno::STALE));
            volume
                .rename(Ino::ROOT, b"kept", Ino::ROOT, b"b", RenameFlags::empty())
                .expect("renamed over it");
            volume
                .rename(Ino::ROOT, b"b", Ino::ROOT, b"kept", RenameFlags::empty())
                .expect("renamed back");
            volume.sync().expect("freed");
            let now = volume.statfs();
            assert_eq!(now.free_files, free.free_files, "{layout}");
            assert_eq!(now.free_blocks, free.free_blocks, "{layout}");
        }
        assert_eq!(volume.lookup(Ino::ROOT, b"kept").expect("there"), kept);
        volume.close().expect("closed");
        assert_clean(&device, layout);
    }
}

#[test]
fn open_file_that_outlives_its_volume_is_deleted_at_the_next_open() {
    if skip(&TOOLS) {
        return;
    }
    for layout in LAYOUTS {
        let (volume, device) = open(image(layout));
        let free = volume.statfs().free_files;
        let ino = create(&volume, b"a", &vec![b'a'; 50_000]);
        let file = volume.open_file(ino).expect("open");
        volume.unlink(Ino::ROOT, b"a").expect("unlinked");
        drop(volume);
        assert!(content(&file) == vec![b'a'; 50_000], "{layout}");
        let closed = device.to_bytes();
        drop(file);
        assert!(
            device.to_bytes() == closed,
            "{layout}: written to after it was closed"
        );

        let (volume, device) = open(closed);
        assert_eq!(volume.statfs().free_files, free, "{layout}");
        assert_eq!(errno(volume.open_file(ino)), Some(Errno::STALE));
        volume.close().expect("closed");
        assert_clean(&device, layout);
    }
}

#[test]
fn held_inode_number_is_not_reused() {
    if skip(&TOOLS) {
        return;
    }
    let (volume, device) = open(image("^inline_data"));
    let ino = create(&volume, b"a", b"aaa");
    volume.hold(ino).expect("held");
    volume.unlink(Ino::ROOT, b"a").expect("unlinked");
    // Evict the cached entries of the inode. Only its hold then keeps it.
    for number in 0..3000 {
        let name = format!("other-{number}");
        let other = create(&volume, name.as_bytes(), b"other");
        assert_ne!(other, ino);
    }
    volume.sync().expect("durable");
    let mut read = [0; 4];
    assert_eq!(volume.read_at(ino, &mut read, 0).expect("read"), 3);
    assert_eq!(&read[..3], b"aaa");
    volume.write_at(ino, b"bbb", 3).expect("written");
    assert_eq!(volume.metadata(ino).expect("inode").size_bytes, 6);
    volume.release(ino, 1).expect("deleted");
    assert_eq!(errno(volume.hold(ino)), Some(Errno::STALE));
    let again = volume.create(Ino::ROOT, b"again", &NEW).expect("file");
    assert_eq!(again.ino, ino, "the number is reused");
    // The hold that failed is not counted.
    volume.unlink(Ino::ROOT, b"again").expect("unlinked");
    assert_eq!(errno(volume.metadata(ino)), Some(Errno::STALE));
    volume.close().expect("closed");
    assert_clean(&device, "held");
}

#[test]
fn deletion_that_would_wait_keeps_the_hold() {
    if skip(&TOOLS) {
        return;
    }
    for layout in ["extent", "^extent,^64bit", "inline_data,ea_inode"] {
        let (volume, device) = open(image(layout));
        let empty = volume.statfs();
        create(&volume, b"file", b"start");
        let ino = volume.lookup(Ino::ROOT, b"file").expect("there");
        // One block in each 256 KiB, so that the mapping has blocks of its own.
        for at in 1..32 {
            volume.write_at(ino, b"part", at << 18).expect("written");
        }
        volume
            .set_xattr(ino, b"user.a", &[1; 700], XattrMode::Any)
            .expect("set");
        volume.close().expect("closed");
        let (volume, device) = open(device.to_bytes());
        let ino = volume.lookup(Ino::ROOT, b"file").expect("there");
        volume.hold(ino).expect("held");
        volume.unlink(Ino::ROOT, b"file").expect("unlinked");
        // The bitmaps and the mapping are not in memory.
        assert!(!volume.try_release(ino).expect("tried"), "{layout}");
        let mut read = [0; 5];
        volume.read_at(ino, &mut read, 0).expect("read");
        assert_eq!(&read, b"start", "{layout}");
        assert_eq!(volume.metadata(ino).expect("held").links, 0);
        volume.release(ino, 1).expect("deleted");
        assert_eq!(errno(volume.metadata(ino)), Some(Errno::STALE));
        volume.sync().expect("durable");
        let now = volume.statfs();
        assert_eq!(
            (now.free_files, now.free_blocks),
            (empty.free_files, empty.free_blocks),
            "{layout}"
        );
        // Now the bitmaps are in memory.
        let ino = create(&volume, b"file", b"content");
        volume.hold(ino).expect("held");
        volume.unlink(Ino::ROOT, b"file").expect("unlinked");
        assert!(volume.try_release(ino).expect("deleted"), "{layout}");
        assert_eq!(errno(volume.hold(ino)), Some(Errno::STALE));
        volume.close().expect("closed");
        assert_clean(&device, layout);
    }
}

#[test]
fn release_of_a_file_that_has_a_name_does_not_read_its_inode() {
    if skip(&TOOLS) {
        return;
    }
    let (volume, device) = open(image("^inline_data"));
    // The last inode is not near an inode that is read when the volume is opened.
    let create = |number: u32| create(&volume, number.to_string().as_bytes(), b"content");
    let inodes: Vec<Ino> = (0..400).map(create).collect();
    let ino = inodes[399];
    volume.close().expect("closed");
    let (volume, _) = open(device.to_bytes());
    {
        let _memory_only = MemoryOnly::begin();
        volume.hold(ino).expect("held");
        assert!(MemoryOnly::has_missed(), "the inode is not in memory");
    }
    assert!(volume.try_release(ino).expect("released"));
    assert_eq!(volume.metadata(ino).expect("kept").links, 1);
}

#[test]
fn files_that_have_the_same_number_have_different_generations() {
    if skip(&TOOLS) {
        return;
    }
    let (volume, _) = open(image("^inline_data"));
    let mut before = None;
    for _ in 0..10 {
        let made = volume.create(Ino::ROOT, b"a", &NEW).expect("file");
        let metadata_generation = volume.metadata(made.ino).expect("file").generation;
        assert_eq!(made.generation, metadata_generation);
        volume.unlink(Ino::ROOT, b"a").expect("unlinked");
        assert_ne!(
            before,
            Some((made.ino, made.generation)),
            "number and generation are reused"
        );
        before = Some((made.ino, made.generation));
    }
}

type Call = (&'static str, Box<dyn Fn(&Volume, Ino) -> Option<Errno>>);

fn call<T>(name: &'static str, run: impl Fn(&Volume, Ino) -> larder::Result<T> + 'static) -> Call {
    (name, Box::new(move |volume, ino| errno(run(volume, ino))))
}

/// Returns all operations on an inode number.
fn calls(other: Ino) -> Vec<Call> {
    let fallocate = |name, mode| call(name, move |v, ino| v.fallocate(ino, mode, 0, 4096));
    vec![
        call("metadata", Volume::metadata),
        call("hold", Volume::hold),
        call("open_file", Volume::open_file),
        call("read_at", |v, ino| v.read_at(ino, &mut [0; 9], 0)),
        call("read_once", |v, ino| v.read_once(ino, &mut [0; 9], 0)),
        call("read_past_cache", |v, ino| {
            v.read_past_cache(ino, &mut [0; 9], 0)
        }),
        call("advise", |v, ino| v.advise(ino, 0..9, Advice::WillNeed)),
        call("read_dir", |v, ino| {
            v.read_dir(ino, 0, &mut |_| ControlFlow::Continue(()))
        }),
        call("read_link", Volume::read_link),
        call("xattr", |v, ino| v.xattr(ino, b"user.a")),
        call("xattrs", Volume::xattrs),
        call("seek_data", |v, ino| v.seek_data(ino, 0)),
        call("seek_hole", |v, ino| v.seek_hole(ino, 0)),
        call("lookup", |v, ino| v.lookup(ino, b"name")),
        call("write_at", |v, ino| v.write_at(ino, b"x", 0)),
        call("write_at, large", |v, ino| {
            v.write_at(ino, &vec![1; 1 << 20], 0)
        }),
        call("truncate", |v, ino| v.truncate(ino, 5)),
        call("truncate to nothing", |v, ino| v.truncate(ino, 0)),
        fallocate("allocate", Fallocate::Allocate { keep_size: false }),
        fallocate("punch", Fallocate::PunchHole),
        fallocate("zero", Fallocate::ZeroRange { keep_size: false }),
        fallocate("collapse", Fallocate::Collapse),
        fallocate("insert", Fallocate::Insert),
        call("copy from", move |v, ino| v.copy_range(ino, 0, other, 0, 5)),
        call("copy to", move |v, ino| v.copy_range(other, 0, ino, 0, 5)),
        call("sync_file", |v, ino| v.sync_file(ino, false)),
        call("sync_file, data", |v, ino| v.sync_file(ino, true)),
        call("chmod", |v, ino| {
            let permissions = Some(0o600);
            let set = SetAttributes {
                permissions,
                ..SetAttributes::default()
            };
            v.set_attributes(ino, &set)
        }),
        call("set size", |v, ino| {
            let size_bytes = Some(9);
            let set = SetAttributes {
                size_bytes,
                ..SetAttributes::default()
            };
            v.set_attributes(ino, &set)
        }),
        call("remove_privileges", |v, ino| {
            v.remove_privileges(ino, ChangedBy::Other)
        }),
        call("link_replacing", |v, ino| {
            v.link_replacing(ino, Ino::ROOT, b"linked")
        }),
        call("set_xattr", |v, ino| {
            v.set_xattr(ino, b"user.a", b"x", XattrMode::Any)
        }),
        call("remove_xattr", |v, ino| v.remove_xattr(ino, b"user.a")),
        call("set_flags", |v, ino| v.set_flags(ino, 0)),
        call("link", |v, ino| v.link(ino, Ino::ROOT, b"linked")),
        call("create in it", |v, ino| v.create(ino, b"new", &NEW)),
        call("mkdir in it", |v, ino| v.make_dir(ino, b"new", &NEW)),
        call("symlink in it", |v, ino| v.symlink(ino, b"new", b"x", &NEW)),
        call("mknod in it", |v, ino| v.make(ino, b"new", FIFO, &NEW)),
        call("unnamed in it", |v, ino| {
            v.make_unnamed(ino, Make::FILE, &NEW)
        }),
        call("link in it", move |v, ino| v.link(other, ino, b"new")),
        call("unlink in it", |v, ino| v.unlink(ino, b"new")),
        call("rmdir in it", |v, ino| v.remove_dir(ino, b"new")),
        call("rename from it", |v, ino| {
            v.rename(ino, b"new", Ino::ROOT, b"new", RenameFlags::empty())
        }),
        call("rename into it", |v, ino| {
            v.rename(Ino::ROOT, b"other", ino, b"new", RenameFlags::empty())
        }),
    ]
}

#[test]
fn number_of_a_deleted_file_is_stale_in_every_call() {
    if skip(&TOOLS) {
        return;
    }
    for layout in LAYOUTS {
        let (volume, device) = open(image(layout));
        let other = create(&volume, b"other", b"other");
        let free = volume.statfs();
        let stale = [
            ("file", create(&volume, b"f", &vec![b'f'; 30_000])),
            ("small file", create(&volume, b"s", b"small")),
            (
                "directory",
                volume
                    .make_dir(Ino::ROOT, b"d", &NEW)
                    .expect("directory")
                    .ino,
            ),
            (
                "link",
                volume
                    .symlink(Ino::ROOT, b"l", &[b'x'; 200], &NEW)
                    .expect("link")
                    .ino,
            ),
        ];
        for name in [b"f", b"s", b"l"] {
            volume.unlink(Ino::ROOT, name).expect("unlinked");
        }
        volume.remove_dir(Ino::ROOT, b"d").expect("removed");
        for (what, ino) in stale {
            for (name, call) in calls(other) {
                assert_eq!(
                    call(&volume, ino),
                    Some(Errno::STALE),
                    "{layout}, {what}: {name}"
                );
            }
        }
        assert_eq!(volume.lookup(Ino::ROOT, b"other").expect("there"), other);
        volume.sync().expect("durable");
        let now = volume.statfs();
        assert_eq!(
            (now.free_files, now.free_blocks),
            (free.free_files, free.free_blocks)
        );
        volume.close().expect("closed");
        assert_clean(&device, layout);
    }
}

/// Returns the content of round `round`: never zeros, and different in each round.
fn pattern(round: u32) -> [u8; 5] {
    let [a, b, c, d] = round.to_le_bytes();
    [1, a, b, c, d]
}

/// Sets a flag on drop, also after a failure.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn handle_reads_one_file_while_threads_remove_and_create_others() {
    const ROUNDS: u32 = 3000;
    const SIZE: usize = 5 * 1000;
    if skip(&TOOLS) {
        return;
    }
    for layout in LAYOUTS {
        let (volume, device) = open(image(layout));
        let is_finished = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut handles = 0_u64;
                        while !is_finished.load(Relaxed) {
                            let Ok(ino) = volume.lookup(Ino::ROOT, b"a") else {
                                continue;
                            };
                            let file = match volume.open_file(ino) {
                                Ok(file) => file,
                                Err(error) => {
                                    assert_eq!(error.errno(), Errno::STALE);
                                    continue;
                                }
                            };
                            let mut first = None;
                            for part in 0..8 {
                                let mut buf = [0; 5];
                                let offset_bytes = part * 5 * 100;
                                match file.read_at(&mut buf, offset_bytes).expect("read") {
                                    // The file is still empty.
                                    0 => assert_eq!(first, None, "the file has become empty"),
                                    len => {
                                        assert_eq!(len, 5);
                                        assert_eq!(*first.get_or_insert(buf), buf);
                                    }
                                }
                            }
                            handles += 1;
                        }
                        handles
                    })
                })
                .collect();
            let set_on_drop = SetOnDrop(&is_finished);
            for round in 0..ROUNDS {
                let made = volume.create(Ino::ROOT, b"new", &NEW).expect("file");
                volume
                    .write_at(made.ino, &pattern(round).repeat(SIZE / 5), 0)
                    .expect("written");
                if round % 3 == 0 {
                    let _ = volume.unlink(Ino::ROOT, b"a");
                }
                volume
                    .rename(Ino::ROOT, b"new", Ino::ROOT, b"a", RenameFlags::empty())
                    .expect("renamed");
            }
            drop(set_on_drop);
            let handles: u64 = readers
                .into_iter()
                .map(|reader| reader.join().unwrap())
                .sum();
            println!("{layout}: {handles} handles");
        });
        volume.unlink(Ino::ROOT, b"a").expect("unlinked");
        volume.close().expect("closed");
        assert_clean(&device, layout);
    }
}
