//! Sessions on a mount: the transport if the kernel refuses rings, and the requests that the kernel sends for stat(2).

use super::handler::{Arrival, Ending, Outcome, Waiting};
use super::*;
use crate::mount::attach::{Attached, attach};
use crate::node::NodeId;
use crate::operations::Answer;
use crate::protocol::abi::opcode;
use crate::protocol::{Body, Malformed, Request};
use crate::server::{Unmounter, Unserved, abort};
use larder::block::timing::Measured;
use larder::{Ino, OpenOptions};
use larder_testkit::e2fsprogs::{check, make_image_of};
use larder_testkit::{Requirement, report_skipped, skip};
use parking_lot::Mutex;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use tempfile::TempDir;

mod listings;

/// Creates a directory with `mnt` and an image with the file `file`. Returns `None` if this test is skipped.
fn folder() -> Option<TempDir> {
    folder_of_image("-t ext4")
}

/// Returns a directory like [`folder`]. `arguments` are those of mke2fs for the image.
fn folder_of_image(arguments: &str) -> Option<TempDir> {
    let needed = [
        Requirement::Tool("mke2fs"),
        Requirement::Root,
        Requirement::Fuse,
    ];
    if skip(&needed) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["mnt", "tree"] {
        fs::create_dir(path(name)).unwrap();
    }
    fs::write(path("tree/file"), "content").unwrap();
    make_image_of(&path("tree"), &path("image"), arguments, "32M").unwrap();
    Some(folder)
}

/// The handler of a volume, which records the requests of the thread that created it.
#[derive(Debug)]
struct Recorder {
    requests: Requests,
    thread: u32,
    seen: Mutex<Vec<(u32, NodeId)>>,
}

impl Handler for Recorder {
    fn answer(
        &self,
        header: &Header,
        request: Result<Request<'_>, Malformed>,
        waiting: Waiting,
        body: &mut Body<'_>,
    ) -> Outcome {
        let outcome = self.requests.answer(header, request, waiting, body);
        if header.caller.thread == self.thread && matches!(outcome, Outcome::Reply(_)) {
            self.seen.lock().push((header.opcode, header.node));
        }
        outcome
    }

    fn ending(&self, request: &Request<'_>) -> Ending {
        self.requests.ending(request)
    }

    fn waits_for_kernel(&self, request: &Request<'_>) -> bool {
        self.requests.waits_for_kernel(request)
    }

    fn discard(&self, header: &Header, body: &[u8]) {
        self.requests.discard(header, body);
    }

    fn record(&self, arrival: &Arrival, measured: Option<Measured>, answer: Answer<&[u8]>) {
        self.requests.record(arrival, measured, answer);
    }

    fn end(&self) {
        self.requests.end();
    }
}

/// A mount that this process serves, unmounted when dropped.
struct Served {
    path: PathBuf,
    transport: MountTransport,
    recorder: Arc<Recorder>,
    unmounter: Unmounter,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Served {
    /// Mounts the image in `folder`.
    fn start(
        folder: &Path,
        options: &MountOptions,
        collects_writes: bool,
        create_queues: impl FnOnce(&Arc<Connection>, usize) -> io::Result<Queues>,
    ) -> Result<Self> {
        let mut opening = OpenOptions::default();
        opening.read_write = options.read_write;
        let volume = Arc::new(Volume::open(folder.join("image"), &opening).unwrap());
        let Attached {
            device,
            entry,
            is_inherited,
        } = attach(&folder.join("mnt"), options)?;
        let unmounter = Unmounter {
            entry,
            is_inherited,
        };
        let mut unserved = Unserved(Some(unmounter.clone()));
        let handshake = Handshake::perform(
            device,
            options,
            volume.time_granularity_ns(),
            || collects_writes,
            create_queues,
        )?;
        let recorder = Arc::new(Recorder {
            requests: Requests::new(
                Operations::new(Arc::clone(&volume), options),
                Arc::default(),
                Arc::clone(&handshake.connection),
                &handshake.agreement,
                options,
            ),
            thread: rustix::thread::gettid()
                .as_raw_nonzero()
                .get()
                .cast_unsigned(),
            seen: Mutex::default(),
        });
        let session = handshake.session(Arc::clone(&recorder) as _, options)?;
        let transport = session.transport();
        let entry = unmounter.entry.clone();
        let serve = move || {
            session.run(|| abort(&entry))?;
            volume.close().map_err(Error::Close)
        };
        unserved.0 = None;
        Ok(Self {
            path: unmounter.entry.mountpoint.clone(),
            transport,
            recorder,
            unmounter,
            thread: Some(thread::spawn(serve)),
        })
    }

    /// Returns the requests that `work` causes.
    fn requests_of(&self, work: impl FnOnce()) -> Vec<(u32, NodeId)> {
        self.recorder.seen.lock().clear();
        work();
        std::mem::take(&mut *self.recorder.seen.lock())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let unmounted = self.unmounter.unmount();
        let served = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            unmounted.unwrap();
            served.unwrap().unwrap().unwrap();
        }
    }
}

