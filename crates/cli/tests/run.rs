//! `larder run`: exit codes, files, namespaces, privileges and signals of the command.

mod support;

use larder_testkit::e2fsprogs::debugfs;
use larder_testkit::requirement::{is_root, report_skipped};
use larder_testkit::{Requirement, skip};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use support::processes::{Bystander, can_run, can_unshare, child_of, mounts_of, state};
use support::{
    Fixture, NOBODY, Server, User, assert_clean, assert_fails, binary, command, content,
    copy_programs, has_root, in_own_namespace, larder, larder_ok, sh, text, wait_until,
};

/// Returns a fixture whose image `user` can change.
fn fixture_of(user: User) -> Fixture {
    let fixture = Fixture::new();
    if user == User::Nobody {
        let owner = format!("-E root_owner={NOBODY}:{NOBODY}");
        fixture.make_image("ext4", &owner);
    }
    fixture.give_image(user);
    fixture
}

/// Returns a command that runs `words` with the image mounted.
fn job(user: User, fixture: &Fixture, options: &[&str], words: &[&str]) -> Command {
    let mut command = command("larder", user);
    command.arg("run").args(options).arg(fixture.image());
    command.arg("--").args(words);
    // A directory that another user cannot search would be a reason for another exit code.
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
}

/// Runs a shell script with the image mounted.
fn shell(user: User, fixture: &Fixture, options: &[&str], script: &str) -> Output {
    let mut command = job(user, fixture, options, &["sh", "-c", script]);
    command.output().unwrap()
}

/// Runs a shell script, which must succeed, and returns its output.
#[track_caller]
fn shell_ok(user: User, fixture: &Fixture, options: &[&str], script: &str) -> String {
    let output = shell(user, fixture, options, script);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn exit_code_is_that_of_the_command_or_of_larder() {
    if !can_run("exit_code_is_that_of_the_command_or_of_larder") {
        return;
    }
    let fixture = Fixture::new();
    for user in [User::Same, User::Nobody] {
        for (words, code, message) in [
            (&["true"] as &[&str], 0, ""),
            (&["sh", "-c", "exit 7"], 7, ""),
            (&["sh", "-c", "exit 255"], 255, ""),
            (&["sh", "-c", "kill -TERM $$"], 143, ""),
            (&["sh", "-c", "kill -KILL $$"], 137, ""),
            (&["no-such-program"], 127, "cannot run no-such-program"),
            (&["/etc/passwd"], 126, "cannot run /etc/passwd"),
        ] {
            let options = ["-o", "ro"];
            let output = job(user, &fixture, &options, words).output().unwrap();
            assert_fails(&output, code, &[message]);
        }
    }
    let image = fixture.image();
    for (args, message) in [
        (
            &["run", "/no/such/image", "--", "true"] as &[&str],
            "does not exist",
        ),
        (&["run", image.to_str().unwrap()], "<COMMAND>"),
        (&["run", "--nonsense", "x", "--", "true"], "--nonsense"),
        (&["run", "-o", "suid", "x", "--", "true"], "suid"),
    ] {
        assert_fails(&larder(args), 125, &[message]);
    }
    let help = larder(["run", "--help"]);
    assert!(help.status.success());
    assert!(text(&help.stdout).contains("not a sandbox"));
}

#[test]
fn command_reads_and_writes_the_image() {
    if !can_run("command_reads_and_writes_the_image") {
        return;
    }
    for user in [User::Same, User::Nobody] {
        let fixture = fixture_of(user);
        let script = "cat hello; echo new > new; mkdir made; cmp dir/large \"$LARDER_ROOT/dir/large\"; \
                      test \"$PWD\" = \"$LARDER_ROOT\"";
        assert_eq!(shell_ok(user, &fixture, &[], script), "hello, larder\n");
        assert_clean(&fixture.image());
        assert_eq!(debugfs(&fixture.image(), "cat /new").unwrap(), "new\n");
        let owner = if user == User::Same { 0 } else { NOBODY };
        let stat = debugfs(&fixture.image(), "stat /made").unwrap();
        assert!(stat.contains(&format!("User: {owner:>5}")), "{stat}");
        assert_eq!(mounts_of(&fixture.image()), 0);
    }
}

#[test]
fn input_and_output_are_those_of_larder() {
    if !can_run("input_and_output_are_those_of_larder") {
        return;
    }
    let fixture = Fixture::new();
    let mut child = job(
        User::Same,
        &fixture,
        &["-o", "ro"],
        &["sh", "-c", "cat; echo no >&2"],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"text").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        ("text".to_owned(), "no\n".to_owned())
    );
}

