//! `larder ls`, `find`, `tree`, `du` and `df` compared with the programs after which they are named, and patterns compared
//! with bash, on the kernel's mount of the same image.

mod support;

use larder_testkit::e2fsprogs::debugfs_write;
use larder_testkit::{Access, LoopMount, Requirement, skip};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};
use support::{Fixture, assert_fails, can_make_images, larder, larder_ok, name_of, sh, text};

/// An image with files of many kinds, and the kernel's mount of it.
struct Mounted {
    fixture: Fixture,
    mount: LoopMount,
}

impl Mounted {
    /// Returns `None` if the kernel cannot mount here. `features` are options of mke2fs.
    fn new(features: &str) -> Option<Self> {
        if !can_make_images() || skip(&[Requirement::LoopMount]) {
            return None;
        }
        let fixture = Fixture::new();
        let tree = fixture.path("tree");
        make_tree(&tree);
        let special = "mkfifo \"$1/fifo\"; mknod \"$1/null\" c 1 3; mknod \"$1/block\" b 259 65536";
        sh(special, &[&tree]);
        fixture.make_image("ext4", features);
        let mount = LoopMount::new(&fixture.image(), Access::ReadOnly, &[]).unwrap();
        Some(Self { fixture, mount })
    }

    /// Returns the output of a program that runs in the root of the mount, and its exit code.
    fn kernel(&self, program: &str, args: &[&str]) -> (String, Option<i32>) {
        let output = Command::new(program)
            .args(args)
            .current_dir(self.mount.path())
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .output()
            .unwrap();
        (text(&output.stdout), output.status.code())
    }

    /// Returns the output of larder for the image, and its exit code.
    fn larder(&self, command: &str, options: &[&str], paths: &[&str]) -> (String, Option<i32>) {
        let image = self.fixture.image();
        let image = image.to_str().unwrap();
        let output = larder([&[command] as &[&str], options, &["--", image], paths].concat());
        (text(&output.stdout), output.status.code())
    }
}

/// Adds hidden files, links, sparse files and names with special characters to the tree of a fixture.
fn make_tree(tree: &Path) {
    fs::create_dir_all(tree.join(".hidden/below")).unwrap();
    fs::create_dir_all(tree.join("-first/empty")).unwrap();
    fs::create_dir(tree.join("odd")).unwrap();
    for name in [
        "[ab]",
        "a",
        "b",
        "two words",
        "new\nline",
        "\u{e9}",
        ".dot",
        "x*",
    ] {
        fs::write(tree.join("odd").join(name), name).unwrap();
    }
    fs::write(tree.join("odd").join(name_of(b"\xff")), "").unwrap();
    fs::write(tree.join(".hidden/file"), "").unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    symlink("dir", tree.join("to-dir")).unwrap();
    symlink("circle", tree.join("circle")).unwrap();
    for (name, bytes) in [
        ("1023", 1023),
        ("1025", 1025),
        ("big", 10_138),
        ("large", 3 << 29),
    ] {
        let file = fs::File::create(tree.join("-first").join(name)).unwrap();
        file.set_len(bytes).unwrap();
    }
    for hours in [12, 36, 60, 24 * 40 + 12] {
        let file = fs::File::create(tree.join(format!(".hidden/{hours} hours"))).unwrap();
        let age = Duration::from_secs(hours * 60 * 60);
        file.set_modified(SystemTime::now() - age).unwrap();
    }
}

/// Returns the lines of `ls -l` with one blank between columns: the columns of device numbers are narrower than GNU ls's.
fn columns(listing: &str) -> Vec<String> {
    let columns = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    listing.lines().map(columns).collect()
}

