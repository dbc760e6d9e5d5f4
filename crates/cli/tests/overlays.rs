//! Changes that are kept in an overlay, and the commands of `larder overlay`.

mod support;

use larder::{Fs, JournalState, OpenOptions, RunPlace, Volume};
use larder_block::{BlockDevice, FileDevice, FileRange};
use larder_image::Overlay;
use larder_testkit::e2fsprogs::{debugfs, debugfs_write};
use larder_testkit::qemu::convert;
use larder_testkit::sfdisk::write_table;
use larder_testkit::tool::Tool;
use larder_testkit::{Requirement, skip};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::thread;
use support::{
    Fixture, Mountpoint, Server, User, assert_clean, assert_fails, block_bytes, can_make_images,
    can_mount, command, content, is_mounted, larder, larder_ok, new_names, signal, text, traced,
    wait_until,
};

const MIB: u64 = 1 << 20;
const QEMU: &[Requirement] = &[Requirement::Tool("qemu-img")];

/// An image, and an overlay that does not exist yet.
struct Overlaid {
    fixture: Fixture,
    overlay: PathBuf,
}

impl Overlaid {
    fn new() -> Self {
        let fixture = Fixture::new();
        let overlay = fixture.path("changes.qcow2");
        Self { fixture, overlay }
    }

    /// Creates the overlay, with a file of 8 MiB, `/file`.
    fn with_file() -> Self {
        let overlaid = Self::new();
        let source = overlaid.fixture.path("source");
        fs::write(&source, content(8 << 20)).unwrap();
        overlaid.put(&source, "/file");
        overlaid
    }

    /// Runs a subcommand on the image with the overlay. `arguments` follow the image.
    fn run(&self, subcommand: &str, arguments: &[&str]) -> Output {
        let mut command = command("larder", User::Same);
        command.arg(subcommand).arg("--overlay").arg(&self.overlay);
        command.arg(self.fixture.image()).args(arguments);
        command.output().unwrap()
    }

