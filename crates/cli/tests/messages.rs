//! Every failure that has its own message, with its hint and exit code.

mod support;

use larder::MbCacheVariant;
use larder_testkit::e2fsprogs::make_image;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use support::{
    Fixture, Mountpoint, User, assert_fails, can_make_images, can_mount, command, has_root, larder,
    larder_ok, text, tool,
};

#[test]
fn invalid_arguments_exit_with_two() {
    assert_eq!(larder(["frobnicate"]).status.code(), Some(2));
    assert_eq!(larder::<&str>([]).status.code(), Some(2));
    assert_fails(
        &larder(["ls", "--cache-size", "1.5G", "x"]),
        2,
        &["--cache-size", "is not a size"],
    );
    assert_fails(
        &larder(["mount", "-o", "threads=none", "x", "y"]),
        2,
        &["option threads"],
    );
    for (option, part) in [
        ("offset", "option offset needs a value"),
        ("sha256", "option sha256 needs a value"),
        ("offset=abc", "option offset"),
        (
            "offset=1M,partition=2",
            "error: options offset and partition cannot be used together",
        ),
        ("threads=0", "option threads"),
        ("cache_size=4k", "the minimum is 1M"),
        ("remount", "remounting is not supported"),
    ] {
        assert_fails(&larder(["mount", "-o", option, "x", "y"]), 2, &[part]);
    }
    assert_fails(
        &larder(["ls", "/tmp"]),
        1,
        &["is a directory", "IMAGE must be an image file"],
    );
}

#[test]
fn help_and_version_exit_with_zero() {
    for args in [
        &["--help"][..],
        &["--version"],
        &["mount", "--help"],
        &["help", "cp"],
    ] {
        let output = larder(args);
        assert!(output.status.success(), "{args:?}");
        assert!(text(&output.stdout).contains("larder"), "{args:?}");
    }
}

#[test]
fn unknown_mount_option_is_named() {
    let output = larder(["mount", "-o", "ro,frobnicate=1", "image", "/mnt"]);
    assert_fails(
        &output,
        2,
        &[
            "error: unknown mount option 'frobnicate=1'",
            "hint: larder mount --help",
        ],
    );
}

#[test]
fn unknown_table_lists_alternatives() {
    for (option, parts) in [
        (
            "tables=E",
            &["unknown tables 'E'; available: larder, reference, A"][..],
        ),
        (
            "tables=D+page=mlt",
            &["did you mean page-mult?", "\n  any    golden", "rbtree"],
        ),
        ("tabels=D", &["'tabels=D'; did you mean tables=?"]),
    ] {
        let output = larder(["mount", "-o", option, "image", "/mnt"]);
        assert_fails(&output, 2, parts);
        assert_fails(&output, 2, &["hint: larder mount --help"]);
    }
}

#[test]
fn cp_to_standard_output_hints_at_cat() {
    let output = larder(["cp", "x.img", "/etc/fstab", "-"]);
    assert_fails(&output, 2, &["standard output", "hint: use larder cat"]);
}

#[test]
fn wrong_forms_are_answered_with_the_right_ones() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let inside = format!("{}:/dir", image.display());
    let new = fixture.path("new.img").display().to_string();
    let image = image.display().to_string();
    for (args, parts) in [
        (
            &["find", &image, "-name", "*.conf"][..],
            &["unexpected argument '-name'", "write --name"][..],
        ),
        (
            &["find", &inside, "-type", "f"],
            &["unexpected argument '-type'", "write --type"],
        ),
        (
            &["create", &inside, "--size", "8M"],
            &["is a path in an image", "larder cp -r DIR"],
        ),
        (
            &["create", &new, "--from", &inside],
            &["is a path in an image", "larder export", "--from -"],
        ),
    ] {
        assert_fails(&larder(args), 2, parts);
    }
    let found = larder_ok(["find", &inside, "--name", "lar*"]);
    assert_eq!(found, "/dir/large\n");
}

#[test]
fn failure_at_path_names_path_without_inode() {
    if !can_make_images() || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let output = larder([
        "mkdir".as_ref(),
        fixture.image().as_os_str(),
        "/hello".as_ref(),
    ]);
    assert_fails(&output, 1, &["error: /hello: the name already exists"]);
    assert!(!text(&output.stderr).contains("inode"));
}

#[test]
fn unknown_readahead_policy_lists_alternatives() {
    for option in [["--readahead", "psychic"], ["-o", "ro,readahead=psychic"]] {
        let output = larder(["mount", option[0], option[1], "x.img", "/mnt"]);
        let wanted = [
            "psychic",
            "readahead",
            "off",
            "legacy",
            "ondemand",
            "modern",
        ];
        assert_fails(&output, 2, &wanted);
    }
}