/// Returns the lines of an output in order.
fn sorted(output: &str) -> Vec<&str> {
    let mut lines: Vec<_> = output.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ls_prints_what_gnu_ls_prints_on_the_kernels_mount() {
    let Some(mounted) = Mounted::new("") else {
        return;
    };
    for (options, paths) in [
        ("-R", &["."] as &[&str]),
        ("-Ra", &["."]),
        ("-l", &["."]),
        ("-lR", &["."]),
        ("-lRh", &["."]),
        ("-laRh", &["dir", ".hidden"]),
        ("-R", &["to-dir", "hello"]),
        ("-lR", &["to-dir", "to-dir/", "hello"]),
        ("-a", &["dir/", "odd", "hello", ".hidden/file"]),
        ("-d", &[".", "dir", "hello", "dangling"]),
        ("-ld", &["dir", "to-dir", "null", "block", "fifo"]),
        ("-a", &["dangling", "circle", "to-dir"]),
        ("-l", &["dangling", "none", "dir", "hello/x"]),
        ("-R", &["none"]),
        ("-d", &["hello/", "dir/"]),
        ("-l", &["hello/", "none/"]),
    ] {
        let long = options.replace('l', "n");
        let gnu = ["--time-style=long-iso", &long, "--"];
        let (expected, code) = mounted.kernel("ls", &[gnu.as_slice(), paths].concat());
        let (found, found_code) = mounted.larder("ls", &[options], paths);
        if options.contains('l') {
            assert_eq!(columns(&found), columns(&expected), "{options} {paths:?}");
        } else {
            assert_eq!(found, expected, "{options} {paths:?}");
        }
        assert_eq!(found_code, code, "{options} {paths:?}");
    }
    let (expected, _) = mounted.kernel("ls", &["-n", "--time-style=long-iso", "dir"]);
    assert_eq!(mounted.larder("ls", &["-l"], &["dir"]).0, expected);
}

#[test]
fn ls_expands_patterns_as_bash_does() {
    let Some(mounted) = Mounted::new("") else {
        return;
    };
    for pattern in [
        "*",
        ".*",
        "*/",
        "dir/*",
        "*/empty",
        "d*/[ae]*",
        "*/*/deeper",
        "?ello",
        "[!d-l]*",
        "dir/../h*",
        "odd/?",
        "odd/??*",
        "odd/[[:alpha:]]",
        "odd/*\\**",
        "to-*/*",
        "dangling/*",
        "hello/*",
        "none*",
        "none/*",
    ] {
        let command = format!("ls -d -- {pattern}");
        let (expected, code) = mounted.kernel("bash", &["-O", "globskipdots", "-c", &command]);
        let (found, found_code) = mounted.larder("ls", &["-d"], &[pattern]);
        assert_eq!(found, expected, "{pattern}");
        assert_eq!(found_code, code, "{pattern}");
    }
}

#[test]
fn find_prints_what_gnu_find_prints_on_the_kernels_mount() {
    // Without the feature, directories do not record types.
    for features in ["", "-O ^filetype"] {
        let Some(mounted) = Mounted::new(features) else {
            return;
        };
        for (criteria, paths) in [
            ("", &["."] as &[&str]),
            ("", &["dir", "hello", "to-dir", "to-dir/", "odd/"]),
            ("-type f", &["."]),
            ("-type d,l", &["."]),
            ("-type b,c,p,s", &["."]),
            ("-name *e*", &["."]),
            ("-name .*", &["."]),
            ("-name *", &["dir", ".hidden"]),
            ("-name [!a-y]*", &["."]),
            ("-name dir -type d", &[".", "dir"]),
            ("-size 1", &["."]),
            ("-size +1k", &["."]),
            ("-size -2k", &["."]),
            ("-size 10138c", &["."]),
            ("-size -1M", &["."]),
            ("-size +1G", &["."]),
            ("-mtime 1", &["."]),
            ("-mtime -1", &["."]),
            ("-mtime +1", &["."]),
            ("-mtime +30 -type f", &["."]),
            ("-newermt 2020-01-01", &["."]),
            ("-newermt 2999-01-01T00:00:00Z", &["."]),
            ("", &["none", "dir"]),
            ("", &["hello/", "dir"]),
        ] {
            let words: Vec<&str> = criteria.split_whitespace().collect();
            let (expected, code) = mounted.kernel("find", &[paths, &words].concat());
            let options: Vec<String> = words
                .chunks(2)
                .map(|pair| format!("-{}={}", pair[0], pair[1]).replace("newermt", "newer-than"))
                .collect();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let (found, found_code) = mounted.larder("find", &options, paths);
            assert_eq!(sorted(&found), sorted(&expected), "{criteria} {paths:?}");
            assert_eq!(found_code, code, "{criteria} {paths:?}");
        }
    }
}

#[test]
fn du_prints_what_gnu_du_prints_on_the_kernels_mount() {
    let Some(mounted) = Mounted::new("") else {
        return;
    };
    // The order of entries decides to which directory a file with several links is attributed. Therefore `dir`, which has
    // such a file, is named first.
    for (options, paths) in [
        (
            &[] as &[&str],
            &["dir", "hello", "odd", ".hidden"] as &[&str],
        ),
        (&["-h"], &["dir", "hello", "odd", ".hidden"]),
        (&["-s"], &["."]),
        (&["-s", "-h"], &["dir", "hello", "to-dir", ".hidden"]),
        // Files that several of the paths contain are counted once.
        (&[], &["dir", ".", "hello", "dir"]),
        (&[], &["dir/large", "hello", "dir/again", "dir"]),
        (&["-s"], &["none", "odd"]),
        (&["-s"], &["hello/", "odd"]),
    ] {
        let (expected, code) = mounted.kernel("du", &[options, paths].concat());
        let (found, found_code) = mounted.larder("du", options, paths);
        assert_eq!(sorted(&found), sorted(&expected), "{options:?} {paths:?}");
        assert_eq!(found_code, code, "{options:?} {paths:?}");
    }
    // The order of entries in a directory is not that of the kernel, but each directory follows those below it.
    let (found, _) = mounted.larder("du", &[], &["."]);
    let paths: Vec<&Path> = found
        .lines()
        .map(|line| Path::new(line.split_once('\t').unwrap().1))
        .collect();
    assert_eq!(paths.last(), Some(&Path::new(".")));
    for (at, path) in paths.iter().enumerate() {
        let is_below = |other: &&&Path| other.starts_with(path) && *other != path;
        assert_eq!(paths[at..].iter().find(is_below), None, "{found}");
    }
    let (json, _) = mounted.larder("du", &["--json"], &["dir"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let (bytes, _) = mounted.kernel("du", &["-s", "-B1", "dir"]);
    let last = json["entries"].as_array().unwrap().last().unwrap();
    assert_eq!(format!("{}\tdir\n", last["allocated_bytes"]), bytes);
    assert_eq!(last["path"], "dir");
}

#[test]
fn df_prints_what_gnu_df_prints_on_the_kernels_mount() {
    for features in ["", "-b 1024 -m 0", "-O bigalloc -C 16384"] {
        let Some(mounted) = Mounted::new(features) else {
            return;
        };
        let folder = mounted.fixture.path("mnt");
        fs::create_dir(&folder).unwrap();
        let attached = mounted.mount.attach(&folder).unwrap();
        for (gnu, options) in [
            ("-k", &[] as &[&str]),
            ("-h", &["-h"]),
            ("-i", &["-i"]),
            ("-ih", &["-i", "-h"]),
        ] {
            let (expected, _) = mounted.kernel("df", &[gnu, folder.to_str().unwrap()]);
            let (found, code) = mounted.larder("df", options, &[]);
            assert_eq!(code, Some(0));
            // The first column is the image or the device. After the next four, df shows the mount point.
            let columns = |output: &str| -> Vec<Vec<String>> {
                let cells = |line: &str| {
                    let cells = line.split_whitespace().skip(1).take(4);
                    cells.map(str::to_owned).collect()
                };
                output.lines().map(cells).collect()
            };
            assert_eq!(
                columns(&found),
                columns(&expected),
                "{features} {options:?}"
            );
        }
        drop(attached);
    }
}

#[test]
fn tree_has_the_format_of_tree() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("tree/dir/.hidden/below")).unwrap();
    fs::write(fixture.path("tree/dir/deep/deeper/leaf"), "").unwrap();
    fixture.make_image("ext4", "");
    let image = fixture.image();
    let image = image.to_str().unwrap();
    let expected = "\
/dir
├── again
├── deep
│   └── deeper
│       └── leaf
├── empty
└── large
/link

2 directories, 5 files
";
    assert_eq!(larder_ok(["tree", image, "/dir", "/link"]), expected);
    let all = larder_ok(["tree", "-a", image, "/dir"]);
    let first = "/dir\n├── .hidden\n│   └── below\n├── again\n";
    assert!(all.starts_with(first), "{all}");
    assert!(larder_ok(["tree", image]).contains("\n├── link -> hello\n"));
    let json = larder_ok(["tree", "--json", image, "/dir"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let entries = json["entries"].as_array().unwrap().iter();
    let found: Vec<_> = entries
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap();
            (text("path"), entry["depth"].as_u64().unwrap(), text("type"))
        })
        .collect();
    assert_eq!(
        found,
        [
            ("/dir", 0, "directory"),
            ("/dir/again", 1, "regular"),
            ("/dir/deep", 1, "directory"),
            ("/dir/deep/deeper", 2, "directory"),
            ("/dir/deep/deeper/leaf", 3, "regular"),
            ("/dir/empty", 1, "regular"),
            ("/dir/large", 1, "regular"),
        ]
    );
    let json = larder_ok(["tree", "--json", image]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let entries = json["entries"].as_array().unwrap();
    let of = |path: &str| entries.iter().find(|entry| entry["path"] == path).unwrap();
    assert_eq!(of("/link")["target"], "hello");
    assert_eq!(of("/no\u{fffd}text")["path_hex"], "2f6e6fff74657874");
}

#[test]
fn control_characters_are_escaped_on_a_terminal() {
    if !can_make_images() || skip(&[Requirement::Tool("script")]) {
        return;
    }
    let fixture = Fixture::new();
    let directory = fixture.path("tree/dir");
    let name = name_of(b"new\x1b[31m\nline\xe2\x80\xae\xff");
    fs::create_dir_all(directory.join(&name).join("below")).unwrap();
    symlink(&name, directory.join("link")).unwrap();
    fixture.make_image("ext4", "");
    let image = fixture.image();
    let binary = support::binary().display();
    let at = image.display();
    // The names in arguments are made by printf of the shell.
    let (name, inside) = ("new\\033[31m\\nline\\342\\200\\256", "\\377");
    let of_host = format!("\"$(printf './{name}')\"");
    let in_image = format!("\"$(printf '/dir/{name}{inside}')\"");
    for (command, end) in [
        (format!("ls -R '{at}' /dir"), inside),
        (format!("ls -l '{at}' /dir"), inside),
        (format!("find '{at}' /dir"), inside),
        (format!("tree '{at}' /dir"), inside),
        (format!("du '{at}' /dir"), inside),
        (format!("stat '{at}' {in_image}"), inside),
        (format!("stat '{at}' /dir/link"), inside),
        // Errors, about names in the image and in the file system of the host.
        (format!("ls '{at}' {in_image}/absent"), inside),
        (format!("cat '{at}' {in_image}"), inside),
        (format!("rm '{at}' {in_image}"), inside),
        (format!("info {of_host}"), ""),
        (format!("ls {of_host} /"), ""),
        (format!("mount -o ro '{at}' {of_host}"), ""),
        (format!("umount {of_host}"), ""),
        (format!("stats {of_host}"), ""),
        (format!("df {of_host}"), ""),
        (format!("create --size 16M {of_host}/absent"), ""),
        (format!("diff {of_host} {of_host}"), ""),
    ] {
        let output = support::on_terminal(&format!("'{binary}' {command}"));
        let shown = text(&output.stdout);
        assert!(
            shown.contains(&format!("{name}{end}")),
            "{command}: {shown:?}"
        );
        let is_control = |c: char| c.is_control() && !matches!(c, '\r' | '\n' | '\t');
        let is_unsafe = |c: char| is_control(c) || matches!(c, '\u{202e}' | '\u{fffd}');
        assert!(!shown.contains(is_unsafe), "{command}: {shown:?}");
        assert!(!shown.contains("\nline"), "{command}: {shown:?}");
    }
}

#[test]
fn tree_prints_what_tree_prints_on_the_kernels_mount() {
    if skip(&[Requirement::Tool("tree")]) {
        return;
    }
    let Some(mounted) = Mounted::new("") else {
        return;
    };
    for options in [&[] as &[&str], &["-a"]] {
        for path in [".", "dir", "-first"] {
            // Without -N, tree replaces characters that are not printable.
            let arguments = [options, &["-N", "--noreport", "--", path]].concat();
            let (expected, _) = mounted.kernel("tree", &arguments);
            let expected = expected.replace('\u{a0}', " ");
            let (found, code) = mounted.larder("tree", options, &[path]);
            let (found, _) = found.rsplit_once("\n\n").unwrap();
            assert_eq!(found, expected.trim_end(), "{options:?} {path}");
            assert_eq!(code, Some(0));
        }
    }
}

#[test]
fn walks_of_damaged_trees_report_each_error_once() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let loops = [
        "link dir dir/deep/loop",
        "set_inode_field /dir/deep/deeper block[0] 0",
    ];
    debugfs_write(&image, &loops).unwrap();
    let image = image.to_str().unwrap();
    for command in ["tree", "du"] {
        let output = larder([command, image, "/dir"]);
        let parts = [
            "error: /dir/deep/loop: ",
            "directory loop",
            "error: /dir/deep/deeper: ",
        ];
        assert_fails(&output, 1, &parts);
        assert_eq!(text(&output.stderr).lines().count(), 2, "{command}");
        assert!(text(&output.stdout).contains("deeper"), "{command}");
    }
}

#[test]
fn find_reports_loops_and_damage_and_finds_the_rest() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    debugfs_write(
        &image,
        &[
            "link dir dir/deep/loop",
            "set_inode_field /dir/deep/deeper block[0] 0",
        ],
    )
    .unwrap();
    let image = image.to_str().unwrap();
    let output = larder(["find", image]);
    let parts = [
        "error: /dir/deep/loop: ",
        "directory loop",
        "error: /dir/deep/deeper: ",
    ];
    assert_fails(&output, 1, &parts);
    let found = text(&output.stdout);
    assert!(found.starts_with("/\n"), "{found}");
    for path in [
        "/dir/deep/loop",
        "/dir/deep/deeper",
        "/dir/large",
        "/sparse",
    ] {
        assert!(found.lines().any(|line| line == path), "{path}: {found}");
    }
    assert_eq!(text(&output.stderr).lines().count(), 2);
}