/// A function that creates rings.
type Create = fn(&Arc<Connection>, usize) -> io::Result<Queues>;

/// The kernel refuses entries with this number of bytes, because they are too small.
const REFUSED_BYTES: usize = 4096;

/// Creates rings whose entries the kernel refuses.
fn refused_queues(connection: &Arc<Connection>, waiting: usize) -> io::Result<Queues> {
    Queues::with_data_bytes(connection, waiting, |_| REFUSED_BYTES)
}

/// Creates rings of which the kernel refuses only those entries that are registered last. On a machine with one
/// processor, these are all entries.
fn queues_refused_last(connection: &Arc<Connection>, waiting: usize) -> io::Result<Queues> {
    Queues::with_data_bytes(connection, waiting, |thread| match thread {
        0 => REFUSED_BYTES,
        _ => DATA_BYTES as usize,
    })
}

/// Creates rings whose commands do not reach the FUSE driver, so the kernel keeps waiting for entries.
fn unreached_queues(_: &Arc<Connection>, waiting: usize) -> io::Result<Queues> {
    let (_, writer) = io::pipe()?;
    Queues::new(&Arc::new(Connection(OwnedFd::from(writer))), waiting)
}

#[test]
fn no_request_is_lost_whether_or_not_the_entries_of_rings_are_accepted() {
    const READERS: usize = 4;
    let Some(folder) = folder().filter(|_| !skip(&[Requirement::FuseOverUring])) else {
        return;
    };
    if !can_change_policy() {
        return report_skipped("the server lacks CAP_SYS_NICE");
    }
    let outcomes: [(Create, MountTransport); 4] = [
        (Queues::new, MountTransport::IoUring),
        (refused_queues, MountTransport::Device),
        (queues_refused_last, MountTransport::Device),
        (unreached_queues, MountTransport::Device),
    ];
    for (create_queues, transport) in outcomes {
        for read_write in [false, true] {
            let options = MountOptions {
                read_write,
                ..MountOptions::default()
            };
            let file = folder.path().join("mnt/file");
            let mut readers = Vec::new();
            let served = Served::start(folder.path(), &options, false, |connection, waiting| {
                // The mount exists, and the kernel waits for the reply to INIT. So the requests of these threads wait.
                readers.extend((0..READERS).map(|_| {
                    let file = file.clone();
                    thread::spawn(move || fs::read(file))
                }));
                create_queues(connection, waiting)
            });
            let served = served.unwrap();
            assert_eq!(served.transport, transport);
            assert_eq!(readers.len(), READERS);
            for reader in readers {
                assert_eq!(reader.join().unwrap().unwrap(), b"content");
            }
            if read_write {
                fs::write(served.path.join("new"), "new").unwrap();
            }
        }
    }
    check(&folder.path().join("image")).unwrap();
}

#[test]
fn mount_over_io_uring_fails_if_the_kernel_refuses_the_entries_of_rings() {
    let Some(folder) = folder().filter(|_| !skip(&[Requirement::FuseOverUring])) else {
        return;
    };
    let options = MountOptions {
        transport: Transport::Uring,
        ..MountOptions::default()
    };
    let outcomes: [(Create, io::ErrorKind); 3] = [
        (refused_queues, io::ErrorKind::InvalidInput),
        (queues_refused_last, io::ErrorKind::InvalidInput),
        (unreached_queues, io::ErrorKind::Unsupported),
    ];
    for (create_queues, kind) in outcomes {
        let refused = Served::start(folder.path(), &options, false, create_queues);
        let Err(Error::NoIoUring(error)) = refused else {
            panic!("the mount does not fail as expected");
        };
        assert_eq!(error.kind(), kind, "{error}");
        let mountpoint = folder.path().join("mnt");
        let mounted = crate::find_mount(&mountpoint);
        assert!(matches!(mounted, Err(Error::NotMounted(_))), "{mounted:?}");
    }
}

/// A change in a directory that contains the file `neighbour`, and another file with the names `file` and `other`.
/// After the change, stat(2) is called for `name`.
struct Case {
    change: fn(&Path),
    name: &'static str,
    /// The request of the first call if the kernel does not collect writes.
    request: Option<u32>,
    /// The request of the first call if the kernel collects writes, and maintains sizes and times itself.
    request_if_collecting: Option<u32>,
}