    #[track_caller]
    fn ok(&self, subcommand: &str, arguments: &[&str]) -> String {
        let output = self.run(subcommand, arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Copies `source` into the image at `path`.
    #[track_caller]
    fn put(&self, source: &Path, path: &str) {
        let mut put = command("larder", User::Same);
        put.arg("put")
            .arg("--overlay")
            .arg(&self.overlay)
            .arg(source);
        let target = format!("{}:{path}", self.fixture.image().display());
        let output = put.arg(target).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    /// Runs `larder overlay`. `arguments` follow the overlay.
    fn overlay(&self, subcommand: &str, arguments: &[&Path]) -> Output {
        let mut command = command("larder", User::Same);
        command.args(["overlay", subcommand]).arg(&self.overlay);
        command.args(arguments).output().unwrap()
    }

    #[track_caller]
    fn overlay_ok(&self, subcommand: &str, arguments: &[&Path]) -> String {
        let output = self.overlay(subcommand, arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Opens the overlay and the image for writing.
    fn devices(&self) -> (Arc<dyn BlockDevice>, Arc<dyn BlockDevice>) {
        let image = self.fixture.image();
        let base = FileDevice::open_writable(&image, FileRange::default()).unwrap();
        let max_bytes = Overlay::max_file_bytes(base.size_bytes()).unwrap();
        let file = FileDevice::open_growing(&self.overlay, max_bytes).unwrap();
        (Arc::new(file), Arc::new(base))
    }

    /// Begins a commit to the image, and interrupts it after 4 MiB. Returns the offset of the last byte that it would write.
    #[track_caller]
    fn interrupt_commit(&self) -> u64 {
        let image = fs::canonicalize(self.fixture.image()).unwrap();
        let before = fs::read(&image).unwrap();
        let (file, base) = self.devices();
        let disk = Overlay::open(Arc::clone(&file), Arc::clone(&base)).unwrap();
        let last = disk.changes().last().unwrap().end - 1;
        drop(disk);
        let name = image.clone();
        let commit = thread::spawn(move || {
            Overlay::commit(&file, &base, name.as_os_str().as_bytes(), |bytes, _| {
                assert!(bytes < 4 * MIB, "the commit is interrupted");
            })
        });
        assert!(commit.join().is_err(), "the commit was not interrupted");
        assert!(fs::read(&image).unwrap() != before, "nothing was written");
        last
    }

    fn mounted(&self, mountpoint: &Path, options: &str) -> Output {
        let mut mount = command("larder", User::Same);
        mount
            .args(["mount", "-o", options, "--overlay"])
            .arg(&self.overlay);
        mount
            .arg(self.fixture.image())
            .arg(mountpoint)
            .output()
            .unwrap()
    }

    /// Asserts that qemu-img finds no error in the overlay, and e2fsck none in the disk that qemu-img reads.
    #[track_caller]
    fn assert_clean(&self) {
        if skip(QEMU) {
            return;
        }
        let check = Tool::new("qemu-img").args(["check", "-q"]);
        check.arg(&self.overlay).run().unwrap();
        let converted = self.fixture.path("converted");
        let convert = Tool::new("qemu-img").args(["convert", "-O", "raw"]);
        convert.arg(&self.overlay).arg(&converted).run().unwrap();
        assert_clean(&converted);
    }
}

/// Unmounts, and waits until the server has ended.
fn umount(mountpoint: &Path) {
    larder_ok(["umount".as_ref(), mountpoint.as_os_str()]);
}

#[test]
fn changes_are_in_the_overlay_and_the_image_stays_as_it_is() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let image = overlaid.fixture.image();
    let before = fs::read(&image).unwrap();
    let source = overlaid.fixture.path("source");
    fs::write(&source, content(2 << 20)).unwrap();
    overlaid.ok("mkdir", &["/new"]);
    overlaid.put(&source, "/new/file");
    overlaid.ok("rm", &["/dir/large"]);
    assert_eq!(overlaid.ok("ls", &["/new"]), "file\n");
    let read = overlaid.run("cat", &["/new/file"]).stdout;
    assert!(read == content(2 << 20));
    assert_fails(&overlaid.run("cat", &["/dir/large"]), 1, &["/dir/large"]);
    assert!(fs::read(&image).unwrap() == before);
    let large = larder(["cat".as_ref(), image.as_os_str(), "/dir/large".as_ref()]);
    assert!(large.stdout == content(3 << 20));
    overlaid.assert_clean();
}

/// The overlay has no temporary name, so a process that is killed cannot leave a file with such a name.
#[test]
fn new_overlay_has_only_its_final_name() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let names = new_names(&overlaid.fixture.path(""), || {
        overlaid.ok("mkdir", &["/new"]);
    });
    assert_eq!(names, [c"changes.qcow2".to_owned()]);
}

#[test]
fn several_mounts_share_an_image_with_an_overlay_each() {
    if !can_mount(User::Same) {
        return;
    }
    let first = Overlaid::new();
    let fixture = &first.fixture;
    let mountpoints = ["one", "two"].map(|name| Mountpoint(fixture.directory(name, User::Same)));
    let [one, two] = &mountpoints;
    let output = first.mounted(&one.0, "rw");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_fails(
        &first.mounted(&two.0, "rw"),
        1,
        &["overlay", "changes.qcow2", "locked"],
    );
    let mut mount = command("larder", User::Same);
    let option = format!("overlay={}", fixture.path("second.qcow2").display());
    mount
        .args(["mount", "-o", &option])
        .arg(fixture.image())
        .arg(&two.0);
    let output = mount.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (mountpoint, text) in [(one, "one"), (two, "two")] {
        fs::write(mountpoint.0.join("hello"), text).unwrap();
        fs::write(mountpoint.0.join("new"), content(1 << 20)).unwrap();
    }
    umount(&one.0);
    umount(&two.0);
    assert_eq!(first.ok("cat", &["/hello"]), "one");
    let image = fixture.image();
    let hello = ["cat".as_ref(), image.as_os_str(), "/hello".as_ref()];
    assert_eq!(larder_ok(hello), "hello, larder\n");
    first.assert_clean();
    // Read-only mounts share the overlay, too.
    for mountpoint in &mountpoints {
        let output = first.mounted(&mountpoint.0, "ro");
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(fs::read(mountpoint.0.join("hello")).unwrap(), b"one");
        assert!(fs::write(mountpoint.0.join("hello"), "x").is_err());
    }
    umount(&one.0);
    umount(&two.0);
}

#[test]
fn read_only_command_does_not_create_an_overlay() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    assert_fails(
        &overlaid.run("ls", &["/"]),
        1,
        &["changes.qcow2", "No such file", "creates it"],
    );
    assert!(!overlaid.overlay.exists());
}

#[test]
fn refused_command_does_not_create_an_overlay() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let image = overlaid.fixture.image();
    let no_table = overlaid.run("mkdir", &["/x", "--partition", "1"]);
    assert_fails(&no_table, 1, &["has no partition table"]);
    assert!(!overlaid.overlay.exists());
    for (start, message) in [(&b"\x1f\x8b\x08"[..], "gzip"), (b"", "begins with zeros")] {
        let mut content = start.to_vec();
        content.resize(1 << 20, 0);
        fs::write(&image, content).unwrap();
        assert_fails(&overlaid.run("mkdir", &["/x"]), 1, &[message]);
        assert!(!overlaid.overlay.exists());
    }
}

#[test]
fn partition_of_a_disk_image_is_changed_in_an_overlay() {
    if skip(QEMU) || skip(&[Requirement::Tool("sfdisk")]) || !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let fixture = &overlaid.fixture;
    let raw = fixture.path("raw");
    let file = File::create(&raw).unwrap();
    file.set_len(50 * MIB).unwrap();
    write_table(
        &raw,
        "label: gpt\nstart=1MiB, size=7MiB, type=uefi\nstart=16MiB, size=32MiB, type=linux\n",
    )
    .unwrap();
    let image = fs::read(fixture.image()).unwrap();
    file.write_all_at(&image, 16 * MIB).unwrap();
    for (format, arguments) in [("raw", ""), ("qcow2", "-c"), ("vmdk", "")] {
        let disk = fixture.path("disk");
        convert(&raw, &disk, format, arguments).unwrap();
        let overlay = fixture.path(&format!("{format}.overlay"));
        let run = |subcommand: &str, path: &str| {
            let mut command = command("larder", User::Same);
            command.args([subcommand, "--partition", "2", "--overlay"]);
            command.arg(&overlay).arg(&disk).arg(path).output().unwrap()
        };
        for (subcommand, path) in [("mkdir", "/new"), ("rm", "/dir/large"), ("ls", "/new")] {
            let output = run(subcommand, path);
            assert!(
                output.status.success(),
                "{format}: {}",
                text(&output.stderr)
            );
        }
        // qemu reads the base in its format.
        let merged = fixture.path("merged");
        let convert = Tool::new("qemu-img").args(["convert", "-O", "raw"]);
        convert.arg(&overlay).arg(&merged).run().unwrap();
        let bytes = fs::read(&merged).unwrap();
        let start = usize::try_from(16 * MIB).unwrap();
        fs::write(&merged, &bytes[start..start + image.len()]).unwrap();
        assert_clean(&merged);
    }
}

#[test]
fn overlay_is_refused_if_its_base_has_changed() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let image = overlaid.fixture.image();
    overlaid.ok("mkdir", &["/new"]);
    larder_ok(["mkdir".as_ref(), image.as_os_str(), "/other".as_ref()]);
    let parts = [
        "changes.qcow2",
        "does not belong to this state",
        "it was created for",
    ];
    assert_fails(&overlaid.run("ls", &["/"]), 1, &parts);
    assert_fails(&overlaid.run("mkdir", &["/x"]), 1, &parts);
    assert_fails(&overlaid.overlay("commit", &[&image]), 1, &parts);
    // A file that is not an overlay stays as it is.
    fs::write(&overlaid.overlay, "precious").unwrap();
    assert_fails(&overlaid.run("mkdir", &["/x"]), 1, &["not an overlay"]);
    assert_fails(&overlaid.overlay("discard", &[]), 1, &["not an overlay"]);
    assert_eq!(fs::read(&overlaid.overlay).unwrap(), b"precious");
}

