//! Servers that are killed while programs use their mounts, and mounts that many programs use at once.

mod support;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use support::{
    Fixture, Server, User, assert_clean, content, mount, mount_line, ready, serve, signal, umount,
    wait_until,
};

/// The file system that controls FUSE connections, which is usually mounted at /sys/fs/fuse/connections.
struct Control(PathBuf);

impl Control {
    fn mount(fixture: &Fixture) -> Self {
        let path = fixture.directory("control", User::Same);
        rustix::mount::mount("fusectl", &path, "fusectl", MountFlags::empty(), None).unwrap();
        Self(path)
    }

    /// Returns the number of requests of the mount at `mountpoint` that are not answered.
    fn waiting(&self, mountpoint: &Path) -> usize {
        let line = mount_line(mountpoint).unwrap();
        let device = line.split(' ').nth(2).unwrap();
        let (_, minor) = device.split_once(':').unwrap();
        let waiting = fs::read_to_string(self.0.join(minor).join("waiting")).unwrap();
        waiting.trim().parse().unwrap()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// Returns whether `error` says that the server has ended. `ECANCELED` is the error of a request in a ring.
fn is_without_server(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED)
    )
}

/// Stops a server, and waits until all its threads have stopped.
fn stop(server: &Server) {
    signal(server, Signal::STOP);
    let pid = Pid::from_raw(i32::try_from(server.0.id()).unwrap());
    let (_, status) = waitpid(pid, WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped());
}

fn kill(server: &mut Server) {
    signal(server, Signal::KILL);
    server.0.wait().unwrap();
}

#[test]
fn requests_that_wait_for_a_killed_server_fail_and_synced_content_survives() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let server = serve(&fixture, &mountpoint.0, "rw");
    let path = |name: &str| mountpoint.0.join(name);
    fs::write(path("synced"), content(100_000)).unwrap();
    let synced = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path("synced"))
        .unwrap();
    synced.sync_all().unwrap();
    // No two of the requests need the same lock of the kernel.
    let requests: [&(dyn Fn() -> io::Result<()> + Sync); 5] = [
        &|| fs::metadata(path("absent")).map(drop),
        &|| fs::read(path("dir/large")).map(drop),
        &|| fs::create_dir(path("dir/new")),
        &|| synced.write_at(b"unsynced", 0).map(drop),
        &|| File::open(path("hello"))?.sync_all(),
    ];
    fs::metadata(path("dir/large")).unwrap();
    let control = Control::mount(&fixture);
    // A stopped server answers nothing, so all requests wait. If the server has rings, the requests wait
    // there.
    stop(&server);
    thread::scope(|scope| {
        // If this closure panics, dropping the server kills it before the threads are joined.
        let mut server = server;
        let programs = requests.map(|request| scope.spawn(request));
        wait_until("the requests", || {
            control.waiting(&mountpoint.0) >= requests.len()
        });
        kill(&mut server);
        for (index, program) in programs.into_iter().enumerate() {
            let error = program.join().unwrap().unwrap_err();
            // A program that waits for a page gets EIO.
            let is_expected = is_without_server(&error)
                || Errno::from_io_error(&error) == Some(Errno::IO) && index == 1;
            assert!(is_expected, "{index}: {error}");
        }
    });
    assert!(is_without_server(
        &fs::metadata(path("absent")).unwrap_err()
    ));
    drop(synced);
    umount(User::Same, &mountpoint.0);

    mount(User::Same, &fixture, &mountpoint.0, "rw");
    assert!(fs::read(path("synced")).unwrap() == content(100_000));
    assert!(!path("dir/new").exists());
    umount(User::Same, &mountpoint.0);
    assert_clean(&fixture.image());
}

/// The size of a record in bytes. It does not divide a page.
const RECORD_BYTES: usize = 1000;

fn record(writer: usize, number: usize) -> Vec<u8> {
    format!("{writer} {number} ")
        .into_bytes()
        .into_iter()
        .cycle()
        .take(RECORD_BYTES)
        .collect()
}

