//! Creation, links, removal and renames, and what becomes of files without names.

use larder::{
    DeviceNumber, Error, FileKind, Ino, Make, Metadata, NewFile, OpenOptions, RenameFlags,
    SetAttributes, Volume,
};
use larder_block::{BlockDevice, MemoryDevice};
use larder_testkit::e2fsprogs::{check_bytes, new_image};
use larder_testkit::seed::{Random, Seed};
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

const NEW: NewFile = NewFile {
    permissions: 0o755,
    umask: 0o022,
    uid: 1000,
    gid: 100,
};

/// Layouts that differ in how names and orphans are stored.
const LAYOUTS: [&str; 6] = [
    "-t ext4 -b 1024",
    "-t ext4 -b 4096 -O inline_data,orphan_file",
    "-t ext4 -b 4096 -O ^has_journal,^metadata_csum",
    "-t ext4 -b 1024 -O bigalloc -C 8192",
    "-t ext3 -b 1024 -I 128",
    "-t ext2 -b 2048",
];

/// Returns an image of 32 MiB that mke2fs created. If mke2fs or e2fsck is missing, prints this and
/// returns `None`.
fn image(arguments: &str) -> Option<Vec<u8>> {
    image_of(arguments, "32M")
}

fn image_of(arguments: &str, size: &str) -> Option<Vec<u8>> {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return None;
    }
    Some(new_image(arguments, size).expect("image"))
}

fn open(bytes: Vec<u8>) -> (Volume, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    let shared: Arc<dyn BlockDevice> = device.clone();
    let volume = Volume::open_device(shared, &options).expect("writable volume");
    (volume, device)
}

/// Closes the volume. Panics with the errors that e2fsck finds.
fn close(volume: Volume, device: &MemoryDevice, what: &str) {
    volume.close().expect("closed");
    drop(volume);
    check_bytes(&device.to_bytes()).unwrap_or_else(|error| panic!("{what}: {error}"));
}

fn errno<T>(result: Result<T, Error>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

fn names(volume: &Volume, dir: Ino) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    volume
        .read_dir(dir, 0, &mut |entry| {
            names.insert(String::from_utf8_lossy(entry.name).into_owned());
            ControlFlow::Continue(())
        })
        .expect("listing");
    assert!(names.remove(".") && names.remove(".."));
    names
}

fn dir(volume: &Volume, parent: Ino, name: &str) -> Ino {
    let made = volume.make_dir(parent, name.as_bytes(), &NEW);
    made.expect("directory").ino
}

fn file(volume: &Volume, parent: Ino, name: &str) -> Ino {
    let made = volume.create(parent, name.as_bytes(), &NEW);
    made.expect("file").ino
}

fn links(volume: &Volume, ino: Ino) -> u32 {
    volume.metadata(ino).expect("inode").links
}

