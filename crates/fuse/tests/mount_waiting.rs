//! Requests that wait for a device that does not answer: what ends them, and which requests are answered meanwhile.

mod mounted;

use larder::{Ino, OpenOptions, Volume};
use larder_block::MemoryDevice;
use larder_fuse::{MountOptions, Transport, WriteBack};
use larder_instruments::ReorderingDevice;
use larder_testkit::device::{GatedDevice, Stopped, StoppedDevice};
use larder_testkit::e2fsprogs::{check_bytes, make_image_of};
use larder_testkit::{Requirement, skip, tool};
use mounted::{Mounted, wait_until};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const CONTENT_BYTES: usize = 300_000;

fn can_mount() -> bool {
    !skip(&[
        Requirement::Tool("mke2fs"),
        Requirement::Root,
        Requirement::Fuse,
    ])
}

fn content() -> Vec<u8> {
    (0..CONTENT_BYTES)
        .map(|at| (at >> 8).to_le_bytes()[0])
        .collect()
}

/// Creates a directory with the directory `mnt` and an image with files.
fn image_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["mnt", "tree", "tree/cold", "tree/warm"] {
        fs::create_dir(path(name)).unwrap();
    }
    fs::write(path("tree/content"), content()).unwrap();
    fs::write(path("tree/hot"), "hot").unwrap();
    for name in ["file", "other"] {
        fs::write(path("tree/cold").join(name), "cold").unwrap();
    }
    make_image_of(&path("tree"), &path("image"), "-t ext4", "32M").unwrap();
    folder
}

/// A read-write mount of an image on a device that can be stopped. The image has the files `content`, `hot`, `cold/file`
/// and `cold/other`, and the directory `warm`. The content of `content`, the directory `cold` and the bitmaps are not
/// in memory.
struct Fixture {
    mounted: Mounted,
    device: Arc<GatedDevice>,
    _folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::with(MountOptions::default())
    }

    fn with(options: MountOptions) -> Self {
        let folder = image_folder();
        let path = |name: &str| folder.path().join(name);
        let device = GatedDevice::new(fs::read(path("image")).unwrap());
        let mut opening = OpenOptions::default();
        opening.read_write = true;
        let volume = Volume::open_device(Arc::clone(&device) as _, &opening).unwrap();
        let options = MountOptions {
            read_write: true,
            ..options
        };
        let mounted = Mounted::serve(volume, &path("mnt"), &options);
        for name in ["content", "hot"] {
            fs::metadata(mounted.path.join(name)).unwrap();
        }
        assert!(!mounted.path.join("warm/absent").exists());
        Self {
            mounted,
            device,
            _folder: folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mounted.path.join(name)
    }

    /// Checks that e2fsck finds no error, and that the file `new` has the content `new`. The server must have
    /// ended.
    fn check_image(self) {
        self.mounted.volume.close().unwrap();
        let bytes = self.device.to_bytes();
        check_bytes(&bytes).unwrap();
        let device = Arc::new(MemoryDevice::new(bytes));
        let volume = Volume::open_device(device, &OpenOptions::default()).unwrap();
        let new = volume.lookup(Ino::ROOT, b"new").unwrap();
        let mut buf = [0; 8];
        let len = volume.read_at(new, &mut buf, 0).unwrap();
        assert_eq!(&buf[..len], b"new");
    }
}

fn start(program: &str, path: &Path) -> Child {
    start_with(program, &[path.as_os_str()])
}

fn start_with(program: &str, args: &[&OsStr]) -> Child {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Starts a program that reads a file with `O_DIRECT`.
fn start_direct_read(path: &Path) -> Child {
    let mut input = OsString::from("if=");
    input.push(path);
    let args = ["iflag=direct", "bs=4096", "of=/dev/null"].map(OsStr::new);
    start_with("dd", &[&input, args[0], args[1], args[2]])
}

/// Starts programs that read `content` and `cold/file`, and waits until both wait for the device.
fn start_two(fixture: &Fixture, stopped: &StoppedDevice<'_>) -> [Child; 2] {
    let reader = start("cat", &fixture.path("content"));
    stopped.wait_for(1);
    let finder = start("cat", &fixture.path("cold/file"));
    stopped.wait_for(2);
    [reader, finder]
}

/// Waits until a program has ended. Returns its output if it was successful.
fn output(mut program: Child) -> Option<Vec<u8>> {
    let mut output = Vec::new();
    program
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut output)
        .unwrap();
    program.wait().unwrap().success().then_some(output)
}