#[test]
fn unknown_mbcache_variant_lists_alternatives() {
    let names = MbCacheVariant::ALL.map(MbCacheVariant::as_str);
    for program in ["larder", "mount.larder", "fuse2fs"] {
        let mut command = command(program, User::Same);
        if program == "larder" {
            command.arg("mount");
        }
        let output = command
            .args(["x.img", "/mnt", "-o", "rw,mbcache=psychic"])
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        assert!(!output.status.success(), "{program}: {stderr}");
        assert!(
            stderr.contains("error: option mbcache: unknown mbcache variant 'psychic'"),
            "{stderr}"
        );
        for name in names {
            assert!(stderr.contains(name), "{program}: {stderr}");
        }
    }
    let help = larder_ok(["mount", "--help"]);
    assert!(help.contains(&format!("mbcache={}", names.join("|"))));
    let default = format!("[default: {}]", MbCacheVariant::default());
    let (_, of_mbcache) = help.split_once("mbcache=").unwrap();
    let (of_mbcache, _) = of_mbcache.split_once("no_mbcache").unwrap();
    assert!(of_mbcache.contains(&default), "{of_mbcache}");
}

#[test]
fn path_through_file_is_reported() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let output = larder([
        "stat".as_ref(),
        fixture.image().as_os_str(),
        "/hello/x".as_ref(),
    ]);
    assert_fails(
        &output,
        1,
        &["/hello/x: part of the path is not a directory"],
    );
}

#[test]
fn missing_image_is_named() {
    let output = larder(["info", "/nonexistent/image"]);
    assert_fails(
        &output,
        1,
        &["error: image /nonexistent/image does not exist", "hint:"],
    );
}

#[test]
fn unreadable_image_is_named() {
    if !can_make_images() || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    fs::set_permissions(fixture.image(), fs::Permissions::from_mode(0o600)).unwrap();
    let output = command("larder", User::Nobody)
        .args(["info".as_ref(), fixture.image().as_os_str()])
        .output()
        .unwrap();
    assert_fails(
        &output,
        1,
        &[
            "error: no permission to read image",
            "hint: read permission is enough",
        ],
    );
}

#[test]
fn file_that_is_not_an_image_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    let output = larder(["info".as_ref(), file.as_os_str()]);
    assert_fails(
        &output,
        1,
        &["is not an ext2, ext3 or ext4 image", "hint:", "--offset"],
    );
}

#[test]
fn locked_image_is_named() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fs::File::options()
        .write(true)
        .open(fixture.image())
        .unwrap();
    rustix::fs::flock(&image, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let output = larder(["ls".as_ref(), fixture.image().as_os_str()]);
    assert_fails(
        &output,
        1,
        &[
            "error: image",
            "is in use by",
            "hint: the image is open for writing",
        ],
    );
}

#[test]
fn info_of_a_locked_image_says_that_it_is_in_use() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let other = fixture.path("other");
    fs::write(&other, [b"XFSB".as_slice(), &vec![0; 1 << 20]].concat()).unwrap();
    for image in [fixture.image(), other] {
        let info = |arguments: &[&str]| {
            let arguments = arguments.iter().map(OsStr::new);
            larder_ok(arguments.chain([image.as_os_str()]))
        };
        let json =
            || -> serde_json::Value { serde_json::from_str(&info(&["info", "--json"])).unwrap() };
        let free = info(&["info"]);
        assert!(!free.contains("In use"), "{free}");
        assert_eq!(json()["in_use"], false);
        let file = fs::File::options().write(true).open(&image).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let locked = info(&["info"]);
        let (first, others) = locked.split_once('\n').unwrap();
        assert!(
            first.starts_with("In use ") && first.contains("out of date"),
            "{first}"
        );
        assert_eq!(others, free);
        assert_eq!(json()["in_use"], true);
    }
}

#[test]
fn missing_path_is_named() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let output = larder([
        "stat".as_ref(),
        fixture.image().as_os_str(),
        "/dir/none".as_ref(),
    ]);
    assert_fails(
        &output,
        1,
        &["error: /dir/none: no such file or directory in the image"],
    );
}

#[test]
fn unusable_mount_points_have_distinct_errors() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mount = |mountpoint: &str| {
        larder([
            "mount".as_ref(),
            fixture.image().as_os_str(),
            fixture.path(mountpoint).as_os_str(),
        ])
    };
    assert_fails(
        &mount("none"),
        1,
        &["does not exist", "hint: create it: mkdir -p"],
    );
    assert_fails(&mount("tree/hello"), 1, &["is not a directory", "hint:"]);
    assert_fails(&mount("tree"), 1, &["is not empty", "-o nonempty"]);
}

#[test]
fn mount_point_in_use_is_reported() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let mount = |options: &str| {
        larder([
            "mount".as_ref(),
            "-o".as_ref(),
            options.as_ref(),
            fixture.image().as_os_str(),
            mountpoint.0.as_os_str(),
        ])
    };
    let first = mount("subtype=");
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert_fails(
        &mount("ro"),
        1,
        &[
            "is already a larder mount of",
            "hint: unmount it first: larder umount",
        ],
    );
}