#[test]
fn overlay_is_refused_on_another_image_with_the_same_size_and_time() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let image = overlaid.fixture.image();
    overlaid.ok("mkdir", &["/new"]);
    let file = File::options().write(true).open(&image).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    // The UUID of another file system.
    file.write_all_at(&[7; 16], 1024 + 104).unwrap();
    file.set_modified(time).unwrap();
    let before = fs::read(&image).unwrap();
    let parts = ["changes.qcow2", "does not belong to this state", "CRC-32"];
    assert_fails(&overlaid.run("ls", &["/"]), 1, &parts);
    assert_fails(&overlaid.run("mkdir", &["/x"]), 1, &parts);
    assert_fails(&overlaid.overlay("commit", &[&image]), 1, &parts);
    assert!(fs::read(&image).unwrap() == before);
}

#[test]
fn base_is_opened_in_the_format_that_the_overlay_records() {
    if skip(QEMU) || !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let (image, plain) = (overlaid.fixture.image(), overlaid.fixture.path("plain"));
    // A guest has written a qcow2 image to the start of a raw disk.
    fs::copy(&image, &plain).unwrap();
    convert(&plain, &image, "qcow2", "").unwrap();
    let mut disk = fs::read(&image).unwrap();
    disk.resize(64 << 20, 0);
    disk.extend(fs::read(&plain).unwrap());
    fs::write(&image, disk).unwrap();
    let offset = ["--offset", "64M"];
    overlaid.ok("mkdir", &["/new", "--format", "raw", offset[0], offset[1]]);
    let names = overlaid.ok("ls", &["/", offset[0], offset[1]]);
    assert!(names.contains("new"), "{names}");
    let arguments = [&image, Path::new(offset[0]), Path::new(offset[1])];
    assert_eq!(overlaid.overlay_ok("diff", &arguments), "A /new/\n");
    let other = overlaid.run("ls", &["/", "--format", "qcow2"]);
    let parts = ["the format raw, and the given format is qcow2"];
    assert_fails(&other, 1, &parts);
    let commit = [&image, Path::new("--format"), Path::new("qcow2")];
    assert_fails(&overlaid.overlay("commit", &commit), 1, &parts);
    overlaid.overlay_ok("commit", &[&image]);
    let path = image.to_str().unwrap();
    let names = larder_ok(["ls", "--format", "raw", "--offset", "64M", path]);
    assert!(names.contains("new"), "{names}");
}