#[test]
fn created_file_of_each_kind_has_the_requested_attributes() {
    for layout in LAYOUTS {
        let Some(bytes) = image(layout) else { return };
        let (volume, device) = open(bytes);
        let root = Ino::ROOT;
        let group = dir(&volume, root, "group");
        let shared = SetAttributes {
            permissions: Some(0o2775),
            gid: Some(77),
            ..SetAttributes::default()
        };
        volume.set_attributes(group, &shared).expect("attributes");
        let null = Some(DeviceNumber { major: 1, minor: 3 });
        let wide = Some(DeviceNumber {
            major: 300,
            minor: 70_000,
        });
        let made: [(&str, FileKind, Option<DeviceNumber>); 5] = [
            ("regular", FileKind::Regular, None),
            ("fifo", FileKind::Fifo, None),
            ("socket", FileKind::Socket, None),
            ("null", FileKind::CharDevice, null),
            ("disk", FileKind::BlockDevice, wide),
        ];
        for (name, kind, device) in made {
            let metadata: Metadata = volume
                .make(group, name.as_bytes(), Make::Node { kind, device }, &NEW)
                .expect(name);
            assert_eq!((metadata.kind, metadata.links), (kind, 1), "{name}");
            assert_eq!((metadata.uid, metadata.gid), (1000, 77), "{name}");
            assert_eq!(metadata.permissions, 0o755, "{name}");
        }
        let below = volume.make_dir(group, b"below", &NEW).expect("directory");
        assert_eq!((below.permissions, below.gid), (0o2755, 77));
        assert_eq!((below.links, links(&volume, group)), (2, 3));
        for len in [1, 59, 60, 100, 1000] {
            let target = "t".repeat(len);
            let name = format!("link-{len}");
            let made = volume.symlink(group, name.as_bytes(), target.as_bytes(), &NEW);
            let made = made.expect("link");
            assert_eq!(made.size_bytes, len as u64);
            assert_eq!(volume.read_link(made.ino).unwrap(), target.as_bytes());
        }
        assert_eq!(names(&volume, group).len(), 11);
        close(volume, &device, &format!("{layout:?}"));
        let (again, _) = open(device.to_bytes());
        let group = again.lookup(root, b"group").expect("kept");
        let disk = again.lookup(group, b"disk").expect("kept");
        let disk = again.metadata(disk).unwrap();
        assert_eq!((disk.rdev_major, disk.rdev_minor), (300, 70_000));
        let link = again.lookup(group, b"link-1000").expect("kept");
        assert_eq!(again.read_link(link).unwrap(), "t".repeat(1000).as_bytes());
    }
}

#[test]
fn operation_that_is_not_allowed_fails_with_its_errno_and_changes_nothing() {
    let Some(bytes) = image(LAYOUTS[0]) else {
        return;
    };
    let (volume, device) = open(bytes);
    let root = Ino::ROOT;
    let (a, b) = (dir(&volume, root, "a"), dir(&volume, root, "b"));
    let c = dir(&volume, a, "c");
    let f = file(&volume, root, "f");
    file(&volume, b, "in-b");
    let rename = |from, name: &str, to, new: &str, flags| {
        errno(volume.rename(from, name.as_bytes(), to, new.as_bytes(), flags))
    };
    let plain = RenameFlags::empty();
    let long = "n".repeat(256);
    let table = [
        (errno(volume.create(root, b"f", &NEW)), Errno::EXIST),
        (errno(volume.create(root, b".", &NEW)), Errno::EXIST),
        (errno(volume.create(f, b"x", &NEW)), Errno::NOTDIR),
        (
            errno(volume.create(root, long.as_bytes(), &NEW)),
            Errno::NAMETOOLONG,
        ),
        (errno(volume.create(root, b"", &NEW)), Errno::INVAL),
        (errno(volume.link(a, root, b"x")), Errno::PERM),
        (errno(volume.link(f, root, b"a")), Errno::EXIST),
        (errno(volume.unlink(root, b"a")), Errno::ISDIR),
        (errno(volume.unlink(root, b"none")), Errno::NOENT),
        (errno(volume.remove_dir(root, b"f")), Errno::NOTDIR),
        (errno(volume.remove_dir(root, b"a")), Errno::NOTEMPTY),
        (errno(volume.remove_dir(root, b".")), Errno::INVAL),
        (errno(volume.remove_dir(a, b"..")), Errno::NOTEMPTY),
        (rename(root, "none", root, "x", plain), Errno::NOENT),
        (rename(root, "a", c, "x", plain), Errno::INVAL),
        (rename(root, "a", a, "x", plain), Errno::INVAL),
        (rename(a, "c", root, "a", plain), Errno::NOTEMPTY),
        (rename(root, "a", root, "f", plain), Errno::NOTDIR),
        (rename(root, "f", root, "a", plain), Errno::ISDIR),
        (rename(root, "a", root, "b", plain), Errno::NOTEMPTY),
        (
            rename(root, "f", b, "in-b", RenameFlags::NOREPLACE),
            Errno::EXIST,
        ),
        (
            rename(root, "f", b, "x", RenameFlags::EXCHANGE),
            Errno::NOENT,
        ),
        (
            rename(a, "c", root, "a", RenameFlags::EXCHANGE),
            Errno::INVAL,
        ),
        (
            rename(
                root,
                "f",
                root,
                "b",
                RenameFlags::EXCHANGE | RenameFlags::NOREPLACE,
            ),
            Errno::INVAL,
        ),
        (
            rename(
                root,
                "f",
                root,
                &long,
                RenameFlags::EXCHANGE | RenameFlags::NOREPLACE,
            ),
            Errno::INVAL,
        ),
        (rename(a, ".", root, "x", plain), Errno::BUSY),
        (rename(root, "f", f, "x", plain), Errno::NOTDIR),
    ];
    for (number, (found, expected)) in table.into_iter().enumerate() {
        assert_eq!(found, Some(expected), "row {number}");
    }
    assert_eq!(
        names(&volume, root),
        ["a", "b", "f", "lost+found"].map(str::to_owned).into()
    );
    close(volume, &device, "errnos");
}

