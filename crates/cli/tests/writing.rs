//! Writable mounts: what programs can do, the state of the image afterwards, and the exclusion of
//! other programs that open the image.

mod support;

use larder_testkit::e2fsprogs::{debugfs_write, superblock};
use rustix::process::Signal;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{
    Fixture, Mountpoint, Server, User, assert_clean, assert_fails, binary, can_mount, command,
    content, has_root, in_own_namespace, is_mounted, larder_ok, mount, mount_line, ready, run,
    serve, sh, signal, text, tool, umount, wait_until,
};

fn cat(fixture: &Fixture, path: &str) -> String {
    larder_ok(["cat".as_ref(), fixture.image().as_os_str(), path.as_ref()])
}

#[test]
fn written_files_are_on_image_after_umount() {
    let Some((fixture, at)) = ready() else {
        return;
    };
    let path = |name: &str| at.0.join(name);
    mount(User::Same, &fixture, &at.0, "rw");
    fs::create_dir(path("new")).unwrap();
    fs::write(path("new/large"), content(5 << 20)).unwrap();
    fs::hard_link(path("new/large"), path("second")).unwrap();
    symlink("new/large", path("pointer")).unwrap();
    fs::write(path("hello"), "changed\n").unwrap();
    fs::remove_file(path("dir/large")).unwrap();
    fs::rename(path("dir/deep"), path("new/moved")).unwrap();
    fs::set_permissions(path("hello"), Permissions::from_mode(0o600)).unwrap();
    let sparse = File::options().write(true).open(path("sparse")).unwrap();
    sparse.set_len(100 << 20).unwrap();
    sparse.write_all_at(b"end", (100 << 20) - 3).unwrap();
    drop(sparse);
    assert!(fs::read(path("new/large")).unwrap() == content(5 << 20));
    umount(User::Same, &at.0);
    assert_clean(&fixture.image());

    assert_eq!(cat(&fixture, "/hello"), "changed\n");
    let listed = larder_ok(["ls".as_ref(), fixture.image().as_os_str(), "/new".as_ref()]);
    assert_eq!(listed, "large\nmoved\n");
    mount(User::Same, &fixture, &at.0, "ro");
    assert!(fs::read(path("second")).unwrap() == content(5 << 20));
    assert_eq!(fs::metadata(path("second")).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(path("pointer")).unwrap().len(), 5 << 20);
    let sparse = fs::metadata(path("sparse")).unwrap();
    assert!(sparse.len() == 100 << 20 && sparse.blocks() < 100);
    assert_eq!(fs::metadata(path("hello")).unwrap().mode() & 0o777, 0o600);
    umount(User::Same, &at.0);
}

#[test]
fn second_mount_of_a_written_image_is_refused_and_names_the_first() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let second = Mountpoint(fixture.directory("second", User::Same));
    let server = serve(&fixture, &mountpoint.0, "rw");
    for options in ["rw", "ro"] {
        let refused = run(
            User::Same,
            &[
                "mount".as_ref(),
                "-o".as_ref(),
                options.as_ref(),
                fixture.image().as_ref(),
                second.0.as_ref(),
            ],
        );
        let holder = format!("is in use by process {} (larder)", server.0.id());
        assert_fails(
            &refused,
            1,
            &["error: image", &holder, "hint:", "larder umount"],
        );
    }
    umount(User::Same, &mountpoint.0);
    drop(server);
    // Readers share the image. While they have mounted it, no program can open the image for writing.
    mount(User::Same, &fixture, &mountpoint.0, "ro");
    mount(User::Same, &fixture, &second.0, "ro");
    let put = command("larder", User::Same)
        .args(["mkdir".as_ref(), fixture.image().as_os_str(), "/x".as_ref()])
        .output()
        .unwrap();
    assert_fails(&put, 1, &["is in use by process"]);
    umount(User::Same, &second.0);
    umount(User::Same, &mountpoint.0);
}

