//! `larder_lab::verify`, with the binary: runs a command on fresh mounts.

mod support;

use larder_lab::verify::{Error, Temperature, Verdict, Verified, VerifyConfig, run};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use support::{
    Fixture, User, assert_fails, binary, can_mount, command_of, has_root, in_own_namespace,
    open_fuse_device, text, wait_until,
};

/// An image, and an empty directory for the mounts.
struct Setup {
    fixture: Fixture,
    scratch: PathBuf,
}

/// Returns the image and the directory, unless `user` cannot mount here. The root directory of the image belongs to
/// root.
fn setup_for(user: User) -> Option<Setup> {
    if !can_mount(user) || !has_root() {
        return None;
    }
    let fixture = Fixture::new();
    let scratch = fixture.directory("scratch", user);
    Some(Setup { fixture, scratch })
}

fn setup() -> Option<Setup> {
    setup_for(User::Same)
}

impl Setup {
    fn config(&self, command: &[&str]) -> VerifyConfig {
        VerifyConfig {
            larder: binary().to_owned(),
            image: self.fixture.image(),
            command: command.iter().map(Into::into).collect(),
            current: vec!["cache_size=16M".to_owned()],
            recommended: vec!["cache_size=64M".to_owned()],
            pairs: 5,
            temperature: Temperature::Cold,
            scratch: self.scratch.clone(),
        }
    }

    /// Verifies with `config`, and checks that the image is unchanged and nothing is left.
    #[track_caller]
    fn verify(&self, config: &VerifyConfig) -> Result<Verified, Error> {
        self.verify_until(config, &mut || false)
    }

    #[track_caller]
    fn verify_until(
        &self,
        config: &VerifyConfig,
        is_interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Verified, Error> {
        let before = fs::read(self.fixture.image()).unwrap();
        let verified = run(config, is_interrupted, &mut |_, _| {});
        assert!(
            fs::read(self.fixture.image()).unwrap() == before,
            "the image changed"
        );
        let left: Vec<_> = fs::read_dir(&self.scratch).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        verified
    }
}

#[test]
fn command_runs_in_each_mount_and_its_changes_are_discarded() {
    let Some(setup) = setup() else { return };
    let log = setup.fixture.path("log");
    // Each run must find the image as it was.
    let script = format!(
        "test \"$PWD\" = \"$LARDER_MOUNT\" && test ! -e new \
         && echo content > new && echo run >> {}",
        log.display()
    );
    let config = setup.config(&["sh", "-c", &script]);
    let mut progress = Vec::new();
    let before = fs::read(setup.fixture.image()).unwrap();
    let verified = run(&config, &mut || false, &mut |finished, total| {
        progress.push((finished, total));
    });
    let verified = verified.unwrap();
    assert!(fs::read(setup.fixture.image()).unwrap() == before);
    assert!(progress.iter().copied().eq((1..=10).map(|run| (run, 10))));
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 10);
    for side in [&verified.current, &verified.recommended] {
        assert_eq!(side.samples.len(), 5);
        assert!(side.samples.iter().all(|sample| sample.wall_s > 0.0));
    }
    assert!(verified.saved_s.low.is_some());
    assert!(fs::read_dir(&setup.scratch).unwrap().next().is_none());
}

/// The oracle is sleep(1): the options change nothing, but the command sleeps on one kind of mount.
#[test]
fn difference_between_mounts_is_measured() {
    let Some(setup) = setup() else { return };
    let mut config = setup.config(&["sh", "-c", "touch new 2>/dev/null || sleep 0.3"]);
    config.current = vec!["ro".to_owned()];
    config.recommended = Vec::new();
    config.temperature = Temperature::Warm;
    let verified = setup.verify(&config).unwrap();
    assert_eq!(verified.verdict, Verdict::Faster, "{verified:?}");
    assert!(verified.saved_s.value > 0.2, "{:?}", verified.saved_s);
    assert_eq!(verified.current.samples.len(), 5);
}

