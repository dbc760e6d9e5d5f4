//! The layer of paths: handles, iterators and errors. `fs_model` compares all operations with
//! `std::fs`, and `copy.rs` tests copies of trees.

mod opened;

use larder::fs::{Step, Walk};
use larder::{
    Advice, Errno, Error, FileKind, FileOptions, Fs, Ino, Metadata, NewFile, OpenOptions, SetTime,
    Timestamp, Volume,
};
use larder_testkit::{Requirement, e2fsprogs};
use opened::{Opened, opened, tools_are_missing};
use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

#[test]
fn file_is_readable_after_its_name_and_all_other_handles_are_dropped() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.write("/kept", "content").unwrap();
    let mut file = fs.open("/kept").unwrap();
    let free = fs.volume().statfs().free_files;
    fs.remove_file("/kept").unwrap();
    assert_eq!(fs.volume().statfs().free_files, free);
    assert_eq!(file.metadata().unwrap().links, 0);
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content, "content");
    drop(file);
    assert_eq!(fs.volume().statfs().free_files, free + 1);

    // A file is open until its last handle is dropped, even after the `Fs` is dropped.
    fs.write("/kept", "again").unwrap();
    let mut file = fs.open("/kept").unwrap();
    let image = opened.image();
    let Opened { fs, dir } = opened;
    drop(fs);
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content, "contentagain");
    drop(file);
    e2fsprogs::check(&image).unwrap();
    drop(dir);
}

#[test]
fn removed_directory_is_still_listed() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.create_dir_all("/a/b").unwrap();
    fs.create_dir_all("/a/c").unwrap();
    let listing = fs.read_dir("/a").unwrap();
    let mut walk = fs.walk("/a").unwrap();
    // The walk has read the names of both directories, and entered the first.
    let first = walk.next().unwrap().unwrap();
    let second = if first.file_name() == "b" { "c" } else { "b" };
    fs.remove_dir_all("/a").unwrap();
    // A new directory gets the inode number of `/a`, unless the listing holds it.
    fs.create_dir("/other").unwrap();
    fs.write("/other/file", "").unwrap();
    assert_eq!(listing.count(), 0);
    // The walk returns the name of the second directory, and then an error, because that directory is missing.
    assert_eq!(walk.next().unwrap().unwrap().file_name(), second);
    let error = walk.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let expected = format!("/a/{second}: ");
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert!(walk.next().is_none());
    // `first` and `walk` hold the removed directory.
    drop((first, walk));
    opened.check();
}

#[test]
fn large_directory_is_listed_once_while_its_entries_are_removed() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.create_dir("/d").unwrap();
    for number in 0..1000 {
        fs.write(format!("/d/{number}"), "").unwrap();
    }
    let mut count = 0;
    for entry in fs.read_dir("/d").unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.kind().unwrap(), FileKind::Regular);
        assert_eq!(entry.metadata().unwrap().ino, entry.ino());
        fs.remove_file(entry.path()).unwrap();
        let missing = entry.metadata().unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        count += 1;
    }
    assert_eq!(count, 1000);
    fs.remove_dir("/d").unwrap();
    opened.check();
}

#[test]
fn threads_that_share_a_handle_read_each_byte_once() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.write("/data", vec![1; 100_000]).unwrap();
    let file = fs.open("/data").unwrap();
    file.advise(0..100_000, Advice::Sequential);
    let total: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut total = 0;
                    loop {
                        match (&file).read(&mut [0; 100]).unwrap() {
                            0 => return total,
                            len => total += len,
                        }
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(total, 100_000);
    drop(file);
    opened.check();
}

#[test]
fn threads_that_share_a_handle_append_without_loss() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    let log = fs
        .open_with("/log", FileOptions::new().append(true).create(true))
        .unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    (&log).write_all(b"line\n").unwrap();
                    log.write_all_at(b"LINE\n", 0).unwrap();
                }
            });
        }
    });
    let content = fs.read_to_string("/log").unwrap();
    let lines: Vec<_> = content.lines().collect();
    assert_eq!(lines.len(), 800);
    assert!(lines.iter().all(|line| matches!(*line, "line" | "LINE")));
    drop(log);
    opened.check();
}