fn signal(program: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(program), signal).unwrap();
}

/// Waits until a program has been ended by a signal.
#[track_caller]
fn wait_for_end_by(program: &mut Child, signal: Signal) {
    let mut status = None;
    wait_until("the end of the program", || {
        status = program.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().signal(), Some(signal.as_raw()));
}

/// The file system that controls FUSE connections, which is usually mounted at /sys/fs/fuse/connections.
struct Control(TempDir);

impl Control {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("fusectl", folder.path(), "fusectl", flags, None).unwrap();
        Self(folder)
    }

    /// Waits until at least `count` requests of a mount wait for an answer.
    #[track_caller]
    fn wait_for(&self, mounted: &Mounted, count: usize) {
        let entry = larder_fuse::find_mount(&mounted.path).unwrap();
        let waiting = format!("{}/waiting", entry.device_minor);
        wait_until("the requests", || {
            let waiting = fs::read_to_string(self.0.path().join(&waiting)).unwrap();
            waiting.trim().parse::<usize>().unwrap() >= count
        });
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

#[test]
fn killed_programs_that_wait_leave_the_mount_usable() {
    if !can_mount() {
        return;
    }
    let fixture = Fixture::new();
    let stopped = fixture.device.stop(Stopped::Reads);
    let mut reader = start("cat", &fixture.path("content"));
    stopped.wait_for(1);
    reader.kill().unwrap();
    // The program waits only for a page of the kernel's cache, so it ends although the request is not answered.
    wait_until("the end of the reader", || {
        reader.try_wait().unwrap().is_some()
    });
    let mut finder = start("stat", &fixture.path("cold/file"));
    stopped.wait_for(2);
    finder.kill().unwrap();
    let hot = fixture.path("hot");
    fs::set_permissions(&hot, Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(&hot).unwrap().mode() & 0o777, 0o640);
    drop(stopped);
    for mut program in [reader, finder] {
        assert_eq!(program.wait().unwrap().signal(), Some(9));
    }
    assert_eq!(fs::read(fixture.path("content")).unwrap(), content());
    assert_eq!(fs::read(fixture.path("cold/file")).unwrap(), b"cold");
    fs::write(fixture.path("new"), "new").unwrap();
    let mut fixture = fixture;
    rustix::mount::unmount(&fixture.mounted.path, UnmountFlags::DETACH).unwrap();
    fixture.mounted.wait();
    fixture.check_image();
}

/// Starts a program that waits for the device.
type Start = fn(&Fixture) -> Child;

#[test]
fn killed_program_ends_although_the_device_does_not_answer() {
    if !can_mount() {
        return;
    }
    let lookup: Start = |fixture| start("stat", &fixture.path("cold/file"));
    let list: Start = |fixture| start("ls", &fixture.path("cold"));
    let read: Start = |fixture| start_direct_read(&fixture.path("content"));
    let sync: Start = |fixture| start("sync", &fixture.path("hot"));
    for (start, stopped) in [
        (lookup, Stopped::Reads),
        (list, Stopped::Reads),
        (read, Stopped::Reads),
        (sync, Stopped::Writes),
    ] {
        for killed_by in [Signal::KILL, Signal::TERM] {
            let fixture = Fixture::new();
            let free = || fixture.mounted.volume.statfs().free_files;
            let before = free();
            let stopped = fixture.device.stop(stopped);
            let mut program = start(&fixture);
            stopped.wait_for(1);
            signal(&program, killed_by);
            wait_for_end_by(&mut program, killed_by);
            drop(stopped);
            assert_eq!(fs::read(fixture.path("content")).unwrap(), content());
            // No lookup remains counted for the answer that was not sent.
            fs::remove_file(fixture.path("cold/file")).unwrap();
            wait_until("the removed file is forgotten", || free() == before + 1);
        }
    }
}

#[test]
fn killed_program_ends_a_direct_read_on_a_read_only_mount() {
    if !can_mount() {
        return;
    }
    let folder = image_folder();
    let path = |name: &str| folder.path().join(name);
    let device = GatedDevice::new(fs::read(path("image")).unwrap());
    let volume = Volume::open_device(Arc::clone(&device) as _, &OpenOptions::default()).unwrap();
    let mounted = Mounted::serve(volume, &path("mnt"), &MountOptions::default());
    let content_path = mounted.path.join("content");
    fs::metadata(&content_path).unwrap();
    let stopped = device.stop(Stopped::Reads);
    let mut reader = start_direct_read(&content_path);
    stopped.wait_for(1);
    signal(&reader, Signal::KILL);
    wait_for_end_by(&mut reader, Signal::KILL);
    drop(stopped);
    assert_eq!(fs::read(content_path).unwrap(), content());
}

#[test]
fn signal_that_does_not_kill_ends_no_request() {
    if !can_mount() {
        return;
    }
    let fixture = Fixture::new();
    let control = Control::mount();
    let stopped = fixture.device.stop(Stopped::Reads);
    let start_shell = |name: &str| {
        let script = "trap 'echo signal' USR1; echo ready; test -e \"$1\" && echo found";
        let path = fixture.path(name);
        let args = ["-c", script, "sh"].map(OsStr::new);
        let mut shell = start_with("sh", &[args[0], args[1], args[2], path.as_os_str()]);
        let mut ready = [0; 6];
        let output = shell.stdout.as_mut().unwrap();
        output.read_exact(&mut ready).unwrap();
        shell
    };
    let other = start_shell("cold/file");
    stopped.wait_for(1);
    let mut killed = start_shell("cold/other");
    control.wait_for(&fixture.mounted, 2);
    for shell in [&other, &killed] {
        signal(shell, Signal::USR1);
    }
    // The kernel sends only one `INTERRUPT` for a request, whatever the number of signals.
    signal(&killed, Signal::KILL);
    wait_for_end_by(&mut killed, Signal::KILL);
    drop(stopped);
    assert_eq!(output(other).unwrap(), b"signal\nfound\n");
}

#[test]
fn change_of_a_killed_program_is_made_if_a_worker_has_begun_it() {
    if !can_mount() {
        return;
    }
    let fixture = Fixture::with(MountOptions {
        threads: NonZeroUsize::new(2),
        ..MountOptions::default()
    });
    let stopped = fixture.device.stop(Stopped::Reads);
    let mut begun = start("mkdir", &fixture.path("warm/begun"));
    stopped.wait_for(1);
    signal(&begun, Signal::KILL);
    let finder = start("stat", &fixture.path("cold/file"));
    stopped.wait_for(2);
    // Both workers are busy.
    let size = ["-s", "0"].map(OsStr::new);
    let content_path = fixture.path("content");
    let mut queued = start_with("truncate", &[size[0], size[1], content_path.as_os_str()]);
    Control::mount().wait_for(&fixture.mounted, 3);
    signal(&queued, Signal::KILL);
    wait_for_end_by(&mut queued, Signal::KILL);
    assert!(begun.try_wait().unwrap().is_none());
    drop(stopped);
    wait_for_end_by(&mut begun, Signal::KILL);
    assert!(output(finder).is_some());
    assert!(fixture.path("warm/begun").is_dir());
    assert_eq!(fs::read(fixture.path("content")).unwrap(), content());
}

#[test]
fn reads_that_wait_leave_a_receiver_on_a_read_only_mount() {
    /// A number that is larger than the number of receivers.
    const READERS: usize = 8;
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["mnt", "tree"] {
        fs::create_dir(path(name)).unwrap();
    }
    let names: Vec<String> = (0..READERS)
        .map(|number| format!("file-{number}"))
        .collect();
    for name in &names {
        fs::write(path("tree").join(name), content()).unwrap();
    }
    make_image_of(&path("tree"), &path("image"), "-t ext4", "32M").unwrap();
    let device = GatedDevice::new(fs::read(path("image")).unwrap());
    let volume = Volume::open_device(Arc::clone(&device) as _, &OpenOptions::default()).unwrap();
    let options = MountOptions {
        transport: Transport::Device,
        ..MountOptions::default()
    };
    let mounted = Mounted::serve(volume, &path("mnt"), &options);
    let paths: Vec<PathBuf> = names.iter().map(|name| mounted.path.join(name)).collect();
    for path in &paths {
        fs::metadata(path).unwrap();
    }
    let stopped = device.stop(Stopped::Reads);
    let readers: Vec<Child> = paths.iter().map(|path| start("cat", path)).collect();
    stopped.wait_for(READERS);
    rustix::fs::statvfs(&mounted.path).unwrap();
    drop(stopped);
    for reader in readers {
        assert_eq!(output(reader), Some(content()));
    }
}

#[test]
fn nodes_of_removed_files_are_forgotten() {
    if !can_mount() {
        return;
    }
    let fixture = Fixture::new();
    let free = || fixture.mounted.volume.statfs().free_files;
    let before = free();
    let directory = fixture.path("directory");
    fs::create_dir(&directory).unwrap();
    for number in 0..200 {
        let path = |kind: &str| directory.join(format!("{kind}-{number}"));
        fs::write(path("file"), "content").unwrap();
        fs::write(path("replaced"), "content").unwrap();
        fs::hard_link(path("file"), path("link")).unwrap();
        symlink("file", path("symlink")).unwrap();
        fs::create_dir(path("directory")).unwrap();
        fs::rename(path("file"), path("replaced")).unwrap();
        assert!(!path("file").exists());
    }
    for _ in 0..2 {
        let entries = fs::read_dir(&directory).unwrap();
        assert_eq!(
            entries
                .inspect(|entry| {
                    entry.as_ref().unwrap().metadata().unwrap();
                })
                .count(),
            800
        );
    }
    wait_until("the replaced files are forgotten", || {
        free() == before - 601
    });
    let open = File::open(directory.join("link-7")).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    // The kernel also keeps the directory of the open file.
    wait_until("all nodes but two are forgotten", || free() == before - 2);
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    drop(open);
    wait_until("the last nodes are forgotten", || free() == before);
}

#[test]
fn attributes_are_invalidated_while_a_read_of_the_file_waits() {
    if !can_mount() {
        return;
    }
    let fixture = Fixture::new();
    let path = fixture.path("content");
    let changed = || {
        let metadata = fs::metadata(&path).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let before = changed();
    let stopped = fixture.device.stop(Stopped::Reads);
    let reader = start("cat", &path);
    stopped.wait_for(1);
    let file = File::open(&path).unwrap();
    let flags = ioctl_getflags(&file).unwrap();
    ioctl_setflags(&file, flags | IFlags::NODUMP).unwrap();
    assert_ne!(changed(), before);
    drop(stopped);
    assert_eq!(output(reader).unwrap(), content());
}

#[test]
fn detached_mount_answers_the_requests_that_wait() {
    if !can_mount() || skip(&[Requirement::Tool("fusermount3")]) {
        return;
    }
    let by_call = |path: &Path| rustix::mount::unmount(path, UnmountFlags::DETACH).unwrap();
    let by_program = |path: &Path| {
        let fusermount = tool::find("fusermount3").unwrap();
        let args = [OsStr::new("-u"), OsStr::new("-z"), path.as_os_str()];
        let status = Command::new(fusermount).args(args).status();
        assert!(status.unwrap().success());
    };
    for detach in [&by_call as &dyn Fn(&Path), &by_program] {
        let mut fixture = Fixture::new();
        fs::write(fixture.path("new"), "new").unwrap();
        let device = Arc::clone(&fixture.device);
        let stopped = device.stop(Stopped::Reads);
        let [reader, finder] = start_two(&fixture, &stopped);
        let path = fixture.mounted.path.clone();
        assert_eq!(
            rustix::mount::unmount(&path, UnmountFlags::empty()),
            Err(Errno::BUSY)
        );
        detach(&path);
        assert!(larder_fuse::find_mount(&path).is_err());
        drop(stopped);
        assert_eq!(output(reader).unwrap(), content());
        assert_eq!(output(finder).unwrap(), b"cold");
        fixture.mounted.wait();
        fixture.check_image();
    }
}

#[test]
fn aborted_connection_fails_the_requests_that_wait_and_ends_the_server() {
    if !can_mount() {
        return;
    }
    let mut fixture = Fixture::new();
    let entry = larder_fuse::find_mount(&fixture.mounted.path).unwrap();
    let control = Control::mount();
    let abort = control
        .0
        .path()
        .join(format!("{}/abort", entry.device_minor));
    fs::write(fixture.path("new"), "new").unwrap();
    let device = Arc::clone(&fixture.device);
    let stopped = device.stop(Stopped::Reads);
    let [reader, finder] = start_two(&fixture, &stopped);
    fs::write(abort, "1").unwrap();
    assert_eq!(output(reader), None);
    assert_eq!(output(finder), None);
    let error = fs::metadata(fixture.path("absent")).unwrap_err();
    let errno = Errno::from_io_error(&error);
    assert!(
        matches!(errno, Some(Errno::NOTCONN | Errno::CONNABORTED)),
        "{error}"
    );
    drop(stopped);
    fixture.mounted.wait();
    fixture.check_image();
}

/// Restricts this thread, and the programs that it starts, to one processor. All their requests then arrive in the
/// queue of this processor.
fn use_one_processor() {
    let allowed = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|&processor| allowed.is_set(processor));
    let mut one = CpuSet::new();
    one.set(first.unwrap());
    sched_setaffinity(None, &one).unwrap();
}

/// Calls `run` with a mount that has two receivers, or on which all requests arrive in one queue. Calls it in a
/// thread of its own, so that the processors of other tests are not restricted.
fn with_few_receivers(run: impl FnOnce(Fixture) + Send) {
    if !can_mount() {
        return;
    }
    let test = || {
        let fixture = Fixture::with(MountOptions {
            threads: NonZeroUsize::new(2),
            write_back: WriteBack::Off,
            ..MountOptions::default()
        });
        use_one_processor();
        run(fixture);
    };
    thread::scope(|scope| scope.spawn(test).join().unwrap());
}

/// Checks that requests are answered from memory.
#[track_caller]
fn check_names_are_answered(fixture: &Fixture) {
    for number in 0..50 {
        assert!(!fixture.path(&format!("absent-{number}")).exists());
    }
}

#[test]
fn requests_that_wait_do_not_delay_requests_that_are_answered_from_memory() {
    with_few_receivers(|fixture| {
        let stopped = fixture.device.stop(Stopped::Reads);
        let maker = start("mkdir", &fixture.path("warm/directory"));
        stopped.wait_for(1);
        let finder = start("stat", &fixture.path("cold/file"));
        stopped.wait_for(2);
        check_names_are_answered(&fixture);
        drop(stopped);
        assert!(output(maker).is_some() && output(finder).is_some());
        assert!(fixture.path("warm/directory").is_dir());
    });
}

#[test]
fn killed_programs_end_although_the_server_has_not_received_their_requests() {
    /// More requests than the kernel passes to the server at the same time.
    const PROGRAMS: usize = 24;
    with_few_receivers(|fixture| {
        let control = Control::mount();
        let stopped = fixture.device.stop(Stopped::Reads);
        let name = |number| fixture.path(&format!("cold/{number}"));
        let programs: Vec<Child> = (0..PROGRAMS)
            .map(|number| start("stat", &name(number)))
            .collect();
        control.wait_for(&fixture.mounted, PROGRAMS);
        for mut program in programs {
            signal(&program, Signal::KILL);
            wait_for_end_by(&mut program, Signal::KILL);
        }
        drop(stopped);
        assert_eq!(fs::read(fixture.path("cold/file")).unwrap(), b"cold");
    });
}

/// Starts a program that writes `len` bytes to the start of a file, with one request.
fn start_write(path: &Path, len: usize) -> Child {
    let mut target = OsString::from("of=");
    target.push(path);
    let size = OsString::from(format!("bs={len}"));
    let args = ["if=/dev/zero", "count=1", "oflag=direct", "conv=notrunc"].map(OsStr::new);
    start_with("dd", &[&target, &size, args[0], args[1], args[2], args[3]])
}

/// Creates two files, whose content is on the device.
fn make_two_files(fixture: &Fixture, bytes: &[u8]) -> [PathBuf; 2] {
    ["first", "second"].map(|name| {
        let path = fixture.path(name);
        fs::write(&path, bytes).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        path
    })
}

#[test]
fn large_writes_that_wait_leave_a_receiver() {
    const LEN: usize = 512 << 10;
    with_few_receivers(|fixture| {
        let paths = make_two_files(&fixture, &vec![1; LEN]);
        let stopped = fixture.device.stop(Stopped::Writes);
        let first = start_write(&paths[0], LEN);
        stopped.wait_for(1);
        let second = start_write(&paths[1], LEN);
        stopped.wait_for(2);
        check_names_are_answered(&fixture);
        drop(stopped);
        assert!(output(first).is_some() && output(second).is_some());
        for path in paths {
            assert_eq!(fs::read(path).unwrap(), vec![0; LEN]);
        }
    });
}

#[test]
fn large_writes_that_take_too_much_memory_are_answered_when_the_device_answers() {
    /// The writes together are larger than the memory for copies of requests.
    const WRITES: usize = 20;
    const LEN: usize = 1 << 20;
    with_few_receivers(|fixture| {
        let control = Control::mount();
        let paths = (0..WRITES).map(|number| fixture.path(&format!("file-{number}")));
        let paths: Vec<PathBuf> = paths.collect();
        for path in &paths {
            File::create(path).unwrap();
        }
        let stopped = fixture.device.stop(Stopped::Writes);
        let writes: Vec<Child> = paths.iter().map(|path| start_write(path, LEN)).collect();
        control.wait_for(&fixture.mounted, WRITES);
        drop(stopped);
        for write in writes {
            assert!(output(write).is_some());
        }
        for path in paths {
            assert_eq!(fs::read(path).unwrap(), vec![0; LEN]);
        }
    });
}

/// Writes `bytes` to both files at offset `offset_bytes`. Stops the writes of the device, and calls `run` while the
/// content of both files is written back. The device answers when `run` drops the guard.
fn while_two_files_are_written_back(
    fixture: &Fixture,
    paths: &[PathBuf; 2],
    (bytes, offset_bytes): (&[u8], u64),
    run: impl FnOnce(StoppedDevice<'_>),
) {
    let inodes = paths.each_ref().map(|path| {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(bytes, offset_bytes).unwrap();
        Ino(file.metadata().unwrap().ino().try_into().unwrap())
    });
    let volume = &fixture.mounted.volume;
    thread::scope(|scope| {
        let stopped = fixture.device.stop(Stopped::Writes);
        let syncs = inodes.map(|ino| scope.spawn(move || volume.sync_file(ino, false)));
        stopped.wait_for(2);
        run(stopped);
        for sync in syncs {
            sync.join().unwrap().unwrap();
        }
    });
}

#[test]
fn write_to_a_page_that_is_written_back_waits_in_a_worker() {
    const PAGE: usize = 4096;
    with_few_receivers(|fixture| {
        let control = Control::mount();
        let paths = make_two_files(&fixture, &[1; 3 * PAGE]);
        let part = (&[2; 2 * PAGE][..], PAGE as u64);
        while_two_files_are_written_back(&fixture, &paths, part, |stopped| {
            let writes = paths.each_ref().map(|path| start_write(path, 2 * PAGE));
            control.wait_for(&fixture.mounted, 2);
            check_names_are_answered(&fixture);
            drop(stopped);
            for write in writes {
                assert!(output(write).is_some());
            }
        });
        for path in paths {
            let expected = [[0; PAGE], [0; PAGE], [2; PAGE]].concat();
            assert_eq!(fs::read(path).unwrap(), expected);
        }
    });
}

#[test]
fn deletion_that_waits_delays_no_other_request() {
    with_few_receivers(|fixture| {
        let free = || fixture.mounted.volume.statfs().free_files;
        let before = free();
        let paths = make_two_files(&fixture, b"old");
        let empty = fixture.path("empty");
        File::create(&empty).unwrap();
        while_two_files_are_written_back(&fixture, &paths, (b"new", 0), |stopped| {
            for path in &paths {
                fs::remove_file(path).unwrap();
            }
            fs::remove_file(&empty).unwrap();
            wait_until("the empty file is deleted", || free() == before - 2);
            check_names_are_answered(&fixture);
            drop(stopped);
            wait_until("the other files are deleted", || free() == before);
        });
    });
}

#[test]
fn request_that_a_device_never_answers_fails_after_the_timeout() {
    if !can_mount() {
        return;
    }
    let folder = image_folder();
    let bytes = fs::read(folder.path().join("image")).unwrap();
    let device = ReorderingDevice::new(Arc::new(MemoryDevice::new(bytes)), 1);
    let device = Arc::new(device);
    let mut options = OpenOptions::default();
    options.device_timeout = Some(Duration::from_millis(500));
    let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
    let mounted = Mounted::serve(volume, &folder.path().join("mnt"), &MountOptions::default());
    let path = |name: &str| mounted.path.join(name);
    fs::metadata(path("content")).unwrap();
    device.silence(0..u64::MAX);
    let errors = [
        fs::metadata(path("cold/file")).unwrap_err(),
        fs::read(path("content")).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    }
    device.answer();
    assert_eq!(fs::read(path("cold/file")).unwrap(), b"cold");
    assert_eq!(fs::read(path("content")).unwrap(), content());
}