#[test]
fn failed_command_stops_the_verification_with_its_status_and_message() {
    let Some(setup) = setup() else { return };
    let config = setup.config(&["sh", "-c", "echo reason >&2; exit 7"]);
    let error = setup.verify(&config).unwrap_err();
    let Error::Command {
        status,
        run,
        message,
        ..
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!((status.code(), *run, &**message), (Some(7), 1, "reason"));
    assert!(error.to_string().contains("exit status 7"), "{error}");
}

#[test]
fn missing_program_and_wrong_option_are_reported() {
    let Some(setup) = setup() else { return };
    let config = setup.config(&["/nonexistent"]);
    let error = setup.verify(&config).unwrap_err().to_string();
    assert!(error.contains("/nonexistent"), "{error}");
    let mut config = setup.config(&["true"]);
    config.recommended = vec!["no_such_option".to_owned()];
    let error = setup.verify(&config).unwrap_err();
    let Error::Mount { message, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(message.contains("no_such_option"), "{message}");
}

#[test]
fn interrupt_ends_the_command_and_the_mount() {
    let Some(setup) = setup() else { return };
    let started = setup.fixture.path("started");
    let script = format!("echo > {}; exec sleep 1000", started.display());
    let config = setup.config(&["sh", "-c", &script]);
    let error = setup.verify_until(&config, &mut || started.exists());
    assert!(matches!(error, Err(Error::Interrupted)), "{error:?}");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(
        !mounts.contains(&*setup.scratch.to_string_lossy()),
        "{mounts}"
    );
}

/// Returns a command of `larder-lab` as `user`, which finds `larder` beside it.
fn lab(setup: &Setup, user: User) -> Command {
    let programs = setup.fixture.path("bin");
    fs::create_dir(&programs).unwrap();
    let lab = binary().with_file_name("larder-lab");
    assert!(
        lab.exists(),
        "{}: build larder-lab-cli first",
        lab.display()
    );
    for program in [binary(), &lab] {
        fs::copy(program, programs.join(program.file_name().unwrap())).unwrap();
    }
    let mut command = command_of(&programs.join("larder-lab"), "larder-lab", user);
    command
        .args(["advise", "--options", "cache_size=64M", "--verify"])
        .arg(setup.fixture.image())
        .env("TMPDIR", &setup.scratch);
    command
}

#[track_caller]
fn assert_nothing_is_left(setup: &Setup) {
    let left: Vec<_> = fs::read_dir(&setup.scratch).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(
        !mounts.contains(&*setup.scratch.to_string_lossy()),
        "{mounts}"
    );
}

#[test]
fn user_without_privileges_verifies_options() {
    let name = "user_without_privileges_verifies_options";
    if !can_mount(User::Nobody) || !has_root() || !in_own_namespace(name) {
        return;
    }
    open_fuse_device();
    let Some(setup) = setup_for(User::Nobody) else {
        return;
    };
    let before = fs::read(setup.fixture.image()).unwrap();
    let output = lab(&setup, User::Nobody)
        .args([
            "--json",
            "--",
            "sh",
            "-c",
            "id -u; find . -name hello; cat hello",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["recommended"]["options"][0], "cache_size=64M");
    assert_eq!(json["current"]["samples"].as_array().unwrap().len(), 5);
    assert!(json["predicted_share"].is_null(), "{json}");
    assert!(fs::read(setup.fixture.image()).unwrap() == before);
    assert_nothing_is_left(&setup);
}

#[test]
fn exit_code_is_that_of_the_failed_command() {
    let Some(setup) = setup() else { return };
    let output = lab(&setup, User::Same)
        .args(["--", "sh", "-c", "echo reason >&2; exit 7"])
        .output()
        .unwrap();
    assert_fails(&output, 7, &["exit status 7", "reason", "hint: "]);
    assert_nothing_is_left(&setup);
}

#[test]
fn signal_ends_the_command_and_unmounts() {
    let Some(setup) = setup() else { return };
    let started = setup.fixture.path("started");
    let script = format!("echo > {}; exec sleep 1000", started.display());
    let mut child: Child = lab(&setup, User::Same)
        .args(["--", "sh", "-c", &script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the command", || started.exists());
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_nothing_is_left(&setup);
}
