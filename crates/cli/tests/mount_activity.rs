//! What a mount records about its requests: counts, errors and latencies of operations, the busiest files and processes,
//! the journal and the device. The names of its threads.

mod support;

use larder_testkit::{Requirement, skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use support::{
    Fixture, Mountpoint, Server, User, can_mount, larder_ok, name_of, ready, serve, umount,
    wait_until,
};

fn stats(mountpoint: &Path) -> Value {
    let path = mountpoint.to_str().unwrap();
    serde_json::from_str(&larder_ok(["stats", "--json", path])).unwrap()
}

/// Returns the statistics of an operation; `Null` if there were no requests for it.
fn operation<'s>(stats: &'s Value, name: &str) -> &'s Value {
    let operations = stats["requests"]["operations"].as_array().unwrap();
    let found = operations.iter().find(|one| one["operation"] == name);
    found.unwrap_or(&Value::Null)
}

/// Asserts that the buckets of a latency contain `count` durations, and that its percentiles are in order.
#[track_caller]
fn assert_latency(latency: &Value, count: u64) {
    assert_eq!(latency["count"], count, "{latency}");
    let buckets = latency["buckets"].as_array().unwrap();
    let counted: u64 = buckets
        .iter()
        .map(|bucket| bucket[1].as_u64().unwrap())
        .sum();
    assert_eq!(counted, count, "{latency}");
    let ns = |key: &str| latency[key].as_u64().unwrap();
    let in_order = ["p50_ns", "p90_ns", "p99_ns", "max_ns", "total_ns"].map(ns);
    assert!(in_order.is_sorted(), "{latency}");
}

#[test]
fn operations_are_counted_with_errors_content_and_latencies() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let server = serve(&fixture, &mountpoint.0, "rw");
    let at = |name: &str| mountpoint.0.join(name);
    for directory in ["a", "b", "c", "d", "a/below"] {
        fs::create_dir(at(directory)).unwrap();
    }
    for name in ["first", "second", "third"] {
        symlink("target", at(name)).unwrap();
    }
    fs::remove_dir(at("b")).unwrap();
    fs::remove_dir(at("c")).unwrap();
    fs::remove_dir(at("a")).unwrap_err();
    fs::remove_file(at("first")).unwrap();
    assert_eq!(fs::read(at("dir/large")).unwrap().len(), 3 << 20);
    let mut file = File::create(at("written")).unwrap();
    file.write_all(&vec![7; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    drop(file);

    let stats = stats(&mountpoint.0);
    for (name, requests, errors) in [
        ("mkdir", 5, 0),
        ("symlink", 3, 0),
        ("rmdir", 3, 1),
        ("unlink", 1, 0),
    ] {
        let one = operation(&stats, name);
        assert_eq!(
            (&one["requests"], &one["errors"]),
            (&requests.into(), &errors.into()),
            "{one}"
        );
        assert_latency(&one["latency"], requests);
    }
    let rmdir = operation(&stats, "rmdir");
    assert_eq!(rmdir["errnos"], serde_json::json!({"ENOTEMPTY": 1}));
    assert_eq!(operation(&stats, "read")["bytes"], 3 << 20);
    assert_eq!(operation(&stats, "write")["bytes"], 1 << 20);
    assert!(operation(&stats, "fsync")["requests"].as_u64().unwrap() > 0);
    let all = &stats["requests"];
    let operations = all["operations"].as_array().unwrap();
    for key in ["requests", "errors"] {
        let sum: u64 = operations
            .iter()
            .map(|one| one[key].as_u64().unwrap())
            .sum();
        assert_eq!(all[key], sum, "{all}");
    }
    assert!(all["idle_ns"].as_u64() < all["uptime_ns"].as_u64(), "{all}");

    let (device, writing) = (&stats["device"], &stats["writing"]);
    for (latency, count) in [
        ("read_latency", "reads"),
        ("write_latency", "writes"),
        ("flush_latency", "flushes"),
    ] {
        assert_latency(&device[latency], device[count].as_u64().unwrap());
    }
    let commits = writing["commits"].as_u64().unwrap();
    assert_latency(&writing["commit_latency"], commits);
    let reasons = ["sync_commits", "timed_commits", "space_commits"];
    let reasons = reasons.map(|reason| writing[reason].as_u64().unwrap());
    assert!(
        reasons[0] > 0 && reasons.iter().sum::<u64>() == commits,
        "{writing}"
    );
    // Each commit of the journal has at least a descriptor block, a block of metadata, and a commit block.
    assert!(
        writing["logged_blocks"].as_u64().unwrap() >= 3 * commits,
        "{writing}"
    );
    umount(User::Same, &mountpoint.0);
    drop(server);
}

#[test]
fn time_without_requests_is_counted() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let _server = serve(&fixture, &mountpoint.0, "ro");
    let large = mountpoint.0.join("dir/large");
    fs::read(&large).unwrap();
    let first = stats(&mountpoint.0);
    // The kernel answers this from its page cache.
    fs::read(&large).unwrap();
    let second = stats(&mountpoint.0);
    let idle = |stats: &Value| stats["requests"]["idle_ns"].as_u64().unwrap();
    assert!(idle(&second) >= idle(&first), "{first}\n{second}");
    let reads = |stats: &Value| operation(stats, "read")["requests"].clone();
    assert_eq!(reads(&first), reads(&second));
    umount(User::Same, &mountpoint.0);
}

