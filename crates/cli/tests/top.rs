//! `larder top`, in a terminal that tmux emulates, and without a terminal.

mod support;

use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use support::terminal::Terminal;
use support::{
    Fixture, Mountpoint, User, assert_fails, binary, can_mount, larder, larder_ok, mount, serve,
    signal, umount, wait_until,
};

/// Runs `larder top` with `args` between two lines of text. The second line contains its exit code and whether the
/// terminal echoes.
fn watching(fixture: &Fixture, args: &str) -> Terminal {
    let script = format!(
        "echo before; LC_ALL=C.UTF-8 {} top {args}; echo left with $?; stty -a | grep -o '[-]*icanon'; exec cat",
        binary().display()
    );
    Terminal::running(fixture, &script)
}

/// Waits until the command has exited with `code`, and the terminal is restored.
#[track_caller]
fn wait_for_exit(terminal: &Terminal, code: i32) -> String {
    let screen = terminal.wait_for(&[&format!("left with {code}\n"), "\nicanon\n"]);
    // If the terminal was resized meanwhile, tmux shows lines of the view above the restored screen.
    let from = screen.rfind("before\n");
    let restored = from.and_then(|from| screen.get(from..));
    let restored = restored.unwrap_or_else(|| panic!("{screen}"));
    assert!(!restored.contains("lookups/s"), "{screen}");
    restored.to_owned()
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
    assert!(screen.lines().count() == 24, "{screen}");
    fs::read(mountpoint.0.join("dir/large")).unwrap();

    // Arrows choose a cache and a page, and digits a page.
    terminal.press("Down");
    terminal.wait_for(&["> buffer"]);
    terminal.press("Enter");
    terminal.wait_for(&["> buffer", "buffer: ", "Activity"]);
    terminal.press("Up");
    let screen = terminal.wait_for(&["page: 768 objects", "\n    1 "]);
    assert!(
        screen.contains('#') && screen.contains("Poisson"),
        "{screen}"
    );
    terminal.press("Left");
    terminal.wait_for(&["The image is mounted read-only."]);
    terminal.press("Tab");
    terminal.wait_for(&["page: 768 objects"]);
    terminal.press("0");
    terminal.wait_for(&["> inode", "inode: "]);
    terminal.press("?");
    terminal.wait_for(&["close this help"]);
    terminal.press("Escape");
    terminal.wait_for(&["> inode"]);

    // Keys change the interval and the order.
    terminal.press("+");
    terminal.wait_for(&["every 0.2 s"]);
    terminal.press("-");
    terminal.wait_for(&["every 0.1 s"]);
    terminal.press("p");
    terminal.wait_for(&["PAUSED"]);
    terminal.press("p");
    terminal.wait_for(&["every 0.1 s"]);
    terminal.press("2");
    terminal.wait_for(&["▼req/s"]);
    terminal.press("i");
    terminal.wait_for(&["▲req/s"]);
    terminal.press("s");
    terminal.wait_for(&["▲p50"]);

    terminal.resize(70, 20);
    terminal.wait_for(&["needs 80 columns and 24 rows; the terminal has 70 and 20"]);
    terminal.resize(100, 30);
    terminal.wait_for(&["▲p50"]);
    terminal.press("q");
    wait_for_exit(&terminal, 0);
    drop(terminal);
    umount(User::Same, &mountpoint.0);
}

/// A shell that reads and writes files on a mount until it is dropped.
struct Activity {
    shell: Child,
    /// The shell ends when this file exists. If it was killed, a program that it has started could still use the mount.
    end: PathBuf,
}

impl Activity {
    fn start(fixture: &Fixture, mountpoint: &Path) -> Self {
        let end = fixture.path("end");
        let script = "while [ ! -e \"$1\" ]; do
            cat dir/large > /dev/null; ls -l dir > /dev/null
            echo text > dir/new; read -r line < dir/new; rm dir/new; sync dir
        done";
        let shell = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&end)
            .current_dir(mountpoint)
            .spawn();
        Self {
            shell: shell.unwrap(),
            end,
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        if fs::write(&self.end, "").is_err() {
            let _ = self.shell.kill();
        }
        let _ = self.shell.wait();
    }
}

