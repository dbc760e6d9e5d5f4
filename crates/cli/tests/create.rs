//! `larder create`, with GNU tar as the writer of archives, and e2fsck and the kernel as oracles.

mod support;

use larder_testkit::e2fsprogs::{make_image_of, superblock};
use larder_testkit::mount::{Access, LoopMount};
use larder_testkit::{Requirement, skip};
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, setxattr};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::create::{assert_nothing_left, can_create, create, create_of, created};
use support::{Fixture, assert_clean, assert_fails, larder, larder_ok, sh, text};

/// Adds files to the tree of the fixture that are difficult to copy.
fn add_files(fixture: &Fixture) {
    let tree = fixture.path("tree");
    sh(
        "cd \"$1\"
        long=$(printf 'n%.0s' $(seq 150))
        mkdir -p \"$long/$long\" && echo deep > \"$long/$long/file\"
        ln -s \"$long/$long/file\" long-link && ln \"$long/$long/file\" long-again
        mkfifo fifo && mkdir sticky group && chmod 1777 sticky && chmod 2755 group
        : > group/file && chmod 4755 group/file
        : > hole-only && truncate -s 5M hole-only
        if [ $(id -u) = 0 ]; then
            mknod null c 1 3 && mknod disk b 8 1
            chown 1000:1001 hello && chown -h 1000:70000 link && chown 7:8 group
        fi
        touch -d '2001-02-03 04:05:06.123456789' dir/large
        touch -h -d '1969-12-31 23:59:58.5' link
        touch -d '2033-01-01 00:00:00.000000001' dir .",
        &[&tree],
    );
    let file = tree.join("dir/empty");
    // Not every file system of the host supports these attributes.
    let list = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xe8\x03\0\0\x04\0\x04\0\xff\xff\xff\xff\
        \x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    for (name, value) in [
        ("user.note", &b"first\nsecond=\0"[..]),
        ("user.a=b%", b""),
        ("system.posix_acl_access", list),
    ] {
        let set = setxattr(file.as_path(), name, value, XattrFlags::empty());
        if let Err(errno) = set {
            larder_testkit::report_skipped(format!("{name}: {errno}"));
        }
    }
}

/// Returns what tar(1) has written to `name`.
fn archive(fixture: &Fixture, name: &str, options: &str) -> PathBuf {
    let archive = fixture.path(name);
    let output = Command::new("tar")
        .args(["--numeric-owner", "-C"])
        .arg(fixture.path("tree"))
        .args(options.split_whitespace())
        .arg("-cf")
        .arg(&archive)
        .arg(".")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    archive
}

const PAX: &str = "--format=pax --xattrs --xattrs-include=* --acls -S";

/// Returns the attributes and the content of all files below `root`, by path. The times of directories, which mke2fs sets,
/// are only listed `with_times`.
fn listing(root: &Path, with_times: bool) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut left = vec![PathBuf::new()];
    while let Some(path) = left.pop() {
        let full = if path.as_os_str().is_empty() {
            root.to_owned()
        } else {
            root.join(&path)
        };
        let metadata = if path.as_os_str().is_empty() {
            fs::metadata(&full)
        } else {
            fs::symlink_metadata(&full)
        }
        .unwrap();
        let mut line = format!(
            "{:o} {}:{}",
            metadata.mode(),
            metadata.uid(),
            metadata.gid()
        );
        if with_times {
            let _ = write!(line, " {}.{:09}", metadata.mtime(), metadata.mtime_nsec());
        }
        if metadata.is_dir() {
            for entry in fs::read_dir(&full).unwrap() {
                let name = entry.unwrap().file_name();
                if name != "lost+found" {
                    left.push(path.join(name));
                }
            }
        } else {
            let _ = write!(
                line,
                " {} {} {}",
                metadata.nlink(),
                metadata.rdev(),
                metadata.len()
            );
        }
        if metadata.is_symlink() {
            let _ = write!(line, " {}", fs::read_link(&full).unwrap().display());
        }
        if metadata.is_file() {
            let content = fs::read(&full).unwrap();
            let sum = content.iter().fold(0_u64, |sum, &byte| {
                sum.wrapping_mul(31).wrapping_add(u64::from(byte))
            });
            let _ = write!(line, " {sum:x}");
        }
        line += &xattrs(&full);
        files.insert(path, line);
    }
    files
}