#[test]
fn info_of_an_image_that_is_mounted_for_writing_agrees_with_dumpe2fs() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let image = fixture.image();
    let info = || -> serde_json::Value {
        let json = larder_ok(["info".as_ref(), "--json".as_ref(), image.as_os_str()]);
        serde_json::from_str(&json).unwrap()
    };
    mount(User::Same, &fixture, &mountpoint.0, "rw");
    fs::write(mountpoint.0.join("before"), content(1 << 20)).unwrap();
    let mounted = info();
    let dumped = superblock(&image).unwrap();
    let uuid = mounted["uuid"].as_str().unwrap();
    assert!(dumped.contains(uuid), "{dumped}");
    assert_eq!(mounted["in_use"], true);
    let at = mountpoint.0.to_str().unwrap();
    assert_eq!(mounted["mounts"][0]["mountpoint"], at);
    // The mount is not affected.
    fs::write(mountpoint.0.join("after"), content(1 << 20)).unwrap();
    umount(User::Same, &mountpoint.0);
    assert_eq!(info()["in_use"], false);
    assert_clean(&image);
}

#[test]
fn image_that_may_not_be_written_hints_at_ro() {
    if !can_mount(User::Nobody) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Nobody));
    let refused = run(
        User::Nobody,
        &[
            "mount".as_ref(),
            "-orw".as_ref(),
            fixture.image().as_ref(),
            mountpoint.0.as_ref(),
        ],
    );
    assert_fails(
        &refused,
        1,
        &["error: no permission to write image", "hint:", "-o ro"],
    );
}

#[test]
fn removed_file_is_kept_while_open() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    mount(User::Same, &fixture, &mountpoint.0, "rw");
    let path = mountpoint.0.join("removed");
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.write_all(&content(1 << 20)).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    // Another file uses the name and the free space.
    fs::write(&path, "another").unwrap();
    let mut read = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut read).unwrap();
    assert!(read == content(1 << 20));
    drop(file);
    umount(User::Same, &mountpoint.0);
    assert_clean(&fixture.image());
    assert_eq!(cat(&fixture, "/removed"), "another");
}

#[test]
fn deleted_file_frees_space_while_mounted() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    mount(User::Same, &fixture, &mountpoint.0, "commit=1");
    let free = || rustix::fs::statvfs(&mountpoint.0).unwrap().f_bfree;
    let path = mountpoint.0.join("new");
    fs::write(&path, content(8 << 20)).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    let before = free();
    fs::remove_file(&path).unwrap();
    // The file is deleted when the kernel forgets it, which is at a time of the kernel's choice.
    wait_until("free space", || free() > before);
    umount(User::Same, &mountpoint.0);
    assert_clean(&fixture.image());
}

#[test]
fn set_id_bits_are_cleared_when_another_user_writes() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    mount(User::Same, &fixture, &mountpoint.0, "allow_other");
    let path = mountpoint.0.join("set-id");
    let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
    for (script, expected) in [
        ("echo x >> \"$1\"", 0o777),
        ("truncate -s 1 \"$1\"", 0o777),
        ("fallocate -l 9999 \"$1\"", 0o777),
        ("cat \"$1\"", 0o6777),
    ] {
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
        let done = Command::new(tool("setpriv"))
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .args(["sh", "-c", script, "sh"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(mode(), expected, "{script}");
    }
    fs::set_permissions(&path, Permissions::from_mode(0o6755)).unwrap();
    std::os::unix::fs::chown(&path, Some(5), Some(6)).unwrap();
    assert_eq!(mode(), 0o755);
    umount(User::Same, &mountpoint.0);
    assert_clean(&fixture.image());
}

#[test]
fn synced_changes_survive_killed_server() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let mut server = serve(&fixture, &mountpoint.0, "rw");
    let path = |name: &str| mountpoint.0.join(name);
    for round in 0..40 {
        let file = File::create(path(&format!("synced-{round}"))).unwrap();
        (&file).write_all(&content(10_000 + round)).unwrap();
        if round % 2 == 0 {
            file.sync_all().unwrap();
        }
        fs::create_dir(path(&format!("dir-{round}"))).unwrap();
        let _ = fs::remove_file(path(&format!("synced-{}", round.wrapping_sub(9))));
    }
    File::open(&mountpoint.0).unwrap().sync_all().unwrap();
    fs::write(path("unsynced"), content(3 << 20)).unwrap();
    signal(&server, Signal::KILL);
    server.0.wait().unwrap();
    umount(User::Same, &mountpoint.0);

    mount(User::Same, &fixture, &mountpoint.0, "rw");
    for round in (0..40).filter(|round| round % 2 == 0 && *round > 30) {
        let read = fs::read(path(&format!("synced-{round}"))).unwrap();
        assert!(read == content(10_000 + round), "{round}");
    }
    umount(User::Same, &mountpoint.0);
    assert_clean(&fixture.image());
}

