//! `larder top`, in a terminal that tmux emulates, and without a terminal.

mod support;

use rustix::process::Signal;
use std::fs;
use support::terminal::Terminal;
use support::{
    Fixture, Mountpoint, User, assert_fails, binary, can_mount, larder, larder_ok, mount, serve,
    signal, umount,
};

/// Runs `larder top` with `args` between two lines of text. The second line contains its exit code and whether the
/// terminal echoes.
fn watching(fixture: &Fixture, args: &str) -> Terminal {
    let script = format!(
        "echo before; {} top {args}; echo left with $?; stty -a | grep -o '[-]*icanon'; exec cat",
        binary().display()
    );
    Terminal::running(fixture, &script)
}

/// Waits until the command has exited with `code`, and the terminal is restored.
#[track_caller]
fn wait_for_exit(terminal: &Terminal, code: i32) -> String {
    let screen = terminal.wait_for(&[&format!("left with {code}\n"), "\nicanon\n"]);
    assert!(screen.starts_with("before\n"), "{screen}");
    assert!(!screen.contains("lookups/s"), "{screen}");
    screen
}

fn can_emulate_terminals() -> bool {
    can_mount(User::Same) && !larder_testkit::skip(&[larder_testkit::Requirement::Tool("tmux")])
}

/// Returns a fixture and its mount, which is read through larder's page cache.
fn mounted() -> (Fixture, Mountpoint) {
    mounted_with("tables=larder")
}

fn mounted_with(option: &str) -> (Fixture, Mountpoint) {
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let options = format!("ro,direct_io,cache_size=32M,{option}");
    mount(User::Same, &fixture, &mountpoint.0, &options);
    (fixture, mountpoint)
}

#[test]
fn view_shows_activity_and_accepts_keys() {
    if !can_emulate_terminals() {
        return;
    }
    let (fixture, mountpoint) = mounted();
    let mnt = mountpoint.0.display();
    let terminal = watching(&fixture, &format!("--interval 0.1 {mnt}"));
    let screen = terminal.wait_for(&["larder top", "> page", "of 32.0 MiB", "? help"]);
    assert!(screen.lines().count() <= 24, "{screen}");
    fs::read(mountpoint.0.join("dir/large")).unwrap();
    let screen = terminal.wait_for(&["page: 768 objects", "\n    1 "]);
    assert!(
        screen.contains('#') && screen.contains("Poisson"),
        "{screen}"
    );

    terminal.press("Down");
    terminal.wait_for(&["> buffer", "buffer: "]);
    terminal.press("Left");
    terminal.wait_for(&["> page"]);
    terminal.press("Up");
    terminal.wait_for(&["> inode", "inode: "]);
    terminal.press("?");
    terminal.wait_for(&["close this help"]);
    terminal.press("?");
    terminal.wait_for(&["> inode"]);

    terminal.tmux(&["resize-window", "-x", "70", "-y", "20"]);
    terminal.wait_for(&["needs 80 columns and 24 rows; the terminal has 70 and 20"]);
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.wait_for(&["> inode"]);
    terminal.press("q");
    wait_for_exit(&terminal, 0);
    drop(terminal);
    umount(User::Same, &mountpoint.0);
}

#[test]
fn terminal_is_restored_on_every_exit() {
    if !can_emulate_terminals() {
        return;
    }
    let (fixture, mountpoint) = mounted();
    let mnt = mountpoint.0.display();
    for (args, key, code) in [
        (format!("{mnt}"), Some("C-c"), 0),
        (format!("{mnt}"), Some("Escape"), 0),
        (format!("--interval 0.1 --count 3 {mnt}"), None, 0),
    ] {
        let terminal = watching(&fixture, &args);
        if let Some(key) = key {
            terminal.wait_for(&["larder top"]);
            terminal.press(key);
        }
        wait_for_exit(&terminal, code);
    }
    umount(User::Same, &mountpoint.0);
}

#[test]
fn view_reports_unmount_and_lost_server() {
    if !can_emulate_terminals() {
        return;
    }
    let (fixture, mountpoint) = mounted();
    let mnt = mountpoint.0.display();
    let terminal = watching(&fixture, &format!("--interval 0.1 {mnt}"));
    terminal.wait_for(&["larder top"]);
    umount(User::Same, &mountpoint.0);
    terminal.wait_for(&["not updated: ", "is not mounted"]);
    terminal.press("q");
    let screen = wait_for_exit(&terminal, 0);
    assert!(
        screen.contains("note: ") && screen.contains("is not mounted"),
        "{screen}"
    );
    drop(terminal);

    let server = serve(&fixture, &mountpoint.0, "ro");
    let terminal = watching(&fixture, &format!("--interval 0.1 {mnt}"));
    terminal.wait_for(&["larder top"]);
    signal(&server, Signal::KILL);
    terminal.wait_for(&["not updated: "]);
    terminal.press("q");
    let screen = wait_for_exit(&terminal, 1);
    assert!(screen.contains("error: "), "{screen}");
}