#[test]
fn threads_that_create_and_remove_the_same_name_never_get_another_file() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for _ in 0..100 {
                    fs.write("/shared", [b'x'; 10]).unwrap();
                    // A file with another name often has the inode number of a removed file.
                    let own = format!("/own-{thread}");
                    fs.write(&own, "own").unwrap();
                    match fs.read("/shared") {
                        Ok(content) => assert!(content.iter().all(|&byte| byte == b'x')),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                    }
                    match fs.remove_file("/shared") {
                        Ok(()) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                    }
                    assert_eq!(fs.read(&own).unwrap(), b"own");
                    fs.remove_file(&own).unwrap();
                }
            });
        }
    });
    opened.check();
}

#[test]
fn path_on_a_writable_image_is_resolved_once() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.create_dir_all("/a/b").unwrap();
    fs.write("/a/b/c", "").unwrap();
    let hits = || fs.volume().stats().dentry.hits;
    let before = hits();
    assert!(fs.metadata("/a/b/c").unwrap().is_file());
    assert_eq!(hits() - before, 3);
    opened.check();
}

#[test]
fn position_moves_by_reads_writes_and_seeks() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let options = FileOptions::new().read(true).write(true).create_new(true);
    let mut file = opened.fs.open_with("/f", options).unwrap();
    file.write_all(b"0123456789").unwrap();
    assert_eq!(file.stream_position().unwrap(), 10);
    assert_eq!(file.seek(SeekFrom::End(-4)).unwrap(), 6);
    let mut two = [0; 2];
    file.read_exact(&mut two).unwrap();
    assert_eq!((&two, file.stream_position().unwrap()), (b"67", 8));
    file.read_exact_at(&mut two, 1).unwrap();
    assert_eq!((&two, file.stream_position().unwrap()), (b"12", 8));
    let before_start = file.seek(SeekFrom::Current(-9)).unwrap_err();
    assert_eq!(before_start.kind(), ErrorKind::InvalidInput);
    assert_eq!(file.stream_position().unwrap(), 8);
    file.set_len(20).unwrap();
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"89\0\0\0\0\0\0\0\0\0\0");
    drop(file);
    opened.check();
}

#[test]
fn attributes_and_times_of_a_link_are_not_those_of_its_target() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.write("/file", "").unwrap();
    fs.symlink("file", "/link").unwrap();
    let time = |seconds| {
        let time = Timestamp {
            seconds,
            nanoseconds: 5,
        };
        Some(SetTime::To(time))
    };
    fs.set_times("/link", time(1), time(2)).unwrap();
    fs.set_times_nofollow("/link", time(3), time(4)).unwrap();
    fs.set_xattr("/link", "trusted.a", "target").unwrap();
    fs.set_xattr_nofollow("/link", "trusted.a", "link").unwrap();
    fs.set_xattr_nofollow("/link", "trusted.b", "").unwrap();
    let seconds = |metadata: Metadata| (metadata.accessed.seconds, metadata.modified.seconds);
    assert_eq!(seconds(fs.metadata("/link").unwrap()), (1, 2));
    assert_eq!(seconds(fs.symlink_metadata("/link").unwrap()), (3, 4));
    assert_eq!(fs.xattr("/link", "trusted.a").unwrap().unwrap(), b"target");
    let of_link = fs.xattr_nofollow("/link", "trusted.a").unwrap();
    assert_eq!(of_link.unwrap(), b"link");
    assert_eq!(fs.xattrs("/link").unwrap(), ["trusted.a"]);
    let mut names = fs.xattrs_nofollow("/link").unwrap();
    names.sort();
    assert_eq!(names, ["trusted.a", "trusted.b"]);
    fs.remove_xattr_nofollow("/link", "trusted.a").unwrap();
    assert_eq!(fs.xattrs("/link").unwrap(), ["trusted.a"]);
    assert_eq!(fs.xattrs_nofollow("/link").unwrap(), ["trusted.b"]);
    let refused = fs.set_xattr_nofollow("/link", "user.a", "").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    opened.check();
}

#[test]
fn image_opened_for_reading_refuses_changes() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let image = opened.image();
    opened.fs.write("/file", "x").unwrap();
    opened.fs.create_dir("/dir").unwrap();
    opened.fs.close().unwrap();
    let Opened { fs, dir } = opened;
    drop(fs);
    let fs = larder::open(image).unwrap();
    for (what, done) in [
        ("write", fs.write("/file", "y")),
        ("create", fs.write("/new", "y")),
        ("create_dir", fs.create_dir("/new")),
        ("remove_file", fs.remove_file("/file")),
        ("remove_dir_all", fs.remove_dir_all("/dir")),
        ("rename", fs.rename("/file", "/new")),
        ("hard_link", fs.hard_link("/file", "/new")),
        ("symlink", fs.symlink("/file", "/new")),
        ("set_permissions", fs.set_permissions("/file", 0)),
        ("set_xattr", fs.set_xattr("/file", "user.a", "1")),
        ("copy", fs.copy("/file", "/new").map(drop)),
    ] {
        let error = done.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::ReadOnlyFilesystem,
            "{what}: {error}"
        );
    }
    assert_eq!(fs.read("/file").unwrap(), b"x");
    drop(dir);
}