#[test]
fn find_json_has_the_documented_keys() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let json = larder_ok(["find", "--json", image.to_str().unwrap(), "/"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let entries = json["entries"].as_array().unwrap();
    let of = |path: &str| entries.iter().find(|entry| entry["path"] == path).unwrap();
    assert_eq!(of("/")["type"], "directory");
    assert_eq!(of("/dir/again")["size_bytes"], 14);
    assert_eq!(of("/link")["target"], "hello");
    assert_eq!(of("/no\u{fffd}text")["path_hex"], "2f6e6fff74657874");
}

#[test]
fn commands_accept_both_forms_of_operands() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let image = image.to_str().unwrap();
    let inside = |path: &str| format!("{image}:{path}");
    for (args, paths) in [
        (&["ls", "-l"] as &[&str], &["/dir", "/hello"] as &[&str]),
        (&["ls", "--json"], &["/"]),
        (&["ls"], &["/dir/*"]),
        (&["find"], &["/dir", "/h*"]),
        (&["stat"], &["/link"]),
        (&["cat"], &["/hello", "/dir/again"]),
    ] {
        let expected = larder_ok([args, &[image], paths].concat());
        let inside: Vec<String> = paths.iter().map(|path| inside(path)).collect();
        let args = args
            .iter()
            .copied()
            .chain(inside.iter().map(String::as_str));
        assert_eq!(larder_ok(args), expected, "{paths:?}");
    }
    let copy = |args: &[&str]| {
        let into = tempfile::tempdir().unwrap();
        let into_path = into.path().to_str().unwrap();
        larder_ok([&["cp", "-r"] as &[&str], args, &[into_path]].concat());
        let mut names: Vec<_> = fs::read_dir(into.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let copied = copy(&[&inside("/dir"), &inside("/hello")]);
    assert_eq!(copied, ["dir", "hello"]);
    assert_eq!(copied, copy(&[image, "/dir", "/hello"]));
    larder_ok(["mkdir", "-p", &inside("/new/a"), &inside("/new/b")]);
    larder_ok([
        "mv",
        &inside("/new/a"),
        &inside("/hello"),
        &inside("/new/b"),
    ]);
    larder_ok(["rm", "-r", &inside("/dir")]);
    assert_eq!(larder_ok(["ls", &inside("/new/b")]), "a\nhello\n");
    let output = larder(["ls", &inside("/dir")]);
    assert_fails(&output, 2, &["error: /dir: no such file"]);
    support::assert_clean(&fixture.image());
}

#[test]
fn wrong_operands_exit_with_two_and_a_hint() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let image = image.to_str().unwrap();
    let inside = |path: &str| format!("{image}:{path}");
    let other = format!("{image}.other:/copy");
    let file = fixture.path("tree/hello");
    let file = file.to_str().unwrap();
    let directory = fixture.path("tree/dir");
    let directory = directory.to_str().unwrap();
    for (args, hint) in [
        (vec!["cat", image], format!("hint: write {image}:/PATH")),
        (
            vec!["ls", &inside("dir")],
            format!("hint: write {image}:/dir"),
        ),
        (
            vec!["rm", &inside("/hello"), "/link"],
            format!("hint: write {image}:/link"),
        ),
        (vec!["mv", &inside("/hello")], "hint: larder mv".to_owned()),
        (
            vec!["stat", &inside("/hello"), &inside("/link")],
            "hint: run".to_owned(),
        ),
        (
            vec!["cp", &inside("/hello"), &inside("/copy")],
            "hint: use larder mv".to_owned(),
        ),
        (
            vec!["cp", &inside("/hello"), &other],
            "hint: copy to a directory".to_owned(),
        ),
        (
            vec!["cp", &inside("dir"), "."],
            format!("hint: write {image}:/dir"),
        ),
        (
            vec!["cp", "/dev/null", &inside("dir")],
            format!("hint: write {image}:/dir"),
        ),
        (
            vec!["cp", file, image, "/dir"],
            format!("hint: to copy into the image, write larder cp {file} {image}:/dir"),
        ),
        (
            vec!["cp", "-r", directory, file, image, "/dir/"],
            format!(
                "hint: to copy into the image, write larder cp -r {directory} {file} {image}:/dir/"
            ),
        ),
        (
            vec!["put", file, image, "/new"],
            format!("hint: write larder put {file} {image}:/new"),
        ),
        (
            vec!["put", file, &inside("/new"), "more"],
            "hint: larder cp copies several files".to_owned(),
        ),
    ] {
        assert_fails(&larder(&args), 2, &[&hint]);
    }
    for command in ["df", "info"] {
        let output = larder([command, &inside("/")]);
        let hint = format!("write {image}, without a path");
        assert_fails(&output, 1, &["does not exist", &hint]);
    }
}

#[test]
fn pattern_that_is_a_name_is_not_expanded() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    make_tree(&fixture.path("tree"));
    fs::create_dir(fixture.path("tree/d?r")).unwrap();
    fs::write(fixture.path("tree/d?r/a"), "").unwrap();
    fixture.make_image("ext4", "");
    let image = fixture.image();
    let list = |path: &str| larder_ok(["ls", "-d", image.to_str().unwrap(), path]);
    assert_eq!(list("/odd/[ab]"), "/odd/[ab]\n");
    assert_eq!(list("/o*/[ab]"), "/odd/[ab]\n");
    // The literal name of a component has no effect on the other components.
    assert_eq!(list("/d?r/*"), "/d?r/a\n");
    assert_eq!(list("/d?[r]/a*"), "/d?r/a\n/dir/again\n");
}