const CASES: [Case; 5] = [
    Case {
        change: |directory| {
            let file = File::options().write(true).open(directory.join("file"));
            file.unwrap().write_all_at(b"changed", 100).unwrap();
        },
        name: "file",
        request: Some(opcode::GETATTR),
        request_if_collecting: Some(opcode::GETATTR),
    },
    Case {
        change: |directory| fs::rename(directory.join("file"), directory.join("new")).unwrap(),
        name: "new",
        request: Some(opcode::GETATTR),
        request_if_collecting: None,
    },
    Case {
        change: |directory| fs::remove_file(directory.join("file")).unwrap(),
        name: "other",
        request: Some(opcode::GETATTR),
        request_if_collecting: None,
    },
    Case {
        change: |directory| fs::remove_file(directory.join("neighbour")).unwrap(),
        name: "file",
        request: None,
        request_if_collecting: None,
    },
    Case {
        change: |directory| fs::remove_file(directory.join("file")).unwrap(),
        name: "file",
        request: Some(opcode::LOOKUP),
        request_if_collecting: Some(opcode::LOOKUP),
    },
];

/// Calls stat(2), which requests all attributes except the creation time.
fn stat(path: &Path) -> rustix::io::Result<rustix::fs::Stat> {
    rustix::fs::stat(path)
}

#[test]
fn stat_after_a_change_sends_one_request_and_then_none() {
    let Some(folder) = folder() else {
        return;
    };
    for collects_writes in [false, true] {
        let options = MountOptions {
            read_write: true,
            ..MountOptions::default()
        };
        let served = Served::start(folder.path(), &options, collects_writes, Queues::new).unwrap();
        for (number, case) in CASES.iter().enumerate() {
            let directory = served.path.join(format!("{collects_writes}-{number}"));
            fs::create_dir(&directory).unwrap();
            for name in ["file", "neighbour"] {
                fs::write(directory.join(name), "content").unwrap();
            }
            fs::hard_link(directory.join("file"), directory.join("other")).unwrap();
            let all = || {
                for name in [".", "file", "other", "neighbour"] {
                    stat(&directory.join(name)).unwrap();
                }
            };
            all();
            let repeated = served.requests_of(all);
            assert!(repeated.is_empty(), "{repeated:?}");

            let ino = u32::try_from(stat(&directory).unwrap().st_ino).unwrap();
            let of_directory = (opcode::GETATTR, NodeId::of(Ino(ino)));
            (case.change)(&directory);
            let path = directory.join(case.name);
            let call = || {
                let _ = stat(&path);
            };
            let first = served.requests_of(call);
            // Linux 6.18 discards all attributes of a changed directory, and needs them to check permissions. Later
            // versions do not send this request.
            let mut others = first.clone();
            others.retain(|request| *request != of_directory);
            assert!(first.len() - others.len() <= 1, "case {number}: {first:?}");
            let opcodes: Vec<u32> = others.iter().map(|(opcode, _)| *opcode).collect();
            let expected = if collects_writes {
                case.request_if_collecting
            } else {
                case.request
            };
            let expected: Vec<u32> = expected.into_iter().collect();
            assert_eq!(opcodes, expected, "case {number}, {collects_writes}");
            let repeated = served.requests_of(call);
            assert!(repeated.is_empty(), "case {number}: {repeated:?}");
        }
    }
}

#[test]
fn stat_of_an_open_file_after_a_write_of_another_thread_sends_one_request() {
    const ADDED: &[u8] = b" and more";
    let Some(folder) = folder() else {
        return;
    };
    for collects_writes in [false, true] {
        let options = MountOptions {
            read_write: true,
            ..MountOptions::default()
        };
        let served = Served::start(folder.path(), &options, collects_writes, Queues::new).unwrap();
        let path = served.path.join("file");
        let file = File::open(&path).unwrap();
        let size_bytes = || rustix::fs::fstat(&file).unwrap().st_size.cast_unsigned();
        let before = size_bytes();
        let repeated = served.requests_of(|| assert_eq!(size_bytes(), before));
        assert!(repeated.is_empty(), "{repeated:?}");

        let write = move || {
            let file = File::options().write(true).open(path);
            file?.write_all_at(ADDED, before)
        };
        thread::spawn(write).join().unwrap().unwrap();
        let after = before + ADDED.len() as u64;
        let first = served.requests_of(|| assert_eq!(size_bytes(), after));
        let opcodes: Vec<u32> = first.iter().map(|(opcode, _)| *opcode).collect();
        assert_eq!(opcodes, [opcode::GETATTR], "{collects_writes}");
        let repeated = served.requests_of(|| assert_eq!(size_bytes(), after));
        assert!(repeated.is_empty(), "{repeated:?}");
    }
}

#[test]
fn times_of_small_inodes_have_whole_seconds_while_the_kernel_maintains_them() {
    let Some(folder) = folder_of_image("-t ext4 -I 128") else {
        return;
    };
    let options = MountOptions {
        read_write: true,
        ..MountOptions::default()
    };
    let served = Served::start(folder.path(), &options, true, Queues::new).unwrap();
    let path = served.path.join("file");
    for content in ["first", "second", "third"] {
        fs::write(&path, content).unwrap();
        let stat = stat(&path).unwrap();
        assert_eq!((stat.st_mtime_nsec, stat.st_ctime_nsec), (0, 0));
    }
}
