//! The processes of `larder run`, killed at random moments.

mod support;

use larder_testkit::e2fsprogs::e2fsck;
use larder_testkit::requirement::is_root;
use larder_testkit::{Random, Seed, report_skipped};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use support::processes::{Bystander, can_run, child_of, marked, mounts_of};
use support::{Fixture, NOBODY, User, assert_clean, command, larder, wait_until};

/// The number of processes that are killed.
const KILLS: usize = 50;
/// A process is killed at most this time after it was found, in microseconds.
const MAX_DELAY_US: u64 = 60_000;
/// The environment variable that marks the processes of a job. The command inherits it.
const MARKER: &str = "LARDER_TEST_MARKER";

/// The command: changes names and content all the time, and leaves a process in a session of its own.
const SCRIPT: &str = "setsid sh -c 'while :; do sleep 1; done' &
    number=0
    while :; do
        number=$((number + 1))
        echo $number > file
        mv file renamed-$((number % 7))
        test $((number % 20)) -ne 0 || sync -f .
    done";

/// A process of `larder run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Launcher,
    Server,
    Init,
    Command,
}

impl Victim {
    const ALL: [Self; 4] = [Self::Launcher, Self::Server, Self::Init, Self::Command];

    /// Waits until the process exists, and returns its ID.
    fn find(self, launcher: u32) -> u32 {
        let depth = Self::ALL.iter().position(|victim| *victim == self);
        let mut pid = launcher;
        for _ in 0..depth.unwrap() {
            let mut child = None;
            wait_until("the processes of the job", || {
                child = child_of(pid);
                child.is_some()
            });
            pid = child.unwrap();
        }
        pid
    }

    /// Returns the exit code of larder when the process was killed.
    fn exit_code(self) -> Option<i32> {
        match self {
            Self::Launcher => None,
            Self::Server | Self::Init => Some(125),
            Self::Command => Some(137),
        }
    }
}

/// Returns the names of the files in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Recovers the image with e2fsck, and checks it.
#[track_caller]
fn assert_recovers(image: &Path) {
    let recovered = e2fsck("-y -E journal_only").arg(image).run();
    recovered.unwrap_or_else(|error| panic!("{error}"));
    // This deletes the files that were open. It fails if there is anything else to repair.
    let checked = e2fsck("-p").accept(1).arg(image).run();
    checked.unwrap_or_else(|error| panic!("{error}"));
    assert_clean(image);
}

#[test]
fn killed_processes_leave_no_mount_no_process_and_no_file() {
    if !can_run("killed_processes_leave_no_mount_no_process_and_no_file") {
        return;
    }
    let users: &[User] = if is_root() {
        &[User::Same, User::Nobody]
    } else {
        report_skipped("the part as root");
        &[User::Nobody]
    };
    let mut bystanders: Vec<Bystander> = users.iter().map(|user| Bystander::start(*user)).collect();
    let mut random = Random::new(Seed::announced(0x6b69_6c6c));
    for number in 0..KILLS {
        let user = users[number % users.len()];
        let victim = Victim::ALL[number / users.len() % Victim::ALL.len()];
        let has_overlay = random.below(2) == 1;
        let delay = Duration::from_micros(random.below(MAX_DELAY_US));
        let round = format!("{number}: {user:?}, {victim:?}, overlay: {has_overlay}, {delay:?}");

        let fixture = Fixture::new();
        let id = if user == User::Nobody { NOBODY } else { 0 };
        fixture.make_image("ext4", &format!("-E root_owner={id}:{id}"));
        fixture.give_image(user);
        let image = fixture.image();
        let before = fs::read(&image).unwrap();
        let directory = fixture.directory("own", user);
        let runtime = fixture.directory("runtime", user);
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
        let overlay = directory.join("changes.qcow2");
        let mut job = command("larder", user);
        job.arg("run");
        if has_overlay {
            job.arg("--overlay").arg(&overlay);
        }
        job.arg(&image).args(["--", "sh", "-c", SCRIPT]);
        job.env("XDG_RUNTIME_DIR", &runtime).env(MARKER, &image);
        let mut child = job.stderr(Stdio::null()).spawn().unwrap();

        let pid = victim.find(child.id());
        let marker = image.to_str().unwrap();
        if matches!(victim, Victim::Init | Victim::Command) {
            assert!(mounts_of(&image) > 0, "{round}");
        }
        std::thread::sleep(delay);
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        assert_eq!(child.wait().unwrap().code(), victim.exit_code(), "{round}");
        wait_until(&format!("{round}: the end of the processes"), || {
            marked(marker).is_empty()
        });
        assert_eq!(mounts_of(&image), 0, "{round}");
        assert_eq!(names(&runtime), [""; 0], "{round}");
        let kept = names(&directory);
        if has_overlay {
            assert!(
                kept.is_empty() || kept == ["changes.qcow2"],
                "{round}: {kept:?}"
            );
            assert!(fs::read(&image).unwrap() == before, "{round}");
            if !kept.is_empty() {
                // A process that ends loses its environment, by which it was found, before its locks.
                wait_until(&format!("{round}: the overlay"), || {
                    let list = [OsStr::new("ls"), OsStr::new("--overlay")];
                    let list = list
                        .into_iter()
                        .chain([overlay.as_os_str(), image.as_os_str()]);
                    larder(list).status.success()
                });
            }
        } else {
            assert_eq!(kept, [""; 0], "{round}");
            assert_recovers(&image);
        }
        for bystander in &mut bystanders {
            bystander.assert_alive();
        }
    }
}