#[test]
fn symlink_target_that_is_too_long_is_refused_with_the_maximum() {
    let Some(bytes) = image(LAYOUTS[0]) else {
        return;
    };
    let (volume, device) = open(bytes);
    let failure = volume.symlink(Ino::ROOT, b"s", &[b't'; 1024], &NEW);
    let failure = failure.unwrap_err();
    assert_eq!(failure.errno(), Errno::NAMETOOLONG);
    let expected = "target of a symbolic link is longer than 1023 bytes";
    assert_eq!(failure.to_string(), expected);
    close(volume, &device, "refused link");
}

#[test]
fn file_that_is_immutable_or_append_only_keeps_its_names() {
    const IMMUTABLE: u32 = 0x10;
    const APPEND: u32 = 0x20;
    let Some(bytes) = image(LAYOUTS[0]) else {
        return;
    };
    let (volume, device) = open(bytes);
    let d = dir(&volume, Ino::ROOT, "d");
    let fixed = file(&volume, d, "fixed");
    file(&volume, d, "free");
    let plain = RenameFlags::empty();
    let set = |ino: Ino, flag: u32| {
        let flags = volume.metadata(ino).expect("inode").flags & !(IMMUTABLE | APPEND);
        volume.set_flags(ino, flags | flag).expect("flags");
    };
    for flag in [IMMUTABLE, APPEND] {
        set(fixed, flag);
        assert_eq!(errno(volume.unlink(d, b"fixed")), Some(Errno::PERM));
        assert_eq!(errno(volume.link(fixed, d, b"x")), Some(Errno::PERM));
        assert_eq!(
            errno(volume.rename(d, b"fixed", d, b"x", plain)),
            Some(Errno::PERM)
        );
        assert_eq!(
            errno(volume.rename(d, b"free", d, b"fixed", plain)),
            Some(Errno::PERM)
        );
        set(fixed, 0);
    }
    set(d, APPEND);
    file(&volume, d, "more");
    assert_eq!(errno(volume.unlink(d, b"more")), Some(Errno::PERM));
    assert_eq!(
        errno(volume.rename(d, b"more", d, b"x", plain)),
        Some(Errno::PERM)
    );
    set(d, IMMUTABLE);
    assert_eq!(errno(volume.create(d, b"x", &NEW)), Some(Errno::PERM));
    assert_eq!(errno(volume.unlink(d, b"more")), Some(Errno::PERM));
    set(d, 0);
    volume.unlink(d, b"more").expect("free again");
    close(volume, &device, "flags");
}