/// The key of each page, and what the page contains at every size.
const PAGES: [(&str, &[&str]); 10] = [
    (
        "1",
        &[
            "Memory",
            "Caches",
            "FUSE requests",
            "Device",
            "Readahead",
            "Journal",
            "Files",
            "Processes",
            "lookups/s",
            "requests/s",
            "99% within",
            "/dir/large",
            "commits/s",
            "Enter open",
        ],
    ),
    (
        "2",
        &[
            "▼req/s", "p99", "\n> ", "lookup", "waiting", "up to", "i invert",
        ],
    ),
    (
        "3",
        &[
            "Files with the most requests",
            "▼req/s",
            "/dir/large",
            "requests/s",
        ],
    ),
    (
        "4",
        &[
            "Processes with the most requests",
            "▼req/s",
            " sh\n",
            "requests/s",
        ],
    ),
    (
        "5",
        &[
            "Device reads",
            "read/s",
            "written/s",
            "99% within",
            "wasted share",
        ],
    ),
    (
        "6",
        &[
            "dirty content",
            "commits/s",
            "checkpoints/s",
            "Commits",
            "space saved",
        ],
    ),
    (
        "7",
        &[
            "> page",
            "page: ",
            "chain  buckets  Poisson",
            "links/miss",
            "of capacity",
        ],
    ),
    (
        "8",
        &[
            "> buffer",
            "buffer: ",
            "chain  buckets  Poisson",
            "links/miss",
            "of capacity",
        ],
    ),
    (
        "9",
        &[
            "> dentry",
            "dentry: ",
            "chain  buckets  Poisson",
            "links/miss",
            "of capacity",
        ],
    ),
    (
        "0",
        &[
            "> inode",
            "inode: ",
            "chain  buckets  Poisson",
            "links/miss",
            "of capacity",
        ],
    ),
];

/// What the screen contains on every page.
const FRAME: [&str; 5] = [
    "larder top  ",
    "Overview",
    "inode",
    "q quit",
    "+/- interval",
];

/// Returns whether a screen has `columns` and `rows`, and text in most of its rows, and in both halves. The rows of a graph
/// are blank if its values are small.
fn is_filled(screen: &str, columns: usize, rows: usize) -> bool {
    let lines: Vec<Vec<char>> = screen.lines().map(|line| line.chars().collect()).collect();
    let with_text = |from: usize, width: usize| {
        let has_text = |line: &&Vec<char>| {
            let mut cells = line.iter().skip(from).take(width);
            cells.any(|cell| !cell.is_whitespace())
        };
        lines.iter().filter(has_text).count()
    };
    let half = columns / 2;
    lines.len() == rows
        && lines.iter().all(|line| line.len() <= columns)
        && with_text(0, columns) > rows / 2
        && with_text(0, half) > rows / 3
        && with_text(half, half) > rows / 4
}

/// On a mount with activity, each page fills a terminal of each size, and is complete.
#[test]
fn pages_fill_terminals_of_three_sizes() {
    if !can_emulate_terminals() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    mount(
        User::Same,
        &fixture,
        &mountpoint.0,
        "direct_io,cache_size=32M",
    );
    let activity = Activity::start(&fixture, &mountpoint.0);
    let mnt = mountpoint.0.display();
    let terminal = watching(&fixture, &format!("--interval 0.1 {mnt}"));
    terminal.wait_for(&["larder top"]);
    for (columns, rows) in [(80, 24), (120, 30), (200, 50)] {
        terminal.resize(columns, rows);
        for (key, parts) in PAGES {
            terminal.press(key);
            terminal.wait_for(&[&FRAME[..], parts].concat());
            wait_until(
                &format!("page {key} in {columns} columns and {rows} rows"),
                || is_filled(&terminal.screen(), columns.into(), rows.into()),
            );
        }
        terminal.press("?");
        terminal.wait_for(&[
            "Keys",
            "Figures",
            "invert the order",
            "moving averages of the last seconds",
        ]);
        terminal.press("?");
    }
    terminal.press("q");
    wait_for_exit(&terminal, 0);
    drop((terminal, activity));
    umount(User::Same, &mountpoint.0);
}

/// Colours are used unless `NO_COLOR` is set.
#[test]
fn view_honours_no_color() {
    if !can_emulate_terminals() {
        return;
    }
    let (fixture, mountpoint) = mounted();
    for (variable, has_colours) in [("NO_COLOR=", true), ("NO_COLOR=1", false)] {
        let script = format!(
            "{variable} {} top {}",
            binary().display(),
            mountpoint.0.display()
        );
        let terminal = Terminal::running(&fixture, &script);
        terminal.wait_for(&["> page", "? help"]);
        let screen = terminal.tmux(&["capture-pane", "-p", "-e"]);
        // tmux writes a foreground colour of the palette as 38;5;N.
        let is_coloured = screen.contains("38;5;");
        assert_eq!(is_coloured, has_colours, "{screen}");
        terminal.press("q");
    }
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
    // The server answers queries before it answers requests of the kernel.
    assert!(mountpoint.0.join("hello").exists());
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
        for part in ["FUSE requests", "Device", "Journal", "page: ", "Poisson"] {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
        assert!(
            !shown.contains("? help") && !shown.contains('\x1b'),
            "{shown}"
        );
        assert!(
            shown.lines().all(|line| line.chars().count() <= 80),
            "{shown}"
        );
    }
    let shown = larder_ok(["top", "--once", "--page", "fuse", mnt]);
    assert!(
        shown.contains("Operations") && !shown.contains("Poisson"),
        "{shown}"
    );
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
        "page: 768 objects".to_owned(),
        "1 red-black tree".to_owned(),
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