/// Appends records to a file until the server ends. Calls fsync(2) after each record, and then changes
/// names. Returns the number of synced records, and adds 1 to `synced` for each of them.
fn append_records(directory: &Path, writer: usize, synced: &AtomicUsize) -> usize {
    let path = |name: &str| directory.join(format!("{writer}-{name}"));
    let append = |file: &mut File, number: usize| -> io::Result<()> {
        file.write_all(&record(writer, number))?;
        file.sync_all()
    };
    let change_names = |number: usize| -> io::Result<()> {
        fs::write(path("new"), vec![0; number * 100])?;
        fs::rename(path("new"), path(&format!("renamed-{}", number % 5)))?;
        fs::create_dir(path("directory"))?;
        fs::remove_dir(path("directory"))
    };
    let mut file = match File::create(path("records")) {
        Ok(file) => file,
        Err(error) if is_without_server(&error) => return 0,
        Err(error) => panic!("{error}"),
    };
    for number in 0.. {
        match append(&mut file, number) {
            Ok(()) => {}
            Err(error) => {
                assert!(
                    is_without_server(&error) || error.raw_os_error() == Some(5),
                    "{error}"
                );
                return number;
            }
        }
        synced.fetch_add(1, Ordering::Relaxed);
        // If this fails because the server has ended, appending the next record fails as well.
        let _ = change_names(number);
    }
    unreachable!("the server is killed");
}

/// The number of programs that write at once.
const WRITERS: usize = 8;

#[test]
fn records_that_many_writers_synced_survive_a_killed_server() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    for round in 0..3 {
        let server = serve(&fixture, &mountpoint.0, "rw");
        let directory = mountpoint.0.join(format!("round-{round}"));
        fs::create_dir(&directory).unwrap();
        let synced = AtomicUsize::new(0);
        let counts: Vec<usize> = thread::scope(|scope| {
            let (directory, synced) = (&directory, &synced);
            // If this closure panics, dropping the server kills it before the threads are joined.
            let mut server = server;
            let start = |writer| scope.spawn(move || append_records(directory, writer, synced));
            let writers: Vec<_> = (0..WRITERS).map(start).collect();
            wait_until("synced records", || synced.load(Ordering::Relaxed) >= 150);
            kill(&mut server);
            writers
                .into_iter()
                .map(|writer| writer.join().unwrap())
                .collect()
        });
        umount(User::Same, &mountpoint.0);

        mount(User::Same, &fixture, &mountpoint.0, "rw");
        for (writer, count) in counts
            .into_iter()
            .enumerate()
            .filter(|(_, count)| *count > 0)
        {
            let records = fs::read(directory.join(format!("{writer}-records"))).unwrap();
            let expected: Vec<u8> = (0..count)
                .flat_map(|number| record(writer, number))
                .collect();
            assert!(
                records.starts_with(&expected),
                "writer {writer}: {count} records"
            );
        }
        umount(User::Same, &mountpoint.0);
        assert_clean(&fixture.image());
    }
}

const PROCESSES: usize = 64;
/// The number of files that each process creates.
const FILES: usize = 100;
/// The environment variable that is set only in processes that run [`create_files`]. It contains the
/// directory for the files.
const DIRECTORY: &str = "LARDER_TEST_DIRECTORY";

/// Creates files one after the other. A queue's thread answers some of the requests, and workers answer the
/// others.
fn create_files(directory: &OsStr) {
    for number in 0..FILES {
        let file = File::create_new(Path::new(directory).join(number.to_string())).unwrap();
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(file, flags, 0, 1024).unwrap();
    }
}

/// While the server is stopped, each process waits for its first request. When the server continues, it
/// must answer the first request of every process before any process has finished. The order of the answers
/// is known from the change times of the files, which are from the server's clock.
#[test]
fn each_of_64_processes_makes_progress() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return create_files(&directory);
    }
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    fixture.make_image("ext4", "-N 8192");
    let server = serve(&fixture, &mountpoint.0, "rw");
    let control = Control::mount(&fixture);
    let directory = |process: usize| mountpoint.0.join(format!("directory-{process}"));
    for process in 0..PROCESSES {
        fs::create_dir(directory(process)).unwrap();
    }
    stop(&server);
    let start = |process: usize| -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "each_of_64_processes_makes_progress"])
            .env(DIRECTORY, directory(process))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let processes: Vec<Child> = (0..PROCESSES).map(start).collect();
    wait_until("a request of each process", || {
        control.waiting(&mountpoint.0) == PROCESSES
    });
    signal(&server, Signal::CONT);
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let changed = |process: usize, file: usize| {
        let metadata = fs::metadata(directory(process).join(file.to_string())).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let first_end = (0..PROCESSES)
        .map(|process| changed(process, FILES - 1))
        .min();
    for process in 0..PROCESSES {
        assert!(
            Some(changed(process, 0)) < first_end,
            "process {process} waits too long"
        );
    }
    umount(User::Same, &mountpoint.0);
    assert_clean(&fixture.image());
}