#[test]
fn rename_of_each_kind_leaves_names_links_and_parents_right() {
    for layout in LAYOUTS {
        let Some(bytes) = image(layout) else { return };
        let (volume, device) = open(bytes);
        let root = Ino::ROOT;
        let (a, b) = (dir(&volume, root, "a"), dir(&volume, root, "b"));
        let moved = dir(&volume, a, "moved");
        let f = file(&volume, a, "f");
        let plain = RenameFlags::empty();
        volume
            .rename(a, b"moved", b, b"here", plain)
            .expect("into another directory");
        assert_eq!(volume.lookup(moved, b"..").unwrap(), b);
        assert_eq!((links(&volume, a), links(&volume, b)), (2, 3));
        let empty = dir(&volume, a, "empty");
        volume
            .rename(b, b"here", a, b"empty", plain)
            .expect("over an empty directory");
        assert_eq!((links(&volume, a), links(&volume, b)), (3, 2));
        assert_eq!(volume.lookup(a, b"empty").unwrap(), moved);
        assert_eq!(errno(volume.metadata(empty)), Some(Errno::STALE));
        volume
            .rename(a, b"f", a, b"g", plain)
            .expect("in its directory");
        let g = file(&volume, b, "g");
        volume.rename(a, b"g", b, b"g", plain).expect("over a file");
        assert_eq!((volume.lookup(b, b"g").unwrap(), links(&volume, f)), (f, 1));
        assert_eq!(errno(volume.metadata(g)), Some(Errno::STALE));
        volume
            .rename(a, b"empty", b, b"g", RenameFlags::EXCHANGE)
            .expect("exchanged");
        assert_eq!(volume.lookup(a, b"empty").unwrap(), f);
        assert_eq!(volume.lookup(b, b"g").unwrap(), moved);
        assert_eq!(volume.lookup(moved, b"..").unwrap(), b);
        assert_eq!((links(&volume, a), links(&volume, b)), (2, 3));
        volume
            .rename_by((5, 6), a, b"empty", a, b"out", RenameFlags::WHITEOUT)
            .expect("with a whiteout");
        let whiteout = volume
            .metadata(volume.lookup(a, b"empty").unwrap())
            .unwrap();
        assert_eq!(whiteout.kind, FileKind::CharDevice);
        assert_eq!((whiteout.rdev_major, whiteout.rdev_minor), (0, 0));
        // In a user namespace, a file of another user could have an owner without a mapping, and could not be replaced.
        assert_eq!((whiteout.uid, whiteout.gid), (5, 6));
        volume.link(f, b, b"second").expect("one more name");
        volume
            .rename(a, b"out", b, b"second", plain)
            .expect("nothing, to the same file");
        assert_eq!(links(&volume, f), 2);
        assert_eq!(
            names(&volume, a),
            ["empty", "out"].map(str::to_owned).into()
        );
        close(volume, &device, &format!("{layout:?}"));
    }
}

#[test]
fn unlinked_file_stays_while_held_and_is_deleted_afterwards() {
    for layout in LAYOUTS {
        let Some(bytes) = image(layout) else { return };
        let (volume, device) = open(bytes);
        let free = volume.statfs();
        let d = dir(&volume, Ino::ROOT, "d");
        let f = file(&volume, d, "f");
        volume.write_at(f, &vec![7; 50_000], 0).expect("written");
        volume.hold(f).expect("held");
        volume.hold(d).expect("held");
        volume.unlink(d, b"f").expect("unlinked");
        volume.remove_dir(Ino::ROOT, b"d").expect("removed");
        assert_eq!(links(&volume, f), 0);
        let mut read = [0; 10];
        assert_eq!(volume.read_at(f, &mut read, 49_990).unwrap(), 10);
        assert_eq!(read, [7; 10]);
        assert_eq!(errno(volume.create(d, b"x", &NEW)), Some(Errno::NOENT));
        let unnamed = volume
            .make_unnamed(Ino::ROOT, Make::FILE, &NEW)
            .expect("unnamed")
            .ino;
        volume.hold(unnamed).expect("held");
        let linked = volume
            .make_unnamed(Ino::ROOT, Make::FILE, &NEW)
            .expect("unnamed")
            .ino;
        volume.hold(linked).expect("held");
        volume.link(linked, Ino::ROOT, b"linked").expect("named");
        volume.release(linked, 1).expect("released");
        assert_eq!(links(&volume, linked), 1);
        volume.sync().expect("durable");
        let crashed = device.to_bytes();
        for ino in [f, d, unnamed] {
            volume.release(ino, 1).expect("deleted");
            assert_eq!(errno(volume.metadata(ino)), Some(Errno::STALE));
        }
        volume.unlink(Ino::ROOT, b"linked").expect("unlinked");
        assert_eq!(volume.statfs().free_files, free.free_files);
        close(volume, &device, &format!("{layout:?}"));

        // The next volume finishes the deletion that the crash interrupted.
        let (volume, device) = open(crashed);
        assert_eq!(
            volume.statfs().free_files + 1,
            free.free_files,
            "{layout:?}"
        );
        assert_eq!(errno(volume.metadata(f)), Some(Errno::STALE));
        assert_eq!(
            links(&volume, volume.lookup(Ino::ROOT, b"linked").unwrap()),
            1
        );
        close(volume, &device, &format!("{layout:?} after a crash"));
    }
}