#[test]
fn ls_continues_after_a_missing_path_and_exits_with_two() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let image = image.to_str().unwrap();
    for missing in ["/none", "/none*", "/dir/[x]", "/hello*/x", ".[x]*"] {
        let output = larder(["ls", image, missing, "/hello"]);
        let message = format!("error: {missing}: no such file or directory in the image");
        assert_fails(&output, 2, &[&message]);
        assert_eq!(text(&output.stdout), "/hello\n");
    }
}

#[test]
fn damaged_directory_is_reported_by_every_form_of_ls() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    // The directory has no valid map of extents.
    debugfs_write(&image, &["set_inode_field /dir/deep block[0] 0"]).unwrap();
    let image = image.to_str().unwrap();
    for (args, code, listed) in [
        (&["-R", image, "/dir"] as &[&str], 1, "again"),
        (&["--json", "-R", image, "/dir"], 1, "again"),
        (&[image, "/dir/deep"], 2, ""),
        (&["-R", image, "/dir/deep"], 2, "/dir/deep:"),
        (&[image, "/dir/d*/x*", "/hello"], 2, "/hello"),
        (&["-d", image, "/dir/*/x*", "/dir/e*"], 2, "/dir/empty"),
    ] {
        let output = larder([&["ls"] as &[&str], args].concat());
        assert_fails(&output, code, &["error: /dir/deep"]);
        assert!(text(&output.stdout).contains(listed), "{args:?}");
        let errors = text(&output.stderr).matches("error:").count();
        assert_eq!(errors, 1, "{args:?} {}", text(&output.stderr));
    }
}