/// Returns the elements of an array by the value of `key` in each of them.
fn by_key<'s>(array: &'s Value, key: &str) -> BTreeMap<String, &'s Value> {
    let elements = array.as_array().unwrap().iter();
    elements.map(|one| (one[key].to_string(), one)).collect()
}

#[test]
fn busiest_files_and_processes_are_found() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let _server = serve(&fixture, &mountpoint.0, "rw");
    let deep = mountpoint.0.join("dir/deep/deeper");
    fs::write(deep.join("many"), "content").unwrap();
    // The kernel does not cache extended attributes, so each call is a request for the file.
    let many = deep.join("many");
    for _ in 0..150 {
        let value = rustix::fs::getxattr(&many, "user.none", &mut [0_u8; 8][..]);
        assert_eq!(value, Err(rustix::io::Errno::NODATA));
    }
    let stats = stats(&mountpoint.0);
    let files = by_key(&stats["hot"]["files"], "path");
    let file = files["\"/dir/deep/deeper/many\""];
    assert!(file["load"]["requests"].as_u64().unwrap() >= 150, "{file}");
    assert_eq!(stats["hot"]["files"][0], *file, "{stats}");
    let processes = by_key(&stats["hot"]["processes"], "pid");
    let own = std::process::id();
    let process = processes[&own.to_string()];
    assert!(
        process["load"]["requests"].as_u64().unwrap() >= 150,
        "{process}"
    );
    assert_eq!(process["is_running"], true);
    let name = fs::read_to_string(format!("/proc/{own}/comm")).unwrap();
    assert_eq!(process["name"], name.trim_end());

    // A renamed file has its new path.
    fs::rename(&many, mountpoint.0.join("renamed")).unwrap();
    wait_until("the new path", || {
        let stats = self::stats(&mountpoint.0);
        by_key(&stats["hot"]["files"], "path").contains_key("\"/renamed\"")
    });
    umount(User::Same, &mountpoint.0);
}

#[test]
fn copied_bytes_are_those_of_the_written_file() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let _server = serve(&fixture, &mountpoint.0, "rw");
    let source = File::open(mountpoint.0.join("dir/large")).unwrap();
    let target = File::create(mountpoint.0.join("copy")).unwrap();
    let written = |path: &str| {
        let stats = stats(&mountpoint.0);
        let files = by_key(&stats["hot"]["files"], "path");
        let load = files.get(path).map(|file| &file["load"]);
        load.map_or(0.0, |load| load["written_bytes_per_s"].as_f64().unwrap())
    };
    // A request is recorded after its answer was sent, and not at all while another thread records one.
    wait_until("a copy is recorded", || {
        let mut from = 0;
        rustix::fs::copy_file_range(&source, Some(&mut from), &target, None, 4096).unwrap();
        written("\"/copy\"") > 0.0
    });
    assert!(written("\"/dir/large\"") <= 0.0);
    drop((source, target));
    umount(User::Same, &mountpoint.0);
}