#[test]
fn link_replacing_moves_a_name_to_another_file() {
    for layout in LAYOUTS {
        let Some(bytes) = image(layout) else { return };
        let (volume, device) = open(bytes);
        let free = volume.statfs();
        let d = dir(&volume, Ino::ROOT, "d");
        let old = file(&volume, d, "name");
        volume.write_at(old, &vec![1; 50_000], 0).expect("written");
        volume.link(old, d, b"other").expect("linked");
        let held = |made: Result<Metadata, Error>| {
            let ino = made.expect("unnamed").ino;
            volume.hold(ino).expect("held");
            ino
        };
        let new = [
            Make::FILE,
            Make::Symlink { target: b"target" },
            Make::Symlink {
                target: &[b'x'; 200],
            },
            Make::Node {
                kind: FileKind::CharDevice,
                device: Some(DeviceNumber { major: 1, minor: 3 }),
            },
            Make::Node {
                kind: FileKind::Fifo,
                device: None,
            },
        ]
        .map(|what| held(volume.make_unnamed(d, what, &NEW)));
        volume.write_at(new[0], &[2; 9000], 0).expect("written");
        for (at, ino) in new.into_iter().enumerate() {
            let given = volume.link_replacing(ino, d, b"name").expect("replaced");
            assert_eq!((given.ino, given.links), (ino, 1), "{layout:?}");
            assert_eq!(volume.lookup(d, b"name").unwrap(), ino);
            // The old file is kept by its other name. A file that lost its last name is kept by its
            // hold.
            assert_eq!(links(&volume, old), 1);
            if at > 0 {
                assert_eq!(links(&volume, new[at - 1]), 0);
            }
        }
        assert_eq!(
            names(&volume, d),
            ["name", "other"].map(str::to_owned).into()
        );
        // A repetition changes nothing. The next calls replace the name of another file, and add a
        // new name.
        volume.link_replacing(new[4], d, b"name").expect("nothing");
        volume
            .link_replacing(new[0], d, b"other")
            .expect("replaced");
        assert_eq!(
            errno(volume.metadata(old)),
            Some(Errno::STALE),
            "{layout:?}"
        );
        volume.link_replacing(new[0], d, b"third").expect("linked");
        assert_eq!(links(&volume, new[0]), 2);
        let mut read = [0; 10];
        assert_eq!(volume.read_at(new[0], &mut read, 8990).unwrap(), 10);
        assert_eq!(read, [2; 10]);
        for (ino, parent, name, expected) in [
            (new[0], Ino::ROOT, b"d".as_slice(), Errno::ISDIR),
            (d, Ino::ROOT, b"x", Errno::PERM),
            (new[0], d, b".", Errno::EXIST),
            (new[0], new[4], b"x", Errno::NOTDIR),
        ] {
            let result = volume.link_replacing(ino, parent, name);
            assert_eq!(errno(result), Some(expected), "{layout:?}");
        }
        for ino in new {
            volume.release(ino, 1).expect("released");
        }
        for name in ["name", "other", "third"] {
            volume.unlink(d, name.as_bytes()).expect("unlinked");
        }
        volume.remove_dir(Ino::ROOT, b"d").expect("removed");
        volume.sync().expect("durable");
        let left = volume.statfs();
        assert_eq!(
            (left.free_files, left.free_blocks),
            (free.free_files, free.free_blocks),
            "{layout:?}"
        );
        close(volume, &device, &format!("{layout:?}"));
    }
}