#[test]
fn pattern_does_not_search_a_directory_below_itself() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    debugfs_write(&image, &["link dir dir/deep/loop"]).unwrap();
    let image = image.to_str().unwrap();
    for pattern in ["/dir/*/*/*", "/*/*/*/*/"] {
        let output = larder(["ls", "-d", image, pattern]);
        assert_fails(&output, 2, &["error: /dir/deep/loop: ", "directory loop"]);
        assert_eq!(text(&output.stderr).matches("error:").count(), 1);
        assert_eq!(text(&output.stdout), "");
    }
    let listed = larder_ok(["ls", "-d", image, "/dir/*/"]);
    assert_eq!(listed, "/dir/deep/\n");
    let listed = larder_ok(["ls", "-d", image, "/dir/deep/*/"]);
    assert_eq!(listed, "/dir/deep/deeper/\n/dir/deep/loop/\n");
}

/// Runs a command on `/dir`. It must report one error, which is that of `/dir/deep`.
#[track_caller]
fn assert_one_error(command: &[&str], image: &str) {
    let output = larder([command, &[image, "/dir"]].concat());
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{command:?}: {errors}");
    assert!(
        errors.starts_with("error: /dir/deep: "),
        "{command:?}: {errors}"
    );
    assert_eq!(errors.matches("error:").count(), 1, "{command:?}: {errors}");
}