#[test]
fn root_directory_cannot_be_removed_or_replaced() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.create_dir("/dir").unwrap();
    fs.write("/file", "").unwrap();
    for (what, done, kind) in [
        ("create_dir", fs.create_dir("/"), ErrorKind::AlreadyExists),
        ("remove_file", fs.remove_file("/"), ErrorKind::IsADirectory),
        ("remove_dir", fs.remove_dir("//"), ErrorKind::ResourceBusy),
        (
            "remove_dir_all",
            fs.remove_dir_all("/"),
            ErrorKind::ResourceBusy,
        ),
        (
            "rename from",
            fs.rename("/", "/new"),
            ErrorKind::ResourceBusy,
        ),
        ("rename to", fs.rename("/dir", "/"), ErrorKind::ResourceBusy),
        ("symlink", fs.symlink("x", "/"), ErrorKind::AlreadyExists),
        ("write", fs.write("/", ""), ErrorKind::IsADirectory),
        ("open", fs.open("/").map(drop), ErrorKind::IsADirectory),
        (
            "slash after a file",
            fs.read("/file/").map(drop),
            ErrorKind::NotADirectory,
        ),
        ("empty path", fs.read("").map(drop), ErrorKind::NotFound),
        ("NUL", fs.read("/a\0b").map(drop), ErrorKind::InvalidInput),
    ] {
        assert_eq!(done.unwrap_err().kind(), kind, "{what}");
    }
    opened.check();
}

#[test]
fn error_contains_the_error_of_the_volume() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let error = opened.fs.read("/missing").unwrap_err();
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    assert!(matches!(inner, Some(Error::NotFound(path)) if path == "/missing"));
    opened.check();
}

#[test]
fn invalid_utf8_is_invalid_data() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    opened.fs.write("/bytes", [0xff]).unwrap();
    let error = opened.fs.read_to_string("/bytes").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    opened.check();
}

#[test]
fn owner_and_umask_of_new_files_can_be_set() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = opened.fs.clone().with_owner(7, 8).with_umask(0o077);
    fs.create_dir("/dir").unwrap();
    fs.write("/dir/file", "").unwrap();
    fs.symlink("file", "/dir/link").unwrap();
    for (path, permissions) in [("/dir", 0o700), ("/dir/file", 0o600), ("/dir/link", 0o777)] {
        let metadata = fs.symlink_metadata(path).unwrap();
        assert_eq!((metadata.uid, metadata.gid), (7, 8), "{path}");
        assert_eq!(metadata.permissions, permissions, "{path}");
    }
    drop(fs);
    opened.check();
}

#[test]
fn new_directory_inherits_the_group_and_has_no_set_id_bits_of_its_own() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.create_dir("/shared").unwrap();
    fs.chown("/shared", None, Some(1234)).unwrap();
    fs.set_permissions("/shared", 0o2775).unwrap();
    fs.create_dir_with("/shared/dir", 0o5770).unwrap();
    let metadata = fs.metadata("/shared/dir").unwrap();
    assert_eq!((metadata.permissions, metadata.gid), (0o3750, 1234));
    opened.check();
}

#[test]
fn link_with_a_slash_after_its_target_leads_only_to_a_directory() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.create_dir("/dir").unwrap();
    fs.write("/dir/file", "content").unwrap();
    for (target, link) in [
        ("dir/file/", "/to-file"),
        ("to-file", "/to-link"),
        ("dir//", "/to-dir"),
        ("/", "/to-root"),
    ] {
        fs.symlink(target, link).unwrap();
    }
    for path in ["/to-file", "/to-link"] {
        let kinds = [
            fs.read(path).unwrap_err().kind(),
            fs.metadata(path).unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::NotADirectory; 2], "{path}");
        assert!(fs.symlink_metadata(path).unwrap().is_symlink());
        let created = fs.write(path, "").unwrap_err();
        assert_eq!(created.kind(), ErrorKind::IsADirectory, "{path}");
    }
    for path in ["/to-dir/file", "/to-root/dir/file"] {
        assert_eq!(fs.read(path).unwrap(), b"content", "{path}");
    }
    assert!(fs.metadata("/to-dir").unwrap().is_dir());
    assert!(fs.metadata("/to-root").unwrap().is_dir());
    opened.check();
}