fn xattrs(path: &Path) -> String {
    let mut names = vec![0; 4096];
    let len = llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    let mut lines: Vec<String> = names[..len]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let mut value = vec![0; 4096];
            let name = std::ffi::OsStr::from_bytes(name);
            let len = lgetxattr(path, name, value.as_mut_slice()).unwrap();
            format!(" {}={}", name.display(), value[..len].escape_ascii())
        })
        .collect();
    lines.sort();
    lines.concat()
}

#[track_caller]
fn assert_no_differences(options: &[&str], old: &Path, new: &Path) {
    larder_ok(
        ["diff"]
            .iter()
            .chain(options)
            .map(Path::new)
            .chain([old, new]),
    );
}

#[test]
fn image_of_a_directory_or_an_archive_equals_the_tree() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    add_files(&fixture);
    archive(&fixture, "tree.tar", PAX);
    let from_directory = created(&fixture, "directory.img", &["--from", "tree"]);
    let from_archive = created(&fixture, "archive.img", &["--from", "tree.tar"]);
    assert_no_differences(&["--times"], &from_directory, &from_archive);
    let features = superblock(&from_archive).unwrap();
    assert!(features.contains("has_journal"), "{features}");
    if skip(&[Requirement::LoopMount]) {
        return;
    }
    let expected = listing(&fixture.path("tree"), true);
    for image in [&from_directory, &from_archive] {
        let mount = LoopMount::new(image, Access::ReadOnly, &[]).unwrap();
        assert_eq!(listing(&mount.path(), true), expected);
        let sparse = fs::metadata(mount.path().join("sparse")).unwrap();
        assert!(sparse.blocks() < 1000, "{}", sparse.blocks());
    }
    let other = fixture.path("mke2fs.img");
    make_image_of(&fixture.path("tree"), &other, "-t ext4", "64M").unwrap();
    let mounts =
        [&other, &from_archive].map(|image| LoopMount::new(image, Access::ReadOnly, &[]).unwrap());
    let [other, own] = mounts.each_ref().map(|mount| listing(&mount.path(), false));
    // Versions of mke2fs differ in what they do with access control lists, and with the root directory.
    let without_lists = |files: BTreeMap<PathBuf, String>| -> Vec<_> {
        files
            .into_iter()
            .filter(|(path, line)| !path.as_os_str().is_empty() && !line.contains("posix_acl"))
            .collect()
    };
    let own = without_lists(own);
    let other = without_lists(other);
    let paths: Vec<_> = own.iter().map(|(path, _)| path).collect();
    let other: Vec<_> = other
        .into_iter()
        .filter(|(path, _)| paths.contains(&path))
        .collect();
    assert_eq!(own, other);
}

