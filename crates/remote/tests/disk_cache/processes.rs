//! Processes that share a cache, and processes that are killed while they write to it. They are started from
//! this test program.
//!
//! `LARDER_CRASH=full` (`make crash`) kills 1,000 processes instead of 50.

use crate::support::{Fixture, Object, UNLIMITED_BYTES, object};
use larder_remote::disk_cache::{CacheDir, Error, UNIT_BYTES};
use larder_testkit::seed::SEED_VARIABLE;
use larder_testkit::{Random, Seed};
use rustix::process::{Resource, Rlimit};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The environment variable with the cache of a process that a test started.
const DIRECTORY: &str = "LARDER_TEST_DIRECTORY";

/// What a process prints before the number of a unit that it has stored.
const STORED: &str = "stored ";

/// A started process, which is killed when this is dropped.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts the test `name` in a process of its own, with the cache of `fixture`.
    fn start(name: &str, fixture: &Fixture, seed: Seed) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", &format!("processes::{name}")])
            .env(DIRECTORY, fixture.path())
            .env(SEED_VARIABLE, seed.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the next unit that the process has stored, or `None` if it has ended.
    fn next_stored(&mut self) -> Option<u64> {
        let lines = self.lines.by_ref().map(Result::unwrap);
        let mut units = lines.filter_map(|line| line.strip_prefix(STORED)?.parse().ok());
        units.next()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn report(unit: u64) {
    let mut stdout = std::io::stdout().lock();
    // This fails if the test has ended.
    let _ = writeln!(stdout, "\n{STORED}{unit}").and_then(|()| stdout.flush());
}

fn cache_at(directory: &OsStr) -> CacheDir {
    CacheDir::open(Path::new(directory), UNLIMITED_BYTES).unwrap()
}

const WRITTEN: Object = Object {
    version: "killed",
    size_bytes: 4 << 20,
};

/// Stores random units until the process is killed.
fn store_forever(directory: &OsStr) {
    let mut random = Random::new(Seed::from_environment(0));
    let cached = WRITTEN.open(&cache_at(directory));
    loop {
        let unit = random.below(WRITTEN.units());
        WRITTEN.write(&cached, unit);
        report(unit);
    }
}

#[test]
fn units_of_a_killed_process_are_right_or_absent() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return store_forever(&directory);
    }
    let is_full = std::env::var("LARDER_CRASH").is_ok_and(|value| value == "full");
    let rounds = if is_full { 1000 } else { 50 };
    let mut fixture = Fixture::new();
    for (round, seed) in Seed::parts_from_environment(21).take(rounds).enumerate() {
        // The processes of five rounds share a cache, so most of them find units of earlier ones.
        if round % 5 == 0 {
            fixture = Fixture::new();
        }
        eprintln!("{SEED_VARIABLE}={seed}");
        let mut random = Random::new(seed);
        let name = "units_of_a_killed_process_are_right_or_absent";
        let mut process = Process::start(name, &fixture, seed);
        let count = random.below(60);
        let mut stored: Vec<u64> = (0..count).map_while(|_| process.next_stored()).collect();
        // The process continues, so that it is killed at any moment of a write.
        for _ in 0..random.below(50_000) {
            std::hint::spin_loop();
        }
        process.kill();
        stored.extend(std::iter::from_fn(|| process.next_stored()));
        assert!(stored.len() as u64 >= count, "the process failed");
        let cached = WRITTEN.open(&fixture.cache(UNLIMITED_BYTES));
        for unit in 0..WRITTEN.units() {
            let is_read = WRITTEN.read(&cached, unit);
            assert!(is_read || !stored.contains(&unit), "unit {unit} is lost");
        }
    }
}

fn shared() -> Object {
    object("shared", 300)
}

/// Stores the units of one parity, and reads all others.
fn store_half(cache: &CacheDir, parity: u64) {
    let cached = shared().open(cache);
    for unit in 0..shared().units() {
        if unit % 2 == parity {
            shared().write(&cached, unit);
            assert!(shared().read(&cached, unit));
        } else {
            shared().read(&cached, unit);
        }
    }
    assert_eq!(cached.damaged_units(), 0);
}

#[test]
fn processes_that_share_an_object_see_each_others_units() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        store_half(&cache_at(&directory), 1);
        return report(1);
    }
    let fixture = Fixture::new();
    let cache = fixture.cache(UNLIMITED_BYTES);
    let name = "processes_that_share_an_object_see_each_others_units";
    let cached = shared().open(&cache);
    let mut process = Process::start(name, &fixture, Seed(0));
    store_half(&cache, 0);
    assert_eq!(process.next_stored(), Some(1), "the other process failed");
    assert!(process.child.wait().unwrap().success());
    assert!(cached.is_complete());
    assert!((0..shared().units()).all(|unit| shared().read(&cached, unit)));
}

/// Both processes store all units, in different order, and read them back.
#[test]
fn processes_that_store_the_same_units_find_no_damage() {
    let store = |cache: &CacheDir, seed: u64| {
        let cached = shared().open(cache);
        let mut random = Random::new(Seed(seed));
        for _ in 0..600 {
            let unit = random.below(20);
            shared().write(&cached, unit);
            assert!(shared().read(&cached, unit));
        }
        assert_eq!(cached.damaged_units(), 0);
    };
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        store(&cache_at(&directory), 1);
        return report(1);
    }
    let fixture = Fixture::new();
    let name = "processes_that_store_the_same_units_find_no_damage";
    let mut process = Process::start(name, &fixture, Seed(0));
    store(&fixture.cache(UNLIMITED_BYTES), 2);
    assert_eq!(process.next_stored(), Some(1), "the other process failed");
}

#[test]
fn object_in_use_by_another_process_is_not_removed_until_it_ends() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let cached = shared().open(&cache_at(&directory));
        shared().write(&cached, 5);
        report(5);
        // The test kills this process.
        loop {
            std::thread::park();
        }
    }
    let fixture = Fixture::new();
    let name = "object_in_use_by_another_process_is_not_removed_until_it_ends";
    let mut process = Process::start(name, &fixture, Seed(0));
    assert_eq!(process.next_stored(), Some(5));
    let cache = fixture.cache(UNLIMITED_BYTES);
    assert!(cache.list().unwrap()[0].is_in_use);
    assert_eq!(cache.clear().unwrap().files, 0);
    process.kill();
    assert!(!cache.list().unwrap()[0].is_in_use);
    assert!(shared().read(&shared().open(&cache), 5));
    assert_eq!(cache.clear().unwrap().files, 1);
}

/// The limit of file sizes stands for a full disk.
#[test]
fn first_failed_write_is_reported_once_and_reads_continue() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let cached = shared().open(&cache_at(&directory));
        shared().write(&cached, 0);
        let ignored = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored).unwrap();
        let limit = Rlimit {
            current: Some(UNIT_BYTES as u64 * 3 / 2),
            maximum: None,
        };
        rustix::process::setrlimit(Resource::Fsize, limit).unwrap();
        let error = cached.write_unit(1, &shared().content(1)).unwrap_err();
        assert!(matches!(error, Error::Write { unit: 1, .. }), "{error}");
        shared().write(&cached, 1);
        assert!(shared().read(&cached, 0) && !shared().read(&cached, 1));
        return report(1);
    }
    let fixture = Fixture::new();
    let name = "first_failed_write_is_reported_once_and_reads_continue";
    let mut process = Process::start(name, &fixture, Seed(0));
    assert_eq!(process.next_stored(), Some(1), "the other process failed");
}