#[test]
fn wrong_type_in_a_directory_is_reported_once() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    // The inode of the directory becomes a regular file.
    debugfs_write(&image, &["set_inode_field /dir/deep mode 0100644"]).unwrap();
    let image = image.to_str().unwrap();
    for command in [
        &["ls", "-l"] as &[&str],
        &["ls", "-lR"],
        &["ls", "--json"],
        &["ls", "-R"],
        &["du"],
        &["find", "--json"],
        &["tree"],
    ] {
        assert_one_error(command, image);
    }
}

#[test]
fn unreadable_inode_is_reported_once() {
    if !can_make_images() {
        return;
    }
    // Without the feature, directories do not record types.
    for features in ["", "-O ^filetype"] {
        let fixture = Fixture::new();
        fixture.make_image("ext4", features);
        let image = fixture.image();
        // No type has this number.
        debugfs_write(&image, &["set_inode_field /dir/deep mode 0170644"]).unwrap();
        let image = image.to_str().unwrap();
        for command in [
            &["ls", "-l"] as &[&str],
            &["ls", "-lR"],
            &["find"],
            &["find", "--json"],
            &["find", "--size=-1M"],
            &["tree"],
            &["du"],
        ] {
            assert_one_error(command, image);
        }
        assert!(larder(["find", image, "/dir"]).stdout.ends_with(b"\n"));
    }
}