/// Changes names in `dirs` at random. Other threads do the same, with the same names.
fn change_at_random(volume: &Volume, dirs: &[Ino], mut random: Random) {
    for _ in 0..1500 {
        let mut pick = |below: u64| usize::try_from(random.below(below)).unwrap();
        let (from, to) = (dirs[pick(6)], dirs[pick(6)]);
        let (name, other) = (format!("n{}", pick(12)), format!("n{}", pick(12)));
        let (name, other) = (name.as_bytes(), other.as_bytes());
        let flags = [
            RenameFlags::empty(),
            RenameFlags::NOREPLACE,
            RenameFlags::EXCHANGE,
            RenameFlags::WHITEOUT,
        ];
        let result = match pick(10) {
            0 | 1 => volume.create(from, name, &NEW).map(drop),
            2 => volume.make_dir(from, name, &NEW).map(drop),
            3 => volume.symlink(from, name, b"target", &NEW).map(drop),
            4 => volume.lookup(from, name).and_then(|ino| {
                volume.hold(ino)?;
                let linked = if pick(2) == 0 {
                    volume.link(ino, to, other).map(drop)
                } else {
                    volume.link_replacing(ino, to, other).map(drop)
                };
                volume.release(ino, 1)?;
                linked
            }),
            5 => volume.unlink(from, name).map(drop),
            6 => volume.remove_dir(from, name).map(drop),
            _ => volume.rename(from, name, to, other, flags[pick(4)]),
        };
        let expected = [
            Errno::NOENT,
            Errno::EXIST,
            Errno::NOTDIR,
            Errno::ISDIR,
            Errno::NOTEMPTY,
            Errno::INVAL,
            Errno::PERM,
            Errno::STALE,
        ];
        if let Some(errno) = errno(result) {
            assert!(expected.contains(&errno), "{errno}");
        }
    }
}

#[test]
fn names_changed_by_many_threads_form_a_consistent_tree() {
    let seed = Seed::from_environment(0x7468_7264);
    println!("seed {seed}");
    for (number, layout) in (0..).zip([LAYOUTS[0], LAYOUTS[4]]) {
        let Some(bytes) = image(layout) else { return };
        let (volume, device) = open(bytes);
        let mut dirs = Vec::new();
        for depth in 0..6 {
            // Some directories are below others, so that some renames fail because they would make
            // a loop.
            let parent = dirs.get(depth / 2).copied().unwrap_or(Ino::ROOT);
            dirs.push(dir(&volume, parent, &format!("n{depth}")));
        }
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let random = Random::new(seed.part(number).part(thread));
                let (volume, dirs) = (&volume, &dirs);
                scope.spawn(move || change_at_random(volume, dirs, random));
            }
        });
        close(volume, &device, &format!("{layout:?}"));
    }
}

#[test]
fn directory_with_more_subdirectories_than_can_be_counted_has_one_link() {
    let with = "-t ext4 -b 1024 -N 70000 -O inline_data";
    let Some(bytes) = image_of(with, "96M") else {
        return;
    };
    let (volume, device) = open(bytes);
    let d = dir(&volume, Ino::ROOT, "d");
    for number in 0..65_010 {
        let name = format!("{number}");
        if let Err(error) = volume.make_dir(d, name.as_bytes(), &NEW) {
            panic!("{number}: {error}");
        }
    }
    assert_eq!(links(&volume, d), 1);
    for number in 0..100 {
        volume
            .remove_dir(d, format!("{number}").as_bytes())
            .expect("removed");
    }
    assert_eq!(links(&volume, d), 1);
    close(volume, &device, "uncounted");

    let without = "-t ext4 -b 1024 -N 70000 -O inline_data,^dir_nlink";
    let Some(bytes) = image_of(without, "96M") else {
        return;
    };
    let (volume, device) = open(bytes);
    let d = dir(&volume, Ino::ROOT, "d");
    let refused = (0..).find_map(|number| {
        let name = format!("{number}");
        errno(volume.make_dir(d, name.as_bytes(), &NEW)).map(|errno| (number, errno))
    });
    assert_eq!(refused, Some((64_998, Errno::MLINK)));
    assert_eq!(links(&volume, d), 65_000);
    close(volume, &device, "counted");
}