#[test]
fn error_of_an_image_that_begins_like_another_format_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    // A partition of type 0x83 in the last entry, and the end of a boot record.
    let partition = b"\0\0\0\0\x83\0\0\0\0\0\0\0\0\0\0\0\x55\xaa";
    let cases: [(usize, &[u8], &str); 4] = [
        (0, b"QFI\xfb", "a qcow2 image"),
        (494, partition, "a disk with partitions"),
        // The end of a boot sector, as that of a FAT file system.
        (510, b"\x55\xaa", "no magic number"),
        (0, b"", "no magic number"),
    ];
    for (at, magic, expected) in cases {
        let mut bytes = vec![0; 64 << 10];
        bytes[at..at + magic.len()].copy_from_slice(magic);
        fs::write(&image, bytes).unwrap();
        let error = larder::open(&image).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn volume_and_fs_show_the_same_files() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let volume: Arc<Volume> = Arc::clone(opened.fs.volume());
    let new = NewFile::new().permissions(0o640).owner(1, 2);
    let ino = volume.create(larder::Ino::ROOT, b"file", &new).unwrap().ino;
    let fs = Fs::new(volume);
    let metadata = fs.metadata("/file").unwrap();
    assert!(metadata.is_file() && !metadata.is_dir() && !metadata.is_symlink());
    assert_eq!((metadata.ino, metadata.permissions), (ino, 0o640));
    drop(fs);
    opened.check();
}

#[test]
fn name_that_leads_elsewhere_is_an_error_of_the_listing() {
    if tools_are_missing() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    let arguments = "-t ext4 -O ^has_journal,^metadata_csum";
    e2fsprogs::make_image(&image, arguments, "16M").unwrap();
    let fs = OpenOptions::new().read_write(true).open(&image).unwrap();
    fs.create_dir("/dir").unwrap();
    fs.write("/dir/NAMEx", "").unwrap();
    fs.close().unwrap();
    drop(fs);
    // Without checksums, the directory remains valid after a change of the name.
    let bytes = fs::read(&image).unwrap();
    let at = bytes
        .windows(5)
        .position(|window| window == b"NAMEx")
        .unwrap();
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(b"../ab", at as u64).unwrap();
    let fs = larder::open(&image).unwrap();
    let out = dir.path().join("out");
    let names: Vec<_> = fs.read_dir("/dir").unwrap().collect();
    assert!(names.iter().any(Result::is_err));
    assert!(fs.copy_out("/dir", &out).is_err());
    assert_eq!(fs::read_dir(out).unwrap().count(), 0);
}

#[test]
fn errors_contain_the_errno_of_the_system_call() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.write("/file", "").unwrap();
    let file = fs.open("/file").unwrap();
    let errno = |error: &io::Error| {
        let inner = error.get_ref().unwrap().downcast_ref::<Error>();
        inner.unwrap().errno()
    };
    for (result, expected) in [
        (fs.create_dir("/"), Errno::EXIST),
        (fs.remove_dir("/file/.."), Errno::NOTDIR),
        (fs.remove_file("/file\0"), Errno::INVAL),
        (fs.create_dir("x".repeat(256)), Errno::NAMETOOLONG),
        (file.read_at(&mut [0], u64::MAX).map(drop), Errno::INVAL),
        (file.write_at(&[0], 0).map(drop), Errno::BADF),
        (fs.copy_in("/proc/self/missing", "/copy"), Errno::NOENT),
    ] {
        let error = result.unwrap_err();
        assert_eq!(errno(&error), expected, "{error}");
    }
    let error = fs.copy_in("/proc/self/missing", "/copy").unwrap_err();
    assert!(
        error.to_string().starts_with("/proc/self/missing: "),
        "{error}"
    );
    drop(file);
    opened.check();
}