#[test]
fn synchronous_mount_has_names_and_attributes_durable_when_the_call_returns() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let path = |name: &str| mountpoint.0.join(name);
    let image = fixture.image();
    for (name, change) in [
        ("mkdir", "mkdir \"$1/made\""),
        ("create", ": > \"$1/created\""),
        ("symlink", "ln -s hello \"$1/pointer\""),
        ("link", "ln \"$1/hello\" \"$1/second\""),
        ("rename", "mv \"$1/created\" \"$1/made/renamed\""),
        ("setattr", "chmod 600 \"$1/hello\""),
        ("write", "echo written > \"$1/hello\""),
        ("rmdir", "mkdir \"$1/removed\"; rmdir \"$1/removed\""),
        ("unlink", "rm \"$1/second\""),
    ] {
        // The interval is so long that no transaction is committed because of its age.
        let mut server = serve(&fixture, &mountpoint.0, "rw,sync,commit=900");
        sh(change, &[&mountpoint.0]);
        signal(&server, Signal::KILL);
        server.0.wait().unwrap();
        umount(User::Same, &mountpoint.0);
        mount(User::Same, &fixture, &mountpoint.0, "ro");
        match name {
            "mkdir" => assert!(path("made").is_dir()),
            "create" => assert!(path("created").is_file()),
            "symlink" => assert!(path("pointer").is_symlink()),
            "link" => assert!(path("second").is_file()),
            "rename" => assert!(path("made/renamed").is_file() && !path("created").exists()),
            "setattr" => assert_eq!(fs::metadata(path("hello")).unwrap().mode() & 0o777, 0o600),
            "write" => assert_eq!(fs::read(path("hello")).unwrap(), b"written\n"),
            "rmdir" => assert!(!path("removed").exists()),
            _ => assert!(!path("second").exists()),
        }
        umount(User::Same, &mountpoint.0);
    }
    mount(User::Same, &fixture, &mountpoint.0, "rw");
    umount(User::Same, &mountpoint.0);
    assert_clean(&image);
}

#[test]
fn flags_are_set_and_free_space_is_trimmed_through_a_mount() {
    if larder_testkit::skip(&["chattr", "fstrim"].map(larder_testkit::Requirement::Tool)) {
        return;
    }
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    mount(User::Same, &fixture, &mountpoint.0, "rw");
    let hello = mountpoint.0.join("hello");
    sh("chattr +i \"$1\"", &[&hello]);
    for result in [
        fs::remove_file(&hello),
        fs::write(&hello, "x"),
        fs::set_permissions(&hello, Permissions::from_mode(0o600)),
    ] {
        let error = result.unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::PermissionDenied,
            "{error}"
        );
    }
    sh("chattr -i +d \"$1\"", &[&hello]);
    fs::write(&hello, "again\n").unwrap();
    let blocks = || fs::metadata(fixture.image()).unwrap().blocks();
    fs::write(mountpoint.0.join("filler"), content(8 << 20)).unwrap();
    sh(
        "sync \"$1\"; rm \"$1\"; sync \"$2\"",
        &[&mountpoint.0.join("filler"), &hello],
    );
    let before = blocks();
    wait_until("space given back", || {
        sh("fstrim \"$1\"", &[&mountpoint.0]);
        blocks() + (7 << 20) / 512 < before
    });
    umount(User::Same, &mountpoint.0);
    assert_clean(&fixture.image());
    assert_eq!(cat(&fixture, "/hello"), "again\n");
}

#[test]
fn journal_cannot_be_changed_through_a_name() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    debugfs_write(&fixture.image(), &["ln <8> journal"]).unwrap();
    mount(User::Same, &fixture, &mountpoint.0, "rw");
    let path = mountpoint.0.join("journal");
    for result in [
        fs::write(&path, "x"),
        File::options().write(true).open(&path).and_then(|file| {
            (&file).write_all(b"x")?;
            file.sync_all()
        }),
        fs::set_permissions(&path, Permissions::from_mode(0o777)),
        fs::remove_file(&path),
    ] {
        let error = result.unwrap_err();
        // The errno is `EUCLEAN`, or `EIO` if the kernel has collected the write.
        assert!(matches!(error.raw_os_error(), Some(117 | 5)), "{error}");
    }
    umount(User::Same, &mountpoint.0);
    debugfs_write(&fixture.image(), &["unlink journal"]).unwrap();
    assert_clean(&fixture.image());
}