#[test]
fn signal_ends_view_and_restores_terminal() {
    if !can_emulate_terminals() {
        return;
    }
    let (fixture, mountpoint) = mounted();
    let terminal = watching(&fixture, &mountpoint.0.display().to_string());
    terminal.wait_for(&["larder top"]);
    let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let children = format!("/proc/{0}/task/{0}/children", shell.trim());
    let child = fs::read_to_string(children).unwrap();
    let pid = child
        .trim()
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.unwrap(), Signal::TERM).unwrap();
    wait_for_exit(&terminal, 128 + 15);
    drop(terminal);
    umount(User::Same, &mountpoint.0);
}

#[test]
fn figures_are_written_as_text_without_terminal() {
    if !can_mount(User::Same) {
        return;
    }
    let (_fixture, mountpoint) = mounted();
    let mnt = mountpoint.0.to_str().unwrap();
    for args in [&["top", mnt][..], &["top", "--once", mnt]] {
        let shown = larder_ok(args);
        assert!(
            shown.starts_with("larder top  ") && shown.contains("\n> page "),
            "{shown}"
        );
        assert!(
            !shown.contains("? help") && !shown.contains('\x1b'),
            "{shown}"
        );
        assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
    }
    let shown = larder_ok([
        "top",
        "--count",
        "2",
        "--interval",
        "0.1",
        "--cache",
        "dentry",
        mnt,
    ]);
    assert_eq!(shown.matches("\n> dentry ").count(), 2, "{shown}");

    let lines = larder_ok(["top", "--json", "--count", "3", "--interval", "0.1", mnt]);
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].get("rates").is_none());
    for line in &lines[1..] {
        assert!(line["elapsed_s"].as_f64().unwrap() >= 0.1, "{line}");
        assert!(line["rates"]["page"]["lookups_s"].is_number(), "{line}");
    }
    for line in &lines {
        assert_eq!(line["histogram"]["cache"], "page");
        for cache in ["page", "buffer", "dentry", "inode"] {
            assert!(line["stats"][cache]["longest_chain"].is_u64(), "{line}");
        }
    }
    umount(User::Same, &mountpoint.0);
}

#[test]
fn json_histogram_has_poisson_buckets() {
    if !can_mount(User::Same) {
        return;
    }
    let (_fixture, mountpoint) = mounted();
    fs::read(mountpoint.0.join("dir/large")).unwrap();
    let mnt = mountpoint.0.to_str().unwrap();
    let json = larder_ok(["stats", "--histogram", "page", "--json", mnt]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let sum = |key| {
        rows.iter()
            .map(|row| row[key].as_f64().unwrap())
            .sum::<f64>()
    };
    assert_eq!(json["objects"], 768, "{json}");
    assert!((sum("objects") - 768.0).abs() < 0.5, "{json}");
    assert!(
        (sum("buckets") - sum("poisson_buckets")).abs() < 0.5,
        "{json}"
    );
    umount(User::Same, &mountpoint.0);
}

#[test]
fn pages_in_trees_are_shown_by_their_depth() {
    if !can_mount(User::Same) {
        return;
    }
    let (_fixture, mountpoint) = mounted_with("tables=D+page=rbtree");
    fs::read(mountpoint.0.join("dir/large")).unwrap();
    let mnt = mountpoint.0.to_str().unwrap();
    let histogram = ["stats", "--histogram", "page"];
    let text = larder_ok([&histogram[..], &[mnt]].concat());
    let trees = " red-black trees: 1, one for each inode\n trees contain 768 objects\n";
    assert!(text.contains(trees), "{text}");
    let json = larder_ok([&histogram[..], &["--json", mnt]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["objects"], 768, "{json}");
    assert_eq!(json["trees"]["largest"], 768, "{json}");
    let rows = json["trees"]["rows"].as_array().unwrap();
    let pages = rows.iter().map(|row| row["objects"].as_u64().unwrap());
    assert_eq!(pages.sum::<u64>(), 768, "{json}");
    // A tree of 768 objects has at least 10 levels, and a red-black tree at most 20.
    let deepest = json["longest_chain"].as_u64().unwrap();
    assert!((10..=20).contains(&deepest), "{json}");
    assert_eq!(deepest, rows.len() as u64, "{json}");

    let shown = larder_ok(["top", "--once", mnt]);
    let expected = [
        "tables D+page=rbtree, every 1 s".to_owned(),
        "page: 768 objects, 1 red-black tree".to_owned(),
        format!("{deepest:>5} "),
    ];
    for part in &expected {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    assert!(larder_ok(["stats", mnt]).contains("tables     D+page=rbtree\n"));
    umount(User::Same, &mountpoint.0);
}

#[test]
fn other_file_systems_are_rejected() {
    let output = larder(["top", "/proc"]);
    assert_fails(
        &output,
        1,
        &[
            "/proc is a mount of type proc, not a larder mount",
            "hint: use the mount point of an image",
        ],
    );
    let output = larder(["top", "/nowhere"]);
    assert_fails(
        &output,
        1,
        &["/nowhere does not exist", "hint: use the mount point"],
    );
    let output = larder(["top", "--interval", "0", "/proc"]);
    assert_fails(&output, 2, &["0.1 to 3600 seconds"]);
}