#[test]
fn walk_of_many_levels_takes_little_memory_and_stack() {
    const LEVELS: usize = 1800;
    const STACK_BYTES: usize = 64 << 10;
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let volume = opened.fs.volume();
    let mut directory = Ino::ROOT;
    for _ in 0..LEVELS {
        let made = volume.make_dir(directory, &[b'x'; 255], &NewFile::new());
        directory = made.unwrap().ino;
    }
    thread::scope(|scope| {
        let walk = || {
            let mut walk = opened.fs.walk("x".repeat(255)).unwrap();
            // The walk is dropped when it has entered all levels.
            let last = walk.nth(LEVELS - 2).unwrap().unwrap();
            assert_eq!(last.path().components().count(), LEVELS);
        };
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, walk).unwrap();
    });
    opened.check();
}

/// Returns the steps of a walk: the names of entries, `(` and `)` for the beginning and the end of a directory, and the
/// errors.
fn steps(mut walk: Walk, skipped: &str) -> Vec<String> {
    let mut steps = Vec::new();
    while let Some(step) = walk.step() {
        steps.push(match step {
            Ok(Step::Entry(entry)) => {
                if entry.file_name() == skipped {
                    walk.skip_directory();
                }
                entry.file_name().to_str().unwrap().to_owned()
            }
            Ok(Step::Entered) => "(".to_owned(),
            Ok(Step::Left) => ")".to_owned(),
            Err(error) => error.to_string(),
        });
    }
    steps
}

#[test]
fn sorted_walk_steps_through_directories_in_order() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    for directory in ["/top/b/deep", "/top/a", "/top/empty"] {
        fs.create_dir_all(directory).unwrap();
    }
    for number in (0..600).rev() {
        fs.write(format!("/top/a/{number:03}"), "").unwrap();
    }
    for file in ["/top/b/z", "/top/b/.hidden", "/top/c"] {
        fs.write(file, "").unwrap();
    }
    let walk = || fs.walk("/top").unwrap().sorted();
    let names = |walk: &Walk| -> Vec<String> {
        let names = walk.rest().map(|entry| entry.file_name().to_str().unwrap());
        names.map(str::to_owned).collect()
    };
    assert_eq!(names(&walk()), ["a", "b", "c", "empty"]);
    let mut expected = vec!["a".to_owned(), "(".to_owned()];
    expected.extend((0..600).map(|number| format!("{number:03}")));
    expected.extend(
        [
            ")", "b", "(", ".hidden", "deep", "(", ")", "z", ")", "c", "empty", "(", ")", ")",
        ]
        .map(str::to_owned),
    );
    assert_eq!(steps(walk(), ""), expected);
    let expected = ["a", "b", "(", ".hidden", "deep", "(", ")", "z", ")", "c"];
    assert_eq!(steps(walk(), "a")[..10], expected);
    // After the first entry, `rest` returns the siblings of the entry. After the next step, it returns the entries of
    // the directory.
    let mut walk = walk();
    walk.step().unwrap().unwrap();
    assert_eq!(names(&walk), ["b", "c", "empty"]);
    walk.step().unwrap().unwrap();
    assert_eq!(names(&walk).len(), 600);
    drop(walk);
    opened.check();
}

#[test]
fn walk_reports_a_directory_loop_and_continues() {
    if tools_are_missing() || larder_testkit::skip(&[Requirement::Tool("debugfs")]) {
        return;
    }
    let opened = opened();
    let image = opened.image();
    opened.fs.create_dir_all("/a/b").unwrap();
    opened.fs.create_dir("/c").unwrap();
    opened.fs.write("/z", "").unwrap();
    opened.fs.close().unwrap();
    drop(opened.fs);
    e2fsprogs::debugfs_write(&image, &["link a a/b/loop", "link c d"]).unwrap();
    let fs = larder::open(&image).unwrap();
    let steps = steps(fs.walk("/").unwrap().sorted(), "lost+found");
    let (ends, of_loop) = (steps[6].as_str(), steps[5].as_str());
    assert_eq!(steps[..5], ["a", "(", "b", "(", "loop"]);
    assert!(of_loop.starts_with("/a/b/loop: "), "{of_loop}");
    assert!(of_loop.ends_with("directory loop"), "{of_loop}");
    assert_eq!(ends, ")");
    assert_eq!(steps[7..12], [")", "c", "(", ")", "d"]);
    assert!(steps[12].starts_with("/d: "), "{}", steps[12]);
    assert!(steps[12].ends_with("two names"), "{}", steps[12]);
    assert_eq!(steps[13..], ["lost+found", "z", ")"]);
    // An iterator returns the same errors.
    let errors = fs.walk("/").unwrap().filter(Result::is_err).count();
    assert_eq!(errors, 2);
}
