//! Directories that do not form a tree, as on a malicious image: threads that change names in them
//! never deadlock, whatever the names refer to.

use larder::{Ino, NewFile, OpenOptions, RenameFlags, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_testkit::e2fsprogs::{debugfs_script, make_image};
use larder_testkit::{Access, Requirement, skip};
use rustix::io::Errno;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

const NEW: NewFile = NewFile {
    permissions: 0o755,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// The number of operations of each thread. If two threads can wait for each other, they do so
/// after some hundred operations.
const ROUNDS: u32 = 10_000;

/// A deadlock never ends. This only limits the duration of a failing test.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The commands for debugfs: `a` and `b` contain each other, `a` also contains itself, and `shared`
/// is in both.
const COMMANDS: &str = "mkdir a\nmkdir b\nmkdir shared\n\
    ln a b/a\nln b a/b\nln a a/self\nln shared a/shared\nln shared b/shared\n";

fn image() -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    make_image(file.path(), "-t ext4 -b 1024", "8M").expect("image");
    debugfs_script(file.path(), Access::ReadWrite, COMMANDS).expect("entries");
    std::fs::read(file.path()).expect("image")
}

fn open() -> Arc<Volume> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(image()));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    Arc::new(Volume::open_device(device, &options).expect("writable volume"))
}

fn errno<T>(result: larder::Result<T>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

type Change = fn(&Volume, [Ino; 2]);

/// Runs the two changes repeatedly in two threads, and waits for both. The second thread has the
/// directories in the opposite order.
fn change_both_ways(what: &str, changes: [Change; 2]) {
    let volume = open();
    let [a, b] = [b"a", b"b"].map(|name| volume.resolve(name).expect("directory"));
    let start = Arc::new(Barrier::new(2));
    let ends: Vec<Receiver<()>> = std::iter::zip(changes, [[a, b], [b, a]])
        .map(|(change, dirs)| {
            let (volume, start) = (Arc::clone(&volume), Arc::clone(&start));
            let (end, ended) = channel();
            // This thread is not scoped, so that the test can fail even if the thread waits
            // forever.
            std::thread::spawn(move || {
                start.wait();
                for _ in 0..ROUNDS {
                    change(&volume, dirs);
                }
                drop(volume);
                end.send(()).expect("the receiver exists");
            });
            ended
        })
        .collect();
    for ended in ends {
        let ended = ended.recv_timeout(TIMEOUT);
        ended.unwrap_or_else(|error| panic!("{what}: deadlock: {error}"));
    }
}

/// Returns the name of `there` in the directory `here`.
fn name_of_other([here, there]: [Ino; 2]) -> &'static [u8] {
    if here < there { b"b" } else { b"a" }
}

fn remove_other(volume: &Volume, dirs: [Ino; 2]) {
    let removed = volume.remove_dir(dirs[0], name_of_other(dirs));
    assert_eq!(errno(removed), Some(Errno::NOTEMPTY));
}

fn unlink_other(volume: &Volume, dirs: [Ino; 2]) {
    let removed = volume.unlink(dirs[0], name_of_other(dirs));
    assert_eq!(errno(removed), Some(Errno::ISDIR));
}

/// Renames the other directory within its parent, to a name that exists.
fn rename_other(volume: &Volume, dirs: [Ino; 2]) {
    let flags = RenameFlags::NOREPLACE;
    let renamed = volume.rename(dirs[0], name_of_other(dirs), dirs[0], b"shared", flags);
    assert_eq!(errno(renamed), Some(Errno::EXIST));
}

/// Renames from one directory to the other, over existing files.
fn replace_in_other(volume: &Volume, [here, there]: [Ino; 2]) {
    let flags = RenameFlags::empty();
    let _ = volume.create(here, b"file", &NEW);
    let _ = volume.rename(here, b"file", there, b"file", flags);
    let _ = volume.rename(here, b"shared", there, b"shared", flags);
    let _ = volume.rename(here, b"file", there, b"shared", flags);
}

/// Exchanges the other directory with an empty one.
fn exchange_other(volume: &Volume, dirs: [Ino; 2]) {
    let flags = RenameFlags::EXCHANGE;
    let name = name_of_other(dirs);
    let _ = volume.rename(dirs[0], b"shared", dirs[0], name, flags);
}

fn link_in_other(volume: &Volume, [here, there]: [Ino; 2]) {
    if let Ok(made) = volume.create(here, b"linked", &NEW) {
        let _ = volume.link(made.ino, there, b"second");
    }
    let _ = volume.unlink(here, b"linked");
    let _ = volume.unlink(there, b"second");
}

#[test]
fn directories_that_contain_each_other_do_not_deadlock_threads() {
    if skip(&["mke2fs", "debugfs"].map(Requirement::Tool)) {
        return;
    }
    change_both_ways("rmdir", [remove_other; 2]);
    change_both_ways("unlink", [unlink_other; 2]);
    change_both_ways("rename", [rename_other; 2]);
    change_both_ways("rename and rmdir", [exchange_other, remove_other]);
    change_both_ways("replace", [replace_in_other; 2]);
    change_both_ways(
        "replace and rmdir",
        [replace_in_other, |volume, dirs| {
            let _ = volume.remove_dir(dirs[0], name_of_other(dirs));
            let _ = volume.remove_dir(dirs[0], b"shared");
        }],
    );
    change_both_ways("link", [link_in_other; 2]);
    change_both_ways("link and rename", [link_in_other, replace_in_other]);
}

#[test]
fn directory_that_contains_itself_is_damage() {
    if skip(&["mke2fs", "debugfs"].map(Requirement::Tool)) {
        return;
    }
    let volume = open();
    let a = volume.resolve(b"a").expect("directory");
    assert_eq!(volume.lookup(a, b"self").expect("entry"), a);
    let damaged = Some(Errno::UCLEAN);
    let plain = RenameFlags::empty();
    assert_eq!(errno(volume.remove_dir(a, b"self")), damaged);
    assert_eq!(errno(volume.unlink(a, b"self")), damaged);
    assert_eq!(errno(volume.rename(a, b"self", a, b"x", plain)), damaged);
    let over = volume.rename(a, b"shared", a, b"self", plain);
    assert_eq!(errno(over), damaged);
    assert_eq!(errno(volume.link(a, a, b"x")), Some(Errno::PERM));
}