#[test]
fn overlay_keeps_the_changes_of_the_command() {
    if !can_run("overlay_keeps_the_changes_of_the_command") {
        return;
    }
    for user in [User::Same, User::Nobody] {
        let fixture = fixture_of(user);
        let directory = fixture.directory("own", user);
        let overlay = directory.join("changes.qcow2");
        let options = ["--overlay", overlay.to_str().unwrap()];
        let before = fs::read(fixture.image()).unwrap();
        shell_ok(user, &fixture, &options, "echo new > new");
        assert!(fs::read(fixture.image()).unwrap() == before);
        assert_eq!(shell_ok(user, &fixture, &options, "cat new"), "new\n");
        let names: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["changes.qcow2"]);
    }
}

#[test]
fn mountpoint_can_be_chosen_and_keeps_the_current_directory() {
    if !can_run("mountpoint_can_be_chosen_and_keeps_the_current_directory") {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = fixture.directory("mnt", User::Same);
    for user in [User::Same, User::Nobody] {
        for (directory, option, script) in [
            (
                fixture.path(""),
                "mnt",
                "pwd; cat mnt/hello; echo $LARDER_ROOT",
            ),
            (mountpoint.clone(), ".", "pwd; cat hello; echo $LARDER_ROOT"),
        ] {
            let options = ["-o", "ro", "--mountpoint", option];
            let words = ["sh", "-c", script];
            let mut job = job(user, &fixture, &options, &words);
            let output = job.current_dir(&directory).output().unwrap();
            let expected = format!(
                "{}\nhello, larder\n{}\n",
                directory.display().to_string().trim_end_matches('/'),
                mountpoint.display()
            );
            assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
        }
    }
}

#[test]
fn image_is_the_root_directory_with_chroot() {
    if !can_run("image_is_the_root_directory_with_chroot") {
        return;
    }
    let fixture = Fixture::new();
    copy_programs(&fixture.path("tree"));
    let script = "pwd; cat /hello; echo $LARDER_ROOT
        read -r pid rest < /proc/self/stat; test $pid = $$ && echo own processes
        ls /sys/class > /dev/null && echo sys
        head -c 3 /dev/zero > /dev/null && head -c 3 /dev/urandom > /dev/null && echo devices
        (: 5<> /dev/ptmx) && echo terminals
        echo text > /tmp/file && cat /tmp/file
        while read -r id parent device root point options rest; do
            case $point in /sys|/sys/*)
                case $options in
                    ro|ro,*) ;;
                    *) test -e \"$point\" && echo writable: $point ;;
                esac
                mounts=found ;;
            esac
        done < /proc/self/mountinfo
        echo mounts below /sys: $mounts
        test -e /etc/passwd || echo no host";
    for user in [User::Same, User::Nobody] {
        // In some containers, the processes of a namespace cannot be mounted.
        let mut options = vec!["--mount", "--pid", "--fork", "--mount-proc"];
        if user == User::Nobody || !is_root() {
            options.push("--map-root-user");
        }
        let own = if can_unshare(user, &options) {
            "own processes\n"
        } else {
            ""
        };
        let expected = format!(
            "/\nhello, larder\n/\n{own}sys\ndevices\nterminals\ntext\nmounts below /sys: found\nno host\n"
        );
        fixture.make_image("ext4", "");
        fixture.give_image(user);
        let output = shell_ok(user, &fixture, &["--chroot"], script);
        assert_eq!(output, expected, "{user:?}");
        let image = fixture.image();
        let left = larder_ok(["ls".as_ref(), image.as_os_str(), "/tmp".as_ref()]);
        assert_eq!(left, "", "{user:?}");
        assert_clean(&image);
    }
    // A directory that the image does not have is not created.
    fs::remove_dir(fixture.path("tree/sys")).unwrap();
    fixture.make_image("ext4", "");
    let listed = shell_ok(User::Same, &fixture, &["--chroot"], "ls /");
    assert!(
        !listed.contains("sys") && listed.contains("hello"),
        "{listed}"
    );
}

#[test]
fn user_is_root_in_the_command_with_fakeroot() {
    if !can_run("user_is_root_in_the_command_with_fakeroot") || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    fixture.give_image(User::Nobody);
    let denied = shell(User::Nobody, &fixture, &[], "echo changed > hello");
    assert_eq!(denied.status.code(), Some(2), "{}", text(&denied.stderr));
    let script = "id -u; echo changed > hello; echo new > new";
    let options = ["-o", "fakeroot"];
    assert_eq!(shell_ok(User::Nobody, &fixture, &options, script), "0\n");
    assert_clean(&fixture.image());
    let stat = debugfs(&fixture.image(), "stat /new").unwrap();
    assert!(stat.contains("User:     0   Group:     0"), "{stat}");
    assert_eq!(
        debugfs(&fixture.image(), "cat /hello").unwrap(),
        "changed\n"
    );
}

#[test]
fn command_has_no_new_privileges_and_no_devices() {
    if !can_run("command_has_no_new_privileges_and_no_devices") || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let tree = fixture.path("tree");
    sh(
        "cp \"$(command -v id)\" \"$1/id\"; chmod 4755 \"$1/id\"; mknod -m 666 \"$1/null\" c 1 3",
        &[&tree],
    );
    fixture.make_image("ext4", "");
    let status = "grep -E 'NoNewPrivs|CapInh|CapAmb' /proc/self/status; \
                  grep -o ' / [^ ]* [^ ]* .* fuse.larder' /proc/self/mountinfo";
    let none = "0".repeat(16);
    for user in [User::Same, User::Nobody] {
        let shown = shell_ok(user, &fixture, &["-o", "ro"], status);
        for part in [
            format!("CapInh:\t{none}"),
            format!("CapAmb:\t{none}"),
            "NoNewPrivs:\t1".to_owned(),
            "nosuid,nodev".to_owned(),
        ] {
            assert!(shown.contains(&part), "{user:?}: {part} in {shown}");
        }
        let device = shell(user, &fixture, &["-o", "ro"], "cat null");
        assert!(
            text(&device.stderr).contains("Permission denied"),
            "{user:?}"
        );
    }
    let effective = shell_ok(
        User::Nobody,
        &fixture,
        &["-o", "ro"],
        "grep -E 'CapEff|CapPrm' /proc/self/status; ./id -u",
    );
    let expected = format!("CapPrm:\t{none}\nCapEff:\t{none}\n{NOBODY}\n");
    assert_eq!(effective, expected);
    let script = format!("setpriv --reuid {NOBODY} --clear-groups ./id -u");
    let shown = shell_ok(User::Same, &fixture, &["-o", "ro"], &script);
    assert_eq!(shown, format!("{NOBODY}\n"));
}

#[test]
fn command_inherits_only_the_standard_descriptors() {
    if !can_run("command_inherits_only_the_standard_descriptors") {
        return;
    }
    let fixture = Fixture::new();
    let script =
        "exec 7< /etc/passwd 9> /dev/null; exec \"$0\" run -o ro \"$1\" -- ls /proc/self/fd";
    let output = Command::new("sh")
        .args(["-c", script])
        .args([binary(), &fixture.image()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    // The last one is the directory that ls reads.
    assert_eq!(
        text(&output.stdout),
        "0\n1\n2\n3\n",
        "{}",
        text(&output.stderr)
    );
}

/// A job that prints `ready`, and is killed when this is dropped.
struct Ready {
    job: Server,
    output: BufReader<std::process::ChildStdout>,
}

impl Ready {
    /// Starts a shell script, and waits until it has printed the line `ready`.
    fn start(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut job = Server(child);
        let mut output = BufReader::new(job.0.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { job, output }
    }

    fn launcher(&self) -> Pid {
        Pid::from_child(&self.job.0)
    }

    /// Returns the process ID of the command.
    fn command(&self) -> u32 {
        let server = child_of(self.job.0.id()).unwrap();
        child_of(child_of(server).unwrap()).unwrap()
    }

    /// Waits for the end of the job. Returns its exit code and the rest of its output.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.job.0.wait().unwrap().code(), rest)
    }
}

#[test]
fn mount_is_private_even_if_the_mounts_of_the_caller_are_shared() {
    let test = "mount_is_private_even_if_the_mounts_of_the_caller_are_shared";
    if !can_run(test) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    for user in [User::Same, User::Nobody] {
        let inner = job(
            user,
            &fixture,
            &["-o", "ro"],
            &["sh", "-c", "echo ready; sleep 1000"],
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "shared"]);
        command.arg(inner.get_program()).args(inner.get_args());
        command.stdin(fs::File::open(binary()).unwrap());
        let ready = Ready::start(command);
        let list = |pid: u32| fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
        let image = fixture.image().display().to_string();
        let caller = list(ready.job.0.id());
        assert!(
            caller.contains(" shared:") && !caller.contains(&image),
            "{caller}"
        );
        assert!(list(ready.command()).contains(&image), "{user:?}");
        assert!(!list(std::process::id()).contains(&image), "{user:?}");
    }
}

#[test]
fn signals_are_passed_on_and_the_changes_are_kept() {
    if !can_run("signals_are_passed_on_and_the_changes_are_kept") {
        return;
    }
    let fixture = Fixture::new();
    let names = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    for (signal, name) in names {
        let script = format!(
            "trap 'echo {name} > {name}; echo got; exit 9' {name}; echo ready; while :; do sleep 0.02; done"
        );
        let ready = Ready::start(job(User::Same, &fixture, &[], &["sh", "-c", &script]));
        kill_process(ready.launcher(), signal).unwrap();
        assert_eq!(ready.end(), (Some(9), "got\n".to_owned()), "{name}");
        let path = format!("/{name}");
        let image = fixture.image();
        let kept = larder_ok(["cat".as_ref(), image.as_os_str(), path.as_ref()]);
        assert_eq!(kept, format!("{name}\n"));
    }
    let words = ["sh", "-c", "echo ready; exec sleep 1000"];
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let ready = Ready::start(job(User::Same, &fixture, &[], &words));
        kill_process(ready.launcher(), signal).unwrap();
        assert_eq!(ready.end().0, Some(code));
    }
    assert_clean(&fixture.image());
}

#[test]
fn signal_that_larder_ignores_is_ignored_by_the_command() {
    if !can_run("signal_that_larder_ignores_is_ignored_by_the_command") {
        return;
    }
    let fixture = Fixture::new();
    let script = "trap '' HUP; exec \"$0\" run -o ro \"$1\" -- sh -c 'kill -HUP $$; echo alive'";
    let output = Command::new("sh")
        .args(["-c", script])
        .args([binary(), &fixture.image()])
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "alive\n", "{}", text(&output.stderr));
}

#[test]
fn larder_stops_and_continues_with_the_command() {
    if !can_run("larder_stops_and_continues_with_the_command") {
        return;
    }
    let fixture = Fixture::new();
    let script = "echo ready; while ! test -e go; do sleep 0.02; done; echo continued";
    let mut job = job(User::Same, &fixture, &[], &["sh", "-c", script]);
    // The process group of the tests may be orphaned. In such a group, SIGTSTP has no effect.
    job.process_group(0);
    let ready = Ready::start(job);
    let command = ready.command();
    let server = child_of(ready.job.0.id()).unwrap();
    for round in 0..10 {
        if round % 2 == 1 {
            let pid = Pid::from_raw(command.cast_signed()).unwrap();
            kill_process(pid, Signal::STOP).unwrap();
        } else {
            kill_process(ready.launcher(), Signal::TSTP).unwrap();
        }
        wait_until("the stop of larder", || {
            let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
            let changed = waitpid(Some(ready.launcher()), options).unwrap();
            changed.is_some_and(|(_, status)| status.stopped())
        });
        assert_eq!(state(command), Some('T'));
        assert_ne!(
            state(server),
            Some('T'),
            "the server must serve other processes"
        );
        kill_process(ready.launcher(), Signal::CONT).unwrap();
        wait_until("the command", || state(command) != Some('T'));
    }
    let root = format!("/proc/{command}/cwd/go");
    fs::write(root, "").unwrap();
    assert_eq!(ready.end(), (Some(0), "continued\n".to_owned()));
}

#[test]
fn larder_ends_with_a_command_that_was_stopped() {
    if !can_run("larder_ends_with_a_command_that_was_stopped") {
        return;
    }
    let fixture = Fixture::new();
    let words = ["sh", "-c", "echo ready; exec sleep 1000"];
    let mut job = job(User::Same, &fixture, &["-o", "ro"], &words);
    // In an orphaned process group, larder would not stop.
    job.process_group(0);
    let ready = Ready::start(job);
    let launcher = ready.job.0.id();
    let command = Pid::from_raw(ready.command().cast_signed()).unwrap();
    kill_process(command, Signal::STOP).unwrap();
    wait_until("the stop of larder", || state(launcher) == Some('T'));
    kill_process(command, Signal::KILL).unwrap();
    assert_eq!(ready.end(), (Some(137), String::new()));
}

#[test]
fn larder_ends_although_another_process_uses_the_mount() {
    if !can_run("larder_ends_although_another_process_uses_the_mount") {
        return;
    }
    let mounts = larder_block::mounts::list().unwrap();
    if !mounts.iter().any(|mount| mount.fs_type == "fusectl") {
        report_skipped("no FUSE control file system");
        return;
    }
    let fixture = Fixture::new();
    let script = "echo ready; while ! test -e end; do sleep 0.02; done";
    let ready = Ready::start(job(User::Same, &fixture, &[], &["sh", "-c", script]));
    let directory = format!("/proc/{}/cwd", ready.command());
    let held = fs::File::open(format!("{directory}/hello")).unwrap();
    fs::write(format!("{directory}/end"), "text").unwrap();
    assert_eq!(ready.end(), (Some(0), String::new()));
    drop(held);
    assert_clean(&fixture.image());
    assert_eq!(debugfs(&fixture.image(), "cat /end").unwrap(), "text");
}

#[test]
fn exit_code_is_known_if_the_caller_ignores_sigchld() {
    let test = "exit_code_is_known_if_the_caller_ignores_sigchld";
    if !can_run(test) {
        return;
    }
    let fixture = Fixture::new();
    let job = job(User::Same, &fixture, &["-o", "ro"], &["sh", "-c", "exit 7"]);
    let mut command = Command::new("env");
    command.arg("--ignore-signal=CHLD");
    command.arg(job.get_program()).args(job.get_args());
    assert_fails(&command.output().unwrap(), 7, &[""]);
}

#[test]
fn processes_that_the_command_leaves_are_ended() {
    if !can_run("processes_that_the_command_leaves_are_ended") {
        return;
    }
    let fixture = Fixture::new();
    let script = "setsid sh -c 'exec 3> open; sleep 1000' > /dev/null 2>&1 & \
                  while ! test -e open; do sleep 0.02; done; echo left";
    // The output ends only if no process has it open.
    assert_eq!(shell_ok(User::Same, &fixture, &[], script), "left\n");
    assert_eq!(mounts_of(&fixture.image()), 0);
    assert_clean(&fixture.image());
}

#[test]
fn stages_cannot_be_run_alone() {
    if skip(&[Requirement::Tool("setpriv")]) {
        return;
    }
    let mut bystander = Bystander::start(User::Nobody);
    for args in [
        &["run-init:0,1", "/", "root", "--", "true"] as &[&str],
        &["run-init:8,9", "/", "root", "--", "true"],
        &["run-init:8,9"],
        &["run-server:8,9", "/no/such/image", "--", "true"],
    ] {
        for user in [User::Same, User::Nobody] {
            let output = command("larder", user).args(args).output().unwrap();
            assert_fails(&output, 125, &["error: "]);
        }
    }
    bystander.assert_alive();
}

#[test]
fn image_that_only_the_user_can_read_is_mounted() {
    let test = "image_that_only_the_user_can_read_is_mounted";
    if !can_run(test) || !has_root() {
        return;
    }
    let fixture = fixture_of(User::Nobody);
    fs::set_permissions(fixture.image(), Permissions::from_mode(0o600)).unwrap();
    let read = shell(User::Nobody, &fixture, &[], "cat dir/large").stdout;
    assert!(read == content(3 << 20));
}

#[test]
fn denied_fuse_device_is_named_with_a_hint() {
    let test = "denied_fuse_device_is_named_with_a_hint";
    if !can_run(test) || !has_root() || !in_own_namespace(test) {
        return;
    }
    let fixture = fixture_of(User::Nobody);
    // If `can_run` has mounted a device whose node is deleted, nothing can be mounted on it.
    sh(
        "umount /dev/fuse 2>/dev/null || true
        mknod -m 600 \"$1\" c 10 229 && mount --bind \"$1\" /dev/fuse",
        &[&fixture.path("fuse")],
    );
    let output = shell(User::Nobody, &fixture, &[], "true");
    let parts = ["no permission to open /dev/fuse", "chmod 666 /dev/fuse"];
    assert_fails(&output, 125, &parts);
}

#[test]
fn command_with_a_url_is_not_changed() {
    if !can_run("command_with_a_url_is_not_changed") {
        return;
    }
    let fixture = Fixture::new();
    let words = ["echo", "http://user:secret@host/x", "--url-file", "y"];
    let output = job(User::Same, &fixture, &["-o", "ro"], &words)
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), format!("{}\n", words[1..].join(" ")));
}