#[test]
fn base_that_was_converted_to_another_format_is_refused() {
    if skip(QEMU) || !can_make_images() {
        return;
    }
    for (format, other, message) in [
        ("qcow2", "raw", "the format qcow2, and"),
        ("raw", "qcow2", "(raw image, "),
    ] {
        let overlaid = Overlaid::new();
        let (image, plain) = (overlaid.fixture.image(), overlaid.fixture.path("plain"));
        fs::copy(&image, &plain).unwrap();
        convert(&plain, &image, format, "").unwrap();
        overlaid.ok("mkdir", &["/new"]);
        convert(&plain, &image, other, "").unwrap();
        assert_fails(&overlaid.run("ls", &["/"]), 1, &["changes.qcow2", message]);
    }
}

#[test]
fn overlay_as_an_image_is_explained() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    overlaid.ok("mkdir", &["/new"]);
    let output = larder(["ls".as_ref(), overlaid.overlay.as_os_str()]);
    assert_fails(&output, 1, &["is an overlay", "--overlay", "image"]);
}

#[test]
fn name_of_the_base_in_an_overlay_is_never_opened() {
    if skip(QEMU) || skip(&[Requirement::Tool("strace")]) || !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let image = fs::canonicalize(overlaid.fixture.image()).unwrap();
    // A file that only the user can read. Its path is as long as that of the image.
    let name = image.file_name().unwrap();
    let secret = image.with_file_name("s".repeat(name.len()));
    let content = vec![b'x'; 1 << 20];
    fs::write(&secret, &content).unwrap();
    overlaid.ok("mkdir", &["/new"]);
    let mut bytes = fs::read(&overlaid.overlay).unwrap();
    let [old, new] = [&image, &secret].map(|path| path.as_os_str().as_bytes());
    let at = bytes.windows(old.len()).position(|window| window == old);
    let at = at.unwrap();
    bytes[at..at + old.len()].copy_from_slice(new);
    fs::write(&overlaid.overlay, &bytes).unwrap();
    let hostile = overlaid.fixture.path("hostile.qcow2");
    let create = Tool::new("qemu-img").args(["create", "-q", "-f", "qcow2", "-u", "-F", "raw"]);
    let create = create.arg("-b").arg(&secret).arg(&hostile);
    create.arg("32M").run().unwrap();
    let [option, of_larder, of_qemu, image] =
        [Path::new("--overlay"), &overlaid.overlay, &hostile, &image].map(Path::as_os_str);
    let [ls, root, overlay, diff, commit] =
        ["ls", "/", "overlay", "diff", "commit"].map(OsStr::new);
    for (arguments, is_ok) in [
        (&[ls, of_larder][..], false),
        (&[ls, option, of_qemu, image, root], false),
        (&[overlay, commit, of_qemu, image], false),
        (&[ls, option, of_larder, image, root], true),
        (&[overlay, diff, of_larder, image], true),
        (&[overlay, commit, of_larder, image], true),
    ] {
        let (trace, output) = traced(arguments);
        let messages = text(&output.stderr);
        assert_eq!(output.status.success(), is_ok, "{arguments:?}: {messages}");
        assert!(trace.contains("openat"), "{trace}");
        assert!(!trace.contains(secret.to_str().unwrap()), "{trace}");
    }
    assert!(fs::read(&secret).unwrap() == content);
}