#[test]
fn fuse2fs_arguments_are_accepted() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    // As apptainer calls it: in the foreground, with the image inside a larger file.
    let larger = fixture.path("larger");
    sh(
        "head -c 1048576 /dev/zero > \"$2\"; cat \"$1\" >> \"$2\"",
        &[&fixture.image(), &larger],
    );
    let child = Command::new(binary())
        .arg0("/usr/bin/fuse2fs")
        .args([
            "-f",
            "-o",
            "rw,fakeroot,offset=1048576,allow_other,no_default_opts",
        ])
        .args([&larger, &mountpoint.0])
        .env_remove("LARDER_LOG")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = Server(child);
    wait_until("the mount", || is_mounted(&mountpoint.0));
    let line = mount_line(&mountpoint.0).unwrap();
    assert!(line.contains(" - fuse.ext4 "), "{line}");
    assert!(!line.contains("default_permissions"), "{line}");
    // All users may do everything, and own what they create.
    let done = Command::new(tool("setpriv"))
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args([
            "sh",
            "-ec",
            "echo x > \"$1/dir/deep/new\"; chown 7:8 \"$1/hello\"",
            "sh",
        ])
        .arg(&mountpoint.0)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let made = fs::metadata(mountpoint.0.join("dir/deep/new")).unwrap();
    assert_eq!((made.uid(), made.gid()), (65534, 65534));
    let given = fs::metadata(mountpoint.0.join("hello")).unwrap();
    assert_eq!((given.uid(), given.gid()), (7, 8));
    sh("fusermount3 -u \"$1\"", &[&mountpoint.0]);
    assert!(server.0.wait().unwrap().success());
    sh(
        "tail -c +1048577 \"$2\" > \"$1\"",
        &[&fixture.image(), &larger],
    );
    assert_clean(&fixture.image());

    // In the background, and read-only.
    let done = Command::new(binary())
        .arg0("fuse2fs")
        .args([fixture.image(), mountpoint.0.clone()])
        .args(["-o", "ro,allow_other"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(mount_line(&mountpoint.0).unwrap().contains(" ro,"));
    umount(User::Same, &mountpoint.0);
    let refused = Command::new(binary())
        .arg0("fuse2fs")
        .args([fixture.path("none"), mountpoint.0.clone()])
        .output()
        .unwrap();
    assert_fails(&refused, 32, &["does not exist"]);
}

#[test]
fn mount_is_the_upper_layer_of_an_overlay() {
    let name = "mount_is_the_upper_layer_of_an_overlay";
    if !can_mount(User::Same) || !has_root() || !in_own_namespace(name) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let merged = Mountpoint(fixture.directory("merged", User::Same));
    mount(User::Same, &fixture, &mountpoint.0, "suid,dev");
    let (upper, work) = (mountpoint.0.join("upper"), mountpoint.0.join("work"));
    fs::create_dir(&upper).unwrap();
    fs::create_dir(&work).unwrap();
    sh(
        "mount -t overlay overlay -o \"lowerdir=$1,upperdir=$2,workdir=$3\" \"$4\"",
        &[&fixture.path("tree"), &upper, &work, &merged.0],
    );
    fs::write(merged.0.join("hello"), "copied up\n").unwrap();
    fs::remove_file(merged.0.join("dir/large")).unwrap();
    fs::remove_dir_all(merged.0.join("dir/deep")).unwrap();
    fs::create_dir(merged.0.join("dir/deep")).unwrap();
    fs::rename(merged.0.join("sparse"), merged.0.join("dir/sparse")).unwrap();
    let names = |path: &Path| {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        names(&merged.0.join("dir")),
        ["again", "deep", "empty", "sparse"]
    );
    assert_eq!(fs::read(merged.0.join("hello")).unwrap(), b"copied up\n");
    rustix::mount::unmount(&merged.0, rustix::mount::UnmountFlags::empty()).unwrap();
    umount(User::Same, &mountpoint.0);
    assert_clean(&fixture.image());
    assert_eq!(cat(&fixture, "/upper/hello"), "copied up\n");
    let whiteout = larder_ok([
        "stat".as_ref(),
        fixture.image().as_os_str(),
        "/upper/dir/large".as_ref(),
    ]);
    assert!(whiteout.contains("Device: 0, 0"), "{whiteout}");
}