#[test]
fn many_small_files_and_files_that_are_replaced_have_their_content() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    // The sizes are around those of a block and of the chunks in which an archive is read. The archive has each file of
    // `twice` two times; the second one, of another size, replaces the first one.
    sh(
        "cd \"$1\" && mkdir few twice && cd few
        n=0
        for size in 0 1 511 512 513 4095 4096 4097 12288 100000 262143 262144 262145 700001 3000000; do
            for copy in 1 2 3 4; do
                n=$((n + 1))
                head -c $((size + copy / 4)) /dev/urandom > \"$size-$copy\"
                head -c $n /dev/urandom > \"../twice/$size-$copy\"
            done
        done
        ln 4097-1 link && chmod 4755 513-1 && touch -d '2001-02-03 04:05:06.5' 512-1
        cd .. && tar --format=pax -cf ../twice.tar few twice
        for file in twice/*-*; do head -c 5000 /dev/urandom >> \"$file\"; done
        tar --format=pax -rf ../twice.tar twice",
        &[&fixture.path("tree")],
    );
    let tree = fixture.path("tree");
    for entry in fs::read_dir(&tree).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("few") && !path.ends_with("twice") {
            sh("rm -rf \"$1\"", &[&path]);
        }
    }
    let from_archive = created(&fixture, "archive.img", &["--from", "twice.tar"]);
    let from_directory = created(&fixture, "directory.img", &["--from", "tree"]);
    let both = ["--size", "100M", "--from", "tree", "--from", "twice.tar"];
    let from_both = created(&fixture, "both.img", &both);
    for image in [from_archive, from_directory, from_both] {
        let out = fixture.path("out");
        let source = format!("{}:/", image.display());
        larder_ok(["cp", "-r", &source, &out.display().to_string()].map(Path::new));
        for directory in ["few", "twice"] {
            let listed = listing(&out.join(directory), true);
            let expected = listing(&tree.join(directory), true);
            assert!(listed == expected, "{}: {directory}", image.display());
        }
        fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn archives_of_all_formats_have_the_same_files() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    add_files(&fixture);
    archive(&fixture, "pax.tar", PAX);
    let expected = created(&fixture, "pax.img", &["--from", "pax.tar"]);
    for (name, options) in [
        ("plain", "--format=pax"),
        ("0.0", "--format=pax -S --sparse-version=0.0"),
        ("0.1", "--format=pax -S --sparse-version=0.1"),
        ("1.0", "--format=pax -S --sparse-version=1.0"),
        ("gnu", "--format=gnu -S"),
        ("old", "--format=oldgnu -S"),
    ] {
        archive(&fixture, name, options);
        let image = created(&fixture, &format!("{name}.img"), &["--from", name]);
        let args = ["diff".as_ref(), expected.as_os_str(), image.as_os_str()];
        let output = text(&larder(args).stdout);
        for line in output.lines() {
            // Only pax.tar has the attributes of this file, among them a list that changes its permissions.
            assert!(
                line.ends_with(" /dir/empty") && line.contains("xattrs"),
                "{name}: {line}"
            );
        }
    }
}

#[test]
fn same_source_makes_the_same_bytes() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    add_files(&fixture);
    archive(&fixture, "tree.tar", PAX);
    for (source, size) in [("tree", "auto"), ("tree.tar", "auto"), ("tree.tar", "80M")] {
        let make = |name: &str, more: &[&str]| {
            let args = [&["--from", source, "--size", size][..], more].concat();
            let mut command = create_of(&fixture, name, &args);
            let output = command
                .env("SOURCE_DATE_EPOCH", "1700000000")
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            let image = fixture.path(name);
            let bytes = fs::read(&image).unwrap();
            fs::remove_file(image).unwrap();
            bytes
        };
        let first = make("first.img", &[]);
        // The superblock has times in whole seconds.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert!(make("second.img", &[]) == first, "{source}, {size}");
        let seed = "6c617264-6572-4000-8000-746573746b69";
        let other = make("other.img", &["--uuid", seed, "--hash-seed", seed]);
        assert!(
            other != first && other == make("same.img", &["--uuid", seed, "--hash-seed", seed])
        );
    }
    let output = create_of(&fixture, "x.img", &["--size", "8M"])
        .env("SOURCE_DATE_EPOCH", "today")
        .output();
    assert_fails(
        &output.unwrap(),
        2,
        &["SOURCE_DATE_EPOCH is not a time: today"],
    );
}

/// Makes an image from a pipe of one page, into which `archive` is written in pieces of irregular lengths. Returns its
/// bytes.
fn bytes_from_pipe(fixture: &Fixture, name: &str, archive: &Path, args: &[&str]) -> Vec<u8> {
    let (output, input) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    rustix::pipe::fcntl_setpipe_size(&input, 4096).unwrap();
    let mut input = fs::File::from(input);
    let child = create_of(fixture, name, &[&["--from", "-"], args].concat())
        .stdin(output)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let content = fs::read(archive).unwrap();
    let mut rest = &content[..];
    for number in 1.. {
        let (piece, next) = rest.split_at(rest.len().min(number * 7919 % 12_000 + 1));
        if piece.is_empty() {
            break;
        }
        input.write_all(piece).unwrap();
        rest = next;
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::read(fixture.path(name)).unwrap()
}

#[test]
fn pipe_makes_the_same_bytes_as_a_file() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    sh(
        "cd \"$1\" && for n in $(seq 40); do
            head -c $((n * 50021)) /dev/urandom > $n-large
            for m in 1 2 3 4 5 6 7; do head -c $((n * m * 311)) /dev/urandom > $n-$m; done
            head -c $n /dev/urandom > .wh.$n && head -c $((n * 20011)) /dev/urandom > .wh.$n-large
        done",
        &[&fixture.path("tree")],
    );
    let tar = archive(&fixture, "tree.tar", PAX);
    let args = ["--size", "128M"];
    let layers = ["--size", "128M", "--from", "tree/dir"];
    for (name, args) in [("one", &args[..]), ("layers", &layers[..])] {
        let from_file = created(&fixture, name, &[&["--from", "tree.tar"], args].concat());
        let expected = fs::read(from_file).unwrap();
        let piped = bytes_from_pipe(&fixture, &format!("{name}-piped"), &tar, args);
        assert!(piped == expected, "{name}");
    }
}

#[test]
fn holes_and_outside_links_of_the_host_do_not_change_the_image() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let tree = fixture.path("tree");
    // The holes begin and end inside blocks, and the files are small and large.
    sh(
        "cd \"$1\"
        for n in 1 4095 4096 4097 10000 100000 300000 5000000; do
            printf x > begin-$n && truncate -s $n begin-$n
            truncate -s $n end-$n && printf x >> end-$n
            head -c 9000 /dev/urandom > two-$n && truncate -s $((9000 + n)) two-$n && head -c 9000 /dev/urandom >> two-$n
            truncate -s $n zeros-$n
        done
        touch -d '2001-02-03 04:05:06.5' * dir dir/deep/deeper dir/deep .
        cp -a --sparse=never . ../full && cp -a --sparse=always . ../sparse && cp -al ../full ../links",
        &[&tree],
    );
    for size in ["auto", "200M"] {
        let image = |source: &str| {
            let image = created(&fixture, "x.img", &["--from", source, "--size", size]);
            let bytes = fs::read(&image).unwrap();
            fs::remove_file(image).unwrap();
            bytes
        };
        let expected = image("sparse");
        for source in ["tree", "full"] {
            assert!(image(source) == expected, "{source}, {size}");
        }
    }
    for (name, options) in [("full.tar", ""), ("sparse.tar", "-S")] {
        archive(&fixture, name, options);
        let image = created(&fixture, &format!("{name}.img"), &["--from", name]);
        let source = format!("{}:/end-5000000", image.display());
        let stat = larder_ok(["stat", "--json", &source].map(Path::new));
        let stat: serde_json::Value = serde_json::from_str(&stat).unwrap();
        assert_eq!(stat["blocks_512"], 8, "{name}: {stat}");
    }
}

#[test]
fn image_can_be_filled_to_its_last_blocks() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    sh(
        "mkdir \"$1/full\" && cd \"$1/full\" && for n in $(seq 205); do head -c 30000 /dev/urandom > $n; done",
        &[&fixture.path("")],
    );
    // In smaller images, tune2fs needs more space to add a journal than the journal takes.
    let args = ["--size", "100M", "--from"];
    let image = created(&fixture, "free.img", &[&args[..], &["full"]].concat());
    // Small files that are being written reserve more space for their mappings than this margin. All but one of them are
    // in full batches, so that they are being written when the space for the large file is short.
    let content = support::content(free_bytes(&image) - (48 << 10));
    fs::write(fixture.path("full/large"), content).unwrap();
    // The space is short when the first of two links is copied.
    fs::hard_link(fixture.path("full/large"), fixture.path("full/link")).unwrap();
    sh(
        "cd \"$1\" && tar -cf full.tar $(seq -f full/%g 205) full/large full/link",
        &[&fixture.path("")],
    );
    for source in ["full", "full.tar"] {
        let image = format!("{source}.img");
        let image = created(&fixture, &image, &[&args[..], &[source]].concat());
        let out = fixture.path(&format!("{source}.out"));
        let root = if source == "full" { "/" } else { "/full" };
        let root = format!("{}:{root}", image.display());
        larder_ok(["cp", "-r", &root, &out.display().to_string()].map(Path::new));
        for name in ["large", "link", "205"] {
            let [copy, content] = [&out, &fixture.path("full")].map(|at| fs::read(at.join(name)));
            assert!(copy.unwrap() == content.unwrap(), "{source}: {name}");
        }
    }
}

/// Returns the space that is free in an image, in bytes.
fn free_bytes(image: &Path) -> usize {
    let df = larder_ok(["df".as_ref(), "--json".as_ref(), image.as_os_str()]);
    let df: serde_json::Value = serde_json::from_str(&df).unwrap();
    usize::try_from(df["available_bytes"].as_u64().unwrap()).unwrap()
}

/// The content of small files is written together. If some of them do not fit, the command must fail, although files
/// after them fit.
#[test]
fn small_files_that_do_not_fit_fail_with_no_space() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    sh(
        "mkdir \"$1/full\" && cd \"$1/full\" && echo 1 > replaced && echo 2 > target && ln target other",
        &[&fixture.path("")],
    );
    let args = ["--size", "16M", "--type", "ext2", "--from"];
    let image = created(&fixture, "free.img", &[&args[..], &["full"]].concat());
    // Two of the small files fit, and later the last one.
    let content = support::content(free_bytes(&image) - (600 << 10));
    fs::write(fixture.path("full/large"), content).unwrap();
    // In the second archive, a link replaces a file whose content may not be in the image yet.
    sh(
        "cd \"$1/full\" && for n in 1 2 3 4; do head -c 250000 /dev/urandom > small-$n; done
        head -c 50000 /dev/urandom > small-last
        tar -cf ../full.tar target large small-*
        tar --transform 's/^other$/replaced/' -cf ../link.tar replaced target large small-? other",
        &[&fixture.path("")],
    );
    for source in ["full", "full.tar", "link.tar"] {
        let output = create(&fixture, "x.img", &[&args[..], &[source]].concat());
        assert_fails(&output, 1, &["no space", "--size"]);
        assert_nothing_left(&fixture, "x.img");
    }
}

#[test]
fn archive_on_standard_input_is_read_once_or_twice() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let tar = archive(&fixture, "tree.tar", PAX);
    let expected = created(&fixture, "expected.img", &["--from", "tree"]);
    for (name, size) in [("sized.img", "80M"), ("fitting.img", "auto")] {
        let mut child = create_of(&fixture, name, &["--from", "-", "--size", size])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&fs::read(&tar).unwrap()).unwrap();
        drop(input);
        assert!(child.wait().unwrap().success());
        assert_clean(&fixture.path(name));
        assert_no_differences(&["--times"], &expected, &fixture.path(name));
    }
}

#[test]
fn fitting_image_is_nearly_the_smallest_one() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let image = created(&fixture, "x.img", &["--from", "tree"]);
    let bytes = fs::metadata(&image).unwrap().len();
    assert!(bytes < 16 << 20, "{bytes}");
    larder_ok(["shrink".as_ref(), image.as_os_str()]);
    let smallest = fs::metadata(&image).unwrap().len();
    // resize2fs estimates the smallest size of a small image with a margin.
    assert!(
        bytes <= smallest + smallest / 10 + (1 << 20),
        "{bytes}, {smallest}"
    );
}

#[test]
fn empty_image_has_the_requested_size_type_and_label() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let uuid = "6c617264-6572-4000-8000-746573746b69";
    for (fs_type, has_journal) in [("ext2", false), ("ext3", true), ("ext4", true)] {
        let name = format!("{fs_type}.img");
        let args = [
            "--size", "64M", "--type", fs_type, "--label", "root", "--uuid", uuid,
        ];
        let image = created(&fixture, &name, &args);
        assert_eq!(fs::metadata(&image).unwrap().len(), 64 << 20);
        let text = superblock(&image).unwrap();
        assert_eq!(text.contains("has_journal"), has_journal, "{text}");
        assert!(text.contains(uuid) && text.contains("root"), "{text}");
        let info = larder_ok(["info".as_ref(), image.as_os_str()]);
        assert!(info.contains(fs_type), "{info}");
    }
    assert_fails(&create(&fixture, "x.img", &[]), 2, &["--size"]);
    let small = create(&fixture, "x.img", &["--size", "4M"]);
    assert_fails(&small, 1, &["--size is too small", "--type ext2"]);
}

#[test]
fn content_that_does_not_fit_names_the_option() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    fs::write(fixture.path("tree/random"), support::content(20 << 20)).unwrap();
    archive(&fixture, "tree.tar", PAX);
    for source in ["tree", "tree.tar"] {
        let output = create(&fixture, "x.img", &["--from", source, "--size", "16M"]);
        assert_fails(&output, 1, &["no space", "--size"]);
        assert_nothing_left(&fixture, "x.img");
    }
}

#[test]
fn file_that_exists_is_kept() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let before = fs::read(fixture.image()).unwrap();
    let output = create(&fixture, "image", &["--size", "8M"]);
    assert_fails(&output, 1, &["image exists", "remove it"]);
    assert!(fs::read(fixture.image()).unwrap() == before);
    for source in ["missing", "missing.tar"] {
        let output = create(&fixture, "x.img", &["--from", source]);
        assert_fails(&output, 1, &[source, "cannot read the source"]);
        assert_nothing_left(&fixture, "x.img");
    }
    // The unfinished image is below the source.
    let image = created(&fixture, "x.img", &["--from", ".", "--size", "128M"]);
    let plain = fixture.path("plain");
    fs::write(&plain, "").unwrap();
    let modes = [&image, &plain].map(|path| fs::metadata(path).unwrap().mode());
    assert_eq!(modes[0], modes[1]);
    let listed = larder_ok([Path::new("ls"), Path::new("-a"), &image]);
    assert!(listed.contains("tree"), "{listed}");
    assert!(!listed.contains("larder-create"), "{listed}");
}

#[test]
fn signal_removes_the_unfinished_image() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let mut child = create_of(&fixture, "x.img", &["--from", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // More than a pipe holds, so the command has begun to read.
    let mut input = child.stdin.take().unwrap();
    input.write_all(&vec![0; 1 << 20]).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    assert_nothing_left(&fixture, "x.img");
}