#[test]
fn diff_lists_what_has_changed_by_path() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let image = overlaid.fixture.image();
    overlaid.ok("mkdir", &["-p", "/new/deep"]);
    assert_eq!(
        overlaid.overlay_ok("diff", &[&image]),
        "A /new/\nA /new/deep/\n"
    );
    overlaid.ok("rm", &["-r", "/dir/deep"]);
    overlaid.ok("mv", &["/link", "/moved"]);
    let source = overlaid.fixture.path("source");
    // The size is the same.
    fs::write(&source, "Hello, larder\n").unwrap();
    overlaid.put(&source, "/hello");
    let expected =
        "D /dir/deep/\nD /dir/deep/deeper/\nM /hello\nD /link\nA /moved\nA /new/\nA /new/deep/\n";
    assert_eq!(overlaid.overlay_ok("diff", &[&image]), expected);
    let json = overlaid.overlay_ok("diff", &["--json".as_ref(), &image]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let changes = json["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 7);
    assert_eq!(changes[2]["change"], "modified");
    assert_eq!(changes[2]["name"], "/hello");
}

#[test]
fn diff_continues_after_a_file_that_cannot_be_compared() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let image = overlaid.fixture.image();
    debugfs_write(&image, &["set_inode_field /dir/large block[0] 0"]).unwrap();
    overlaid.ok("mkdir", &["/new"]);
    overlaid.ok("rm", &["/sparse"]);
    let output = overlaid.overlay("diff", &[&image]);
    assert_fails(&output, 2, &["/dir/large: "]);
    assert_eq!(text(&output.stdout), "A /new/\nD /sparse\n");
    let output = overlaid.overlay("diff", &["--json".as_ref(), &image]);
    assert_fails(&output, 2, &["/dir/large: "]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["changes"].as_array().unwrap().len(), 2);
}

/// After a crash, the journal in the overlay is replayed in memory. Other blocks equal those of the image.
#[test]
fn content_is_known_to_be_unchanged_although_the_journal_needs_recovery() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    overlaid.ok("mkdir", &["/new"]);
    let image = overlaid.fixture.image();
    let base: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(&image, FileRange::default()).unwrap());
    let open = |path: &Path, options: &OpenOptions| {
        let max_bytes = Overlay::max_file_bytes(base.size_bytes()).unwrap();
        let file = FileDevice::open_growing(path, max_bytes).unwrap();
        let disk = Overlay::open(Arc::new(file), Arc::clone(&base)).unwrap();
        Volume::open_device(Arc::new(disk), options).unwrap()
    };
    let writing = Fs::new(open(
        &overlaid.overlay,
        &OpenOptions::new().read_write(true),
    ));
    writing.create_dir("/other").unwrap();
    writing.sync_all().unwrap();
    let crashed = overlaid.fixture.path("crashed.qcow2");
    fs::copy(&overlaid.overlay, &crashed).unwrap();
    drop(writing);

    let volume = open(&crashed, &OpenOptions::new());
    let journal = volume.info().journal;
    assert!(
        matches!(journal, JournalState::Recovered { .. }),
        "{journal:?}"
    );
    assert!(volume.resolve(b"/other").is_ok());
    let large = volume.resolve(b"/dir/large").unwrap();
    let (mut at_bytes, mut unchanged_bytes) = (0, 0);
    while at_bytes < 3 * MIB {
        let run = volume.file_run(large, at_bytes).unwrap();
        if let RunPlace::Disk {
            is_unchanged: true, ..
        } = run.place
        {
            unchanged_bytes += run.end_bytes - at_bytes;
        }
        at_bytes = run.end_bytes;
    }
    assert!(unchanged_bytes > 2 * MIB, "{unchanged_bytes} bytes");
}