#[test]
fn each_mount_has_its_own_start_time() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let start = || {
        let _server = serve(&fixture, &mountpoint.0, "ro");
        // The server answers queries before it answers requests of the kernel.
        assert!(mountpoint.0.join("hello").exists());
        let start = stats(&mountpoint.0)["requests"]["start_ns"].as_u64();
        umount(User::Same, &mountpoint.0);
        start
    };
    let first = start();
    assert!(first > Some(0) && start() > first);
}

/// A name with a control sequence, a new line, a change of the direction, and a byte that is not UTF-8.
const HOSTILE: &[u8] = b"ev\x1b[31mil\nno\xe2\x80\xaete\xc2\x9b\xff";

/// The name of a program, with similar characters.
const HOSTILE_PROGRAM: &str = "ev\u{1b}[1m\n\u{202e}\u{9b}";

/// Lets a program with a hostile name read a file with a hostile name, in a mount with the options `options`.
fn read_hostile(fixture: &Fixture, mountpoint: &Mountpoint, options: &str) -> Server {
    let tree = fixture.path("tree/dir").join(name_of(HOSTILE));
    fs::write(tree, [7; 8192]).unwrap();
    fixture.make_image("ext4", "");
    let server = serve(fixture, &mountpoint.0, options);
    let program = fixture.path("").join(HOSTILE_PROGRAM);
    // If this process wrote the file, a child that another test starts could still have it open for writing.
    let copied = Command::new("cp").arg("/bin/cat").arg(&program).status();
    assert!(copied.unwrap().success());
    let file = mountpoint.0.join("dir").join(name_of(HOSTILE));
    let output = Command::new(program).arg(file).output().unwrap();
    assert_eq!(output.stdout, [7; 8192]);
    server
}

#[test]
fn control_characters_in_the_statistics_are_escaped() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let _server = read_hostile(&fixture, &mountpoint, "ro");
    let path = mountpoint.0.to_str().unwrap();
    let text = larder_ok(["stats", path]);
    let unsafe_to_show = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    for (listing, name) in [
        (&text, "31mil"),
        (&larder_ok(["stats", "--json", path]), "31mil"),
        (&larder_ok(["top", "--json", "--count", "1", path]), "31mil"),
        (
            &larder_ok(["top", "--once", "--page", "files", path]),
            "31mil",
        ),
        (
            &larder_ok(["top", "--once", "--page", "processes", path]),
            "[1m",
        ),
    ] {
        assert!(listing.contains(name), "{listing:?}");
        assert!(!listing.contains(unsafe_to_show), "{listing:?}");
    }
    for shown in [
        r"/dir/ev\033[31mil\nno\342\200\256te\302\233",
        r"ev\033[1m\n\342\200\256\302\233 (",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    let stats = stats(&mountpoint.0);
    let files = by_key(&stats["hot"]["files"], "path_hex");
    let mut hex = String::new();
    for byte in HOSTILE {
        write!(hex, "{byte:02x}").unwrap();
    }
    let file = files[&format!("\"2f6469722f{hex}\"")];
    assert_eq!(
        file["path"],
        "/dir/ev\u{1b}[31mil\nno\u{202e}te\u{9b}\u{fffd}"
    );
    let processes = by_key(&stats["hot"]["processes"], "name");
    let name = Value::from(HOSTILE_PROGRAM).to_string();
    assert_eq!(processes[&name]["is_running"], false);
    umount(User::Same, &mountpoint.0);
}