#[test]
fn missing_fusermount_is_reported() {
    let name = "missing_fusermount_is_reported";
    if !can_mount(User::Nobody) || !has_root() || !support::in_own_namespace(name) {
        return;
    }
    // Hides fusermount3, because the usual directories are searched even if PATH does not contain
    // them.
    support::sh(
        "for dir in /usr/bin /bin /usr/local/bin; do
             test ! -f $dir/fusermount3 || mount --bind /dev/null $dir/fusermount3
         done",
        &[],
    );
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Nobody));
    let output = command("larder", User::Nobody)
        .env("PATH", "/nonexistent")
        .args([
            "mount".as_ref(),
            fixture.image().as_os_str(),
            mountpoint.0.as_os_str(),
        ])
        .output()
        .unwrap();
    assert_fails(
        &output,
        1,
        &[
            "fusermount3 was not found",
            "hint: install the package fuse3",
        ],
    );
}

#[test]
fn options_that_need_root_are_reported() {
    if !can_mount(User::Nobody) {
        return;
    }
    let fixture = Fixture::new();
    fixture.give_image(User::Nobody);
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Nobody));
    let mount = |options: &str| {
        command("larder", User::Nobody)
            .args([
                "mount".as_ref(),
                "-o".as_ref(),
                options.as_ref(),
                fixture.image().as_os_str(),
                mountpoint.0.as_os_str(),
            ])
            .output()
            .unwrap()
    };
    assert_fails(
        &mount("suid"),
        1,
        &["the option suid needs root", "hint: leave out -o suid"],
    );
    assert_fails(&mount("dev"), 1, &["the option dev needs root"]);
    let config = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if config.lines().any(|line| line.trim() == "user_allow_other") {
        larder_testkit::report_skipped("this system lets everyone use allow_other");
        return;
    }
    let refused = mount("allow_other");
    if support::is_fuse_open() {
        assert_fails(
            &refused,
            1,
            &["the option allow_other needs root", "user_allow_other"],
        );
    } else {
        assert_fails(&refused, 1, &["/dev/fuse"]);
    }
}

#[test]
fn missing_fuse_device_is_reported() {
    if !can_mount(User::Same)
        || !has_root()
        || !support::in_own_namespace("missing_fuse_device_is_reported")
    {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    support::sh(
        "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3",
        &[],
    );
    let output = larder([
        "mount".as_ref(),
        fixture.image().as_os_str(),
        mountpoint.0.as_os_str(),
    ]);
    assert_fails(
        &output,
        1,
        &["/dev/fuse does not exist", "hint:", "modprobe fuse"],
    );
}

#[test]
fn umount_of_unmounted_path_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let output = larder(["umount".as_ref(), dir.path().as_os_str()]);
    assert_fails(&output, 1, &["error:", "is not mounted"]);
    assert_fails(
        &larder(["umount", "/proc"]),
        1,
        &["is a mount of type proc, not a larder mount"],
    );
    assert_fails(
        &larder(["umount", "/nonexistent/x"]),
        1,
        &["does not exist"],
    );
}

#[test]
fn stats_of_other_file_system_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let output = larder(["stats".as_ref(), dir.path().as_os_str()]);
    assert_fails(&output, 1, &["is not mounted"]);
    assert_fails(&larder(["stats", "/proc"]), 1, &["not a larder mount"]);
}

#[test]
fn damaged_superblock_without_backup_is_reported_with_hint() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    // With one group, there is no backup superblock.
    let path = fixture.path("small.ext4");
    make_image(&path, "-t ext4", "4M").unwrap();
    let image = fs::File::options().write(true).open(&path).unwrap();
    // This value of s_log_block_size is far too large.
    std::os::unix::fs::FileExt::write_all_at(&image, &[0xff; 4], 1024 + 24).unwrap();
    let output = larder(["info".as_ref(), path.as_os_str()]);
    assert_fails(
        &output,
        1,
        &[
            "error:",
            "superblock",
            "hint: check the image with e2fsck -n",
        ],
    );
}

#[test]
fn truncated_image_is_not_a_panic() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    for size_bytes in [0, 1, 1024, 1500, 2048, 4096, 1 << 20] {
        fs::File::options()
            .write(true)
            .open(fixture.image())
            .unwrap()
            .set_len(size_bytes)
            .unwrap();
        for args in [&["info"][..], &["ls"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_larder"))
                .args(args)
                .arg(fixture.image())
                .output()
                .unwrap();
            assert!(
                matches!(output.status.code(), Some(0 | 1)),
                "{size_bytes}: {}",
                text(&output.stderr)
            );
        }
        if size_bytes == 0 {
            fixture.make_image("ext4", "");
        }
    }
    assert!(tool("mke2fs").exists());
}