/// A program can set the times of a file, and a write in place changes neither its size nor its blocks.
#[test]
fn diff_finds_content_that_was_changed_without_a_change_of_metadata() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let image = overlaid.fixture.image();
    overlaid.ok("mkdir", &["/new"]);
    let block = debugfs(&image, "bmap /dir/large 700").unwrap();
    let block: u64 = block.trim().parse().unwrap();
    let block_bytes = block_bytes(&image);
    let base: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(&image, FileRange::default()).unwrap());
    let write = |bytes: &[u8]| {
        let max_bytes = Overlay::max_file_bytes(base.size_bytes()).unwrap();
        let file = FileDevice::open_growing(&overlaid.overlay, max_bytes).unwrap();
        let disk = Overlay::open(Arc::new(file), Arc::clone(&base)).unwrap();
        disk.write_at(bytes, block * block_bytes + 5).unwrap();
        disk.flush().unwrap();
    };
    write(b"changed");
    let expected = "M /dir/large\nA /new/\n";
    assert_eq!(overlaid.overlay_ok("diff", &[&image]), expected);
    // The overlay has the original content.
    let at = usize::try_from(700 * block_bytes + 5).unwrap();
    write(&content(3 << 20)[at..at + 7]);
    assert_eq!(overlaid.overlay_ok("diff", &[&image]), "A /new/\n");
}

#[test]
fn commit_writes_the_changes_to_the_image() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let image = overlaid.fixture.image();
    overlaid.ok("mkdir", &["/new"]);
    overlaid.ok("rm", &["/dir/large"]);
    overlaid.overlay_ok("commit", &[&image]);
    assert!(!overlaid.overlay.exists());
    let list = ["ls".as_ref(), image.as_os_str(), "/".as_ref()];
    assert!(larder_ok(list).contains("new"));
    assert_clean(&image);
}

#[test]
fn interrupted_commit_is_completed_by_a_second_one() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::with_file();
    let image = overlaid.fixture.image();
    overlaid.interrupt_commit();
    let parts = ["its commit was interrupted", "larder overlay commit"];
    assert_fails(&overlaid.run("ls", &["/"]), 1, &parts);
    assert_fails(&overlaid.run("mkdir", &["/x"]), 1, &parts);
    overlaid.overlay_ok("commit", &[&image]);
    assert!(!overlaid.overlay.exists());
    assert_clean(&image);
    let read = larder(["cat".as_ref(), image.as_os_str(), "/file".as_ref()]);
    assert!(read.stdout == content(8 << 20));
}

#[test]
fn interrupted_commit_is_completed_after_the_image_was_renamed() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::with_file();
    let image = overlaid.fixture.image();
    overlaid.interrupt_commit();
    let renamed = overlaid.fixture.path("renamed");
    fs::rename(&image, &renamed).unwrap();
    // Another image of the same size has the name.
    overlaid.fixture.make_image("ext4", "");
    let other = fs::read(&image).unwrap();
    let output = overlaid.overlay("commit", &[&image]);
    assert_fails(&output, 1, &["is another image", "restore the image"]);
    assert!(fs::read(&image).unwrap() == other);
    // While an image has the recorded name, another one may be a copy of it.
    let output = overlaid.overlay("commit", &[&renamed]);
    assert_fails(&output, 1, &["its commit was interrupted"]);
    fs::remove_file(&image).unwrap();
    overlaid.overlay_ok("commit", &[&renamed]);
    assert_clean(&renamed);
    let read = larder(["cat".as_ref(), renamed.as_os_str(), "/file".as_ref()]);
    assert!(read.stdout == content(8 << 20));
}