#[test]
fn recursive_ls_of_a_directory_loop_ends() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    debugfs_write(&image, &["link dir dir/deep/loop"]).unwrap();
    let output = larder(["ls", "-R", image.to_str().unwrap(), "/"]);
    assert_fails(&output, 1, &["error: /dir/deep/loop: ", "directory loop"]);
    assert!(text(&output.stdout).contains("\n/dir/deep/deeper:\n"));
}

#[test]
fn ls_json_of_several_paths_has_listings() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let image = image.to_str().unwrap();
    let paths = |args: &[&str]| -> Vec<(String, usize)> {
        let json = larder_ok([&["ls", "--json"] as &[&str], args].concat());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let listings = json["listings"].as_array().unwrap().iter();
        let shown = listings.map(|listing| {
            let count = listing["entries"].as_array().unwrap().len();
            (listing["path"].as_str().unwrap().to_owned(), count)
        });
        shown.collect()
    };
    let listing = |path: &str, count: usize| (path.to_owned(), count);
    assert_eq!(
        paths(&[image, "/dir", "/hello"]),
        [listing("/hello", 1), listing("/dir", 4)]
    );
    assert_eq!(
        paths(&["-R", image, "/dir"]),
        [
            listing("/dir", 4),
            listing("/dir/deep", 1),
            listing("/dir/deep/deeper", 0)
        ]
    );
    assert_eq!(paths(&[image, "/dir/e*"]), [listing("/dir/empty", 1)]);
}