#[test]
fn metrics_over_http_contain_no_names() {
    if !can_mount(User::Same) {
        return;
    }
    let (fixture, port) = (Fixture::new(), free_port());
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let _server = read_hostile(&fixture, &mountpoint, &format!("ro,metrics={port}"));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(
        text.contains("larder_fuse_requests_total{operation=\"read\"}"),
        "{text}"
    );
    for hidden in [
        "\u{1b}",
        "[31m",
        "[1m",
        "\u{202e}",
        "dir/",
        "/mnt",
        "larder-test-",
    ] {
        assert!(!text.contains(hidden), "{hidden:?} in {text}");
    }
    umount(User::Same, &mountpoint.0);
}

/// Returns a port that was free.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn metrics_are_accepted_by_promtool() {
    if skip(&[Requirement::Tool("promtool")]) {
        return;
    }
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let _server = serve(&fixture, &mountpoint.0, "rw");
    fs::write(mountpoint.0.join("new"), "content").unwrap();
    fs::remove_dir(mountpoint.0.join("dir")).unwrap_err();
    let text = larder_ok(["stats", "--prometheus", mountpoint.0.to_str().unwrap()]);
    let metrics = fixture.path("metrics");
    fs::write(&metrics, &text).unwrap();
    let output = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(File::open(&metrics).unwrap())
        .output()
        .unwrap();
    let problems = String::from_utf8_lossy(&output.stderr).into_owned();
    // 3 means that the names of metrics do not follow all conventions.
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{problems}\n{text}"
    );
    let of_requests = |line: &&str| line.contains("larder_fuse_") || line.contains("_seconds");
    assert_eq!(problems.lines().find(of_requests), None, "{problems}");
    umount(User::Same, &mountpoint.0);
}

/// Returns the numbers of threads of each name at rest, from the table in docs/architecture.md. `column` is the column of
/// the transport. A number that depends on the number of processors is that of this machine.
fn documented_threads(column: usize) -> BTreeMap<String, Vec<usize>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once("### Threads at rest\n").unwrap();
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let processors = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last = processors.trim().rsplit('-').next().unwrap();
    let processors = last.parse::<usize>().unwrap() + 1;
    let threads = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let number = |text: &str| match text {
            "processors" => processors.min(16),
            text => text.parse().unwrap(),
        };
        let numbers = cells[column].split(" or ").map(number).collect();
        (cells[1].trim_matches('`').to_owned(), numbers)
    });
    threads.collect()
}

/// Returns the number of threads of a process for each name. The number at the end of a name such as `larder-fuse-1` is
/// replaced by `N`. Threads of the kernel that perform requests of `io_uring` are not included.
fn threads_of(process: u32) -> BTreeMap<String, usize> {
    let mut threads = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        // The thread may have ended.
        let Ok(name) = fs::read_to_string(task.unwrap().path().join("comm")) else {
            continue;
        };
        let name = name.trim_end();
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let name = if kind.ends_with('-') {
            format!("{kind}N")
        } else {
            name.to_owned()
        };
        if !name.starts_with("iou-wrk-") {
            *threads.entry(name).or_default() += 1;
        }
    }
    threads
}

#[test]
fn threads_at_rest_are_those_documented() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    for (transport, column) in [("dev", 2), ("uring", 3)] {
        if transport == "uring" && Requirement::FuseOverUring.missing().is_some() {
            continue;
        }
        let server = serve(
            &fixture,
            &mountpoint.0,
            &format!("rw,transport={transport}"),
        );
        fs::write(mountpoint.0.join("new"), "content").unwrap();
        let documented = documented_threads(column);
        let is_documented = |threads: &BTreeMap<String, usize>| {
            let is_known = threads.keys().all(|name| documented.contains_key(name));
            is_known
                && documented.iter().all(|(name, numbers)| {
                    numbers.contains(&threads.get(name).copied().unwrap_or(0))
                })
        };
        // Threads that a request has started end soon after it.
        let expected = format!("{transport}: the threads {documented:?}");
        wait_until(&expected, || is_documented(&threads_of(server.0.id())));
        umount(User::Same, &mountpoint.0);
        drop(server);
    }
}