#[test]
fn overlay_is_removed_by_a_second_commit_if_the_first_one_did_not_remove_it() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::with_file();
    let image = fs::canonicalize(overlaid.fixture.image()).unwrap();
    let other = overlaid.fixture.path("other");
    fs::copy(&image, &other).unwrap();
    let (file, base) = overlaid.devices();
    Overlay::commit(&file, &base, image.as_os_str().as_bytes(), |_, _| ()).unwrap();
    drop((file, base));
    let committed = fs::read(&image).unwrap();
    // This image does not have the changes.
    let output = overlaid.overlay("commit", &[&other]);
    assert_fails(&output, 1, &["committed already"]);
    // An image that was restored from a copy does not have the changes either.
    fs::copy(&other, &image).unwrap();
    let output = overlaid.overlay("commit", &[&image]);
    assert_fails(&output, 1, &["committed already"]);
    assert!(overlaid.overlay.exists());
    fs::write(&image, &committed).unwrap();
    let output = overlaid.overlay_ok("commit", &[&image]);
    assert!(output.contains("has its changes already"), "{output}");
    assert!(!overlaid.overlay.exists());
    assert!(fs::read(&image).unwrap() == committed);
}

#[test]
fn overlay_with_an_interrupted_commit_is_discarded_only_by_force() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::with_file();
    overlaid.interrupt_commit();
    let parts = [
        "its commit was interrupted",
        "the others would be lost",
        "larder overlay commit",
        "--force",
    ];
    assert_fails(&overlaid.overlay("discard", &[]), 1, &parts);
    assert!(overlaid.overlay.exists());
    overlaid.overlay_ok("discard", &[Path::new("--force")]);
    assert!(!overlaid.overlay.exists());
}

#[test]
fn interrupted_commit_is_not_continued_on_an_image_that_was_changed_since() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::with_file();
    let image = overlaid.fixture.image();
    let original = fs::read(&image).unwrap();
    let last = overlaid.interrupt_commit();
    let left = fs::read(&image).unwrap();
    let file = File::options().write(true).open(&image).unwrap();
    // The first byte is in the superblock, which e2fsck could have changed. The last one is after more than 8 MiB of
    // changes.
    for at in [1024 + 120, last] {
        let index = usize::try_from(at).unwrap();
        file.write_all_at(&[!left[index]], at).unwrap();
        let changed = fs::read(&image).unwrap();
        let output = overlaid.overlay("commit", &[&image]);
        let place = format!("was changed at byte {},", at / 512 * 512);
        assert_fails(&output, 1, &["restore the image", &place, "discard"]);
        assert!(fs::read(&image).unwrap() == changed);
        file.write_all_at(&[left[index]], at).unwrap();
    }
    // The image from before the commit has none of the changes, so all of them can be written.
    fs::write(&image, original).unwrap();
    overlaid.overlay_ok("commit", &[&image]);
    assert_clean(&image);
    let read = larder(["cat".as_ref(), image.as_os_str(), "/file".as_ref()]);
    assert!(read.stdout == content(8 << 20));
}

#[test]
fn truncated_overlay_is_named_with_what_to_do() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::with_file();
    let image = overlaid.fixture.image();
    let before = fs::read(&image).unwrap();
    let file = File::options().write(true).open(&overlaid.overlay);
    let file = file.unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    for output in [
        overlaid.run("ls", &["/"]),
        overlaid.run("mkdir", &["/new"]),
        overlaid.overlay("diff", &[&image]),
        overlaid.overlay("commit", &[&image]),
    ] {
        let parts = [
            "error: overlay ",
            "changes.qcow2: it is truncated",
            "restore the overlay from a copy",
            "larder overlay discard",
        ];
        assert_fails(&output, 1, &parts);
    }
    overlaid.overlay_ok("discard", &[]);
    assert!(fs::read(&image).unwrap() == before);
}

#[test]
fn overlay_with_a_damaged_header_can_be_discarded() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    overlaid.ok("mkdir", &["/new"]);
    let file = File::options().write(true).open(&overlaid.overlay);
    // The number of snapshots.
    file.unwrap().write_all_at(&[1], 63).unwrap();
    let parts = ["its header is invalid", "larder overlay discard --force"];
    assert_fails(&overlaid.run("ls", &["/"]), 1, &parts);
    assert_fails(
        &overlaid.overlay("discard", &[]),
        1,
        &["its header is invalid", "--force"],
    );
    overlaid.overlay_ok("discard", &["--force".as_ref()]);
    assert!(!overlaid.overlay.exists());
}

#[test]
fn image_and_state_of_an_overlay_are_shown() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::with_file();
    let image = fs::canonicalize(overlaid.fixture.image()).unwrap();
    let info = overlaid.overlay_ok("info", &[]);
    for (key, value) in [
        ("Image", image.to_str().unwrap()),
        ("Format", "raw"),
        ("Size", "32.0 MiB"),
        ("Commit", "none"),
    ] {
        let row = format!("{key:<14} {value}\n");
        assert!(info.contains(&row), "{row}{info}");
    }
    let json = || -> serde_json::Value {
        let json = overlaid.overlay_ok("info", &[Path::new("--json")]);
        serde_json::from_str(&json).unwrap()
    };
    assert_eq!(json()["name"], image.to_str().unwrap());
    assert_eq!(json()["size_bytes"], 32 * MIB);
    assert!(json()["stored_bytes"].as_u64().unwrap() > 8 * MIB);
    assert_eq!(json()["commit"], "none");
    overlaid.interrupt_commit();
    assert_eq!(json()["commit"], "interrupted");
    let info = overlaid.overlay_ok("info", &[]);
    assert!(info.contains("only a part of the changes"), "{info}");
}

#[test]
fn overlay_that_is_in_use_is_described() {
    if !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    overlaid.ok("mkdir", &["/new"]);
    let free = overlaid.ok("info", &[]);
    let lock = FileDevice::open_writable(&overlaid.overlay, FileRange::default()).unwrap();
    let locked = overlaid.ok("info", &[]);
    let (first, others) = locked.split_once('\n').unwrap();
    assert!(first.starts_with("In use "), "{first}");
    assert_eq!(others, free);
    overlaid.overlay_ok("info", &[]);
    assert_fails(&overlaid.run("ls", &["/"]), 1, &["locked"]);
    drop(lock);
    assert_eq!(overlaid.ok("info", &[]), free);
}

#[test]
fn commit_into_a_disk_image_names_what_helps() {
    if skip(QEMU) || !can_make_images() {
        return;
    }
    let overlaid = Overlaid::new();
    let disk = overlaid.fixture.path("disk.qcow2");
    convert(&overlaid.fixture.image(), &disk, "qcow2", "").unwrap();
    let mut mkdir = command("larder", User::Same);
    mkdir.arg("mkdir").arg("--overlay").arg(&overlaid.overlay);
    assert!(
        mkdir
            .arg(&disk)
            .arg("/new")
            .output()
            .unwrap()
            .status
            .success()
    );
    let output = overlaid.overlay("commit", &[&disk]);
    assert_fails(&output, 1, &["qcow2", "--to URL"]);
}

#[test]
fn discard_removes_an_overlay_that_is_not_in_use() {
    if !can_mount(User::Same) {
        return;
    }
    let overlaid = Overlaid::new();
    let mountpoint = Mountpoint(overlaid.fixture.directory("mnt", User::Same));
    let output = overlaid.mounted(&mountpoint.0, "rw");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_fails(&overlaid.overlay("discard", &[]), 1, &["locked"]);
    umount(&mountpoint.0);
    overlaid.overlay_ok("discard", &[]);
    assert!(!overlaid.overlay.exists());
}

#[test]
fn synced_content_survives_a_killed_server() {
    if !can_mount(User::Same) {
        return;
    }
    let overlaid = Overlaid::new();
    let mountpoint = Mountpoint(overlaid.fixture.directory("mnt", User::Same));
    for round in 0..5_usize {
        let mut mount = command("larder", User::Same);
        mount
            .args(["mount", "-f", "--overlay"])
            .arg(&overlaid.overlay);
        mount.arg(overlaid.fixture.image()).arg(&mountpoint.0);
        let child = mount
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the mount", || is_mounted(&mountpoint.0));
        let mut server = Server(child);
        let path = |name: &str| mountpoint.0.join(name);
        for earlier in 0..round {
            let read = fs::read(path(&format!("synced-{earlier}"))).unwrap();
            assert!(read == content(300_000 + earlier), "round {round}");
        }
        let file = File::create(path(&format!("synced-{round}"))).unwrap();
        file.write_all_at(&content(300_000 + round), 0).unwrap();
        file.sync_all().unwrap();
        fs::write(path("unsynced"), content(500_000)).unwrap();
        signal(&server, Signal::KILL);
        server.0.wait().unwrap();
        drop(file);
        umount(&mountpoint.0);
    }
    // Opening it for writing recovers the journal.
    overlaid.ok("mkdir", &["/recovered"]);
    overlaid.assert_clean();
}
