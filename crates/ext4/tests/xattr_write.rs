//! Attributes that are set, replaced and removed: compared with a model after every step, then
//! checked on the image by e2fsck and the kernel.

mod attributed;
mod image;
mod writable;

use attributed::{
    Model, NOW, after_kernel, all, check, lookup, make, needs, remove, remove_all, root, set,
    set_by_kernel, start,
};
use larder_ext4::ondisk::xattr::{StoredXattr, XattrEntries, fill_block};
use larder_ext4::{Error, FileKind, XattrMode};
use larder_testkit::seed::{Random, Seed};
use std::collections::BTreeMap;
use writable::Writable;

const LAYOUTS: &[&str] = &[
    "-t ext2 -b 1024 -I 128",
    "-t ext3 -b 4096 -I 128",
    "-t ext4 -b 1024",
    "-t ext4 -b 4096 -O ^metadata_csum,^64bit",
    "-t ext4 -b 1024 -O ea_inode",
    "-t ext4 -b 4096 -O ea_inode,inline_data",
    "-t ext4 -b 4096 -I 1024 -O inline_data",
    "-t ext4 -b 1024 -O bigalloc,ea_inode -C 4096",
    "-t ext4 -b 4096 -I 128 -O ea_inode",
    "-t ext4 -b 1024 -O ea_inode,^extents,^64bit",
    "-t ext4 -b 65536 -O ea_inode",
];

fn random_name(random: &mut Random) -> Vec<u8> {
    let prefix: &[u8] = match random.below(4) {
        0 => b"trusted.",
        1 => b"security.",
        _ => b"user.",
    };
    let number = random.below(8);
    let mut name = [prefix, format!("name-{number}").as_bytes()].concat();
    match number {
        7 => name.resize(255, b'x'),
        6 => name.extend([0xC3, 0xA4]),
        _ => {}
    }
    name
}

fn random_value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(12) {
        0 => 0,
        1..=5 => random.below(40),
        6..=8 => random.below(400),
        9 => random.below(1100),
        10 => random.below(4200),
        _ => random.below(65_537),
    };
    let start = random.next_u64().to_le_bytes()[0];
    (0..len)
        .map(|at| start.wrapping_add(at.to_le_bytes()[0]))
        .collect()
}

#[test]
fn attributes_after_random_changes_match_a_map() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(0x5e7);
    println!("seed {seed}");
    for (number, arguments) in (0..).zip(LAYOUTS) {
        let mut random = Random::new(seed.part(number));
        let writable = Writable::make(arguments, "40M").expect("mke2fs");
        let fs = &writable.fs;
        let mut models = BTreeMap::new();
        for (name, kind) in [
            ("file", FileKind::Regular),
            ("other", FileKind::Regular),
            ("third", FileKind::Regular),
            ("directory", FileKind::Directory),
        ] {
            models.insert(name.to_owned(), (make(fs, name, kind, 0o755), Model::new()));
        }
        let (mut done, mut refused) = (0, 0);
        for step in 0..400 {
            let which = usize::try_from(random.below(4)).expect("small");
            let (ino, model) = models.values_mut().nth(which).expect("four");
            let name = random_name(&mut random);
            let changed = if random.below(4) == 0 {
                let removed = remove(fs, *ino, &name);
                match (&removed, model.remove(&name)) {
                    (Ok(()), Some(_)) | (Err(Error::NoAttribute(_)), None) => {}
                    (removed, was) => panic!("{arguments} {step}: {removed:?} {was:?}"),
                }
                removed
            } else {
                let value = random_value(&mut random);
                let set = set(fs, *ino, &name, &value);
                if set.is_ok() {
                    model.insert(name, value);
                }
                set
            };
            match changed {
                Ok(()) | Err(Error::NoAttribute(_)) => done += 1,
                Err(Error::AttributeTooLarge(_)) => refused += 1,
                Err(error) => panic!("{arguments}, step {step}: {error}"),
            }
            assert!(all(fs, *ino) == *model, "{arguments}, step {step}");
            if step % 50 == 0 {
                fs.commit(fs.running_tid().expect("tid")).expect("commit");
            }
        }
        println!("{arguments}: {done} changes, {refused} refused");
        check(&writable, &models);
    }
}

/// A change of an attribute block that the kernel shared among files is made in a copy.
#[test]
fn shared_block_is_copied_before_it_is_changed() {
    if needs() {
        return;
    }
    for arguments in [
        "-t ext4 -b 1024",
        "-t ext4 -b 4096 -O ea_inode",
        "-t ext3 -b 1024",
    ] {
        let large = if arguments.contains("ea_inode") {
            5000
        } else {
            300
        };
        let writable = after_kernel(arguments, |root| {
            for name in ["a", "b", "c"] {
                let path = root.join(name);
                std::fs::write(&path, "").expect("file");
                set_by_kernel(&path, "user.large", &vec![7; large]);
                set_by_kernel(&path, "user.more", &[1; 200]);
            }
        });
        let fs = &writable.fs;
        let acl = |name| lookup(fs, name).file_acl();
        let shared = acl("a").expect("a block");
        assert!(acl("b") == Some(shared) && acl("c") == Some(shared));
        let before = all(fs, lookup(fs, "a").ino());

        let b = lookup(fs, "b").ino();
        set(fs, b, b"user.new", &[5; 100]).expect("set");
        set(fs, b, b"user.more", &[2; 201]).expect("set");
        assert_ne!(acl("b"), Some(shared));
        assert_eq!(all(fs, b).len(), 3);
        let c = lookup(fs, "c").ino();
        remove(fs, c, b"user.large").expect("removed");
        remove(fs, c, b"user.more").expect("removed");
        assert_eq!(acl("c"), None);
        let a = lookup(fs, "a").ino();
        assert_eq!(all(fs, a), before);
        remove(fs, a, b"user.large").expect("removed");
        assert_eq!(acl("a"), Some(shared), "the last user has the block alone");
        let models = ["a", "b", "c"].map(|name| {
            let ino = lookup(fs, name).ino();
            (name.to_owned(), (ino, all(fs, ino)))
        });
        check(&writable, &models.into());
    }
}

#[test]
fn setting_the_present_value_changes_nothing() {
    if needs() {
        return;
    }
    let writable = Writable::make("-t ext4 -b 1024 -O ea_inode", "20M").expect("mke2fs");
    let fs = &writable.fs;
    let ino = make(fs, "file", FileKind::Regular, 0o644);
    for (name, len) in [
        ("user.a", 5),
        ("user.b", 300),
        ("user.c", 9000),
        ("user.d", 0),
    ] {
        set(fs, ino, name.as_bytes(), &vec![3; len]).expect("set");
        fs.commit(fs.running_tid().expect("tid")).expect("commit");
        let (mut handle, mut inode) = start(fs, ino).expect("handle");
        let credits = handle.credits();
        let (name, value) = (name.as_bytes(), vec![3; len]);
        fs.set_xattr(&mut handle, &mut inode, name, &value, XattrMode::Replace)
            .expect("set");
        assert_eq!(handle.credits(), credits, "no block was changed");
        drop(handle);
    }
}

#[test]
fn create_and_replace_modes_are_honored() {
    if needs() {
        return;
    }
    let writable = Writable::make("-t ext4 -b 1024", "20M").expect("mke2fs");
    let fs = &writable.fs;
    let ino = make(fs, "file", FileKind::Regular, 0o644);
    let attempt = |name: &[u8], mode| {
        let (mut handle, mut inode) = start(fs, ino).expect("handle");
        let set = fs.set_xattr(&mut handle, &mut inode, name, b"value", mode);
        if set.is_ok() {
            handle.stop();
        }
        set
    };
    let replaced = attempt(b"user.a", XattrMode::Replace);
    assert!(matches!(replaced, Err(Error::NoAttribute(_))));
    attempt(b"user.a", XattrMode::Create).expect("created");
    let created = attempt(b"user.a", XattrMode::Create);
    assert!(matches!(created, Err(Error::Exists(_))));
    attempt(b"user.a", XattrMode::Replace).expect("replaced");
    for name in [&b"system.data"[..], b"nothing.a", b"user", b"system.other"] {
        let set = attempt(name, XattrMode::Any);
        assert!(matches!(set, Err(Error::NotSupported(..))), "{set:?}");
    }
    let set = attempt(b"user.", XattrMode::Any);
    assert!(matches!(set, Err(Error::Invalid(..))), "{set:?}");
    let long = [b"user.".as_slice(), &[b'n'; 251]].concat();
    for name in [&b""[..], &long] {
        let set = attempt(name, XattrMode::Any);
        assert!(matches!(set, Err(Error::AttributeName(_))), "{set:?}");
    }
    attempt(&long[..255], XattrMode::Any).expect("the longest name");
}

/// The hashes that the kernel stores for entries and for the block equal Larder's.
#[test]
fn hashes_of_a_block_equal_the_kernels() {
    if needs() {
        return;
    }
    let writable = after_kernel("-t ext4 -b 4096 -I 128 -O ea_inode", |root| {
        let path = root.join("file");
        std::fs::write(&path, "").expect("file");
        for (name, len) in [
            ("user.one", 3),
            ("trusted.two", 77),
            ("security.three", 300),
            ("user.four-of-them", 0),
            ("user.large", 10_000),
            ("user.umlaut-\u{e4}", 12),
        ] {
            let value: Vec<u8> = (0..=250).cycle().take(len).collect();
            set_by_kernel(&path, name, &value);
        }
    });
    let inode = lookup(&writable.fs, "file");
    let block = inode.file_acl().expect("a block");
    let theirs = writable
        .fs
        .metadata_block(block, inode.ino(), |_| Ok(()))
        .expect("block");
    let entries = XattrEntries::in_block(&theirs).expect("entries");
    let mut stored: Vec<_> = entries
        .map(|entry| StoredXattr::from_entry(&entry.expect("entry")))
        .collect();
    let mut ours = vec![0; 4096];
    assert!(fill_block(&mut ours, &mut stored));
    let headers = |block: &[u8]| (block[..16].to_vec(), hashes(block));
    assert_eq!(headers(&ours), headers(&theirs));
}

fn hashes(block: &[u8]) -> Vec<u32> {
    let entries = XattrEntries::in_block(block).expect("entries");
    entries.map(|entry| entry.expect("entry").hash).collect()
}

#[test]
fn dropped_attributes_free_all_their_space() {
    if needs() {
        return;
    }
    for arguments in LAYOUTS {
        let writable = Writable::make(arguments, "20M").expect("mke2fs");
        let fs = &writable.fs;
        make(fs, "other", FileKind::Regular, 0o644);
        fs.commit(fs.running_tid().expect("tid")).expect("commit");
        let before = writable.free_by_dumpe2fs();
        let ino = make(fs, "file", FileKind::Regular, 0o644);
        for number in 0..8_u8 {
            let value = vec![number; 1 << (2 * number)];
            let name = format!("user.number-{number}");
            match set(fs, ino, name.as_bytes(), &value) {
                Ok(()) | Err(Error::AttributeTooLarge(_)) => {}
                Err(error) => panic!("{arguments}: {error}"),
            }
        }
        remove_all(fs, ino);
        let mut inode = fs.inode(ino).expect("inode");
        assert_eq!(inode.blocks_512(1024), 0);
        let mut handle = fs.start(40).expect("handle");
        let mut parent = root(fs);
        fs.remove_entry(&mut handle, &mut parent, b"file")
            .expect("removed");
        fs.write_inode(&mut handle, &parent).expect("written");
        if inode.has_inline_data() {
            fs.remove_inline_data(&mut handle, &mut inode)
                .expect("removed");
        }
        fs.delete_inode(&mut handle, &mut inode, NOW)
            .expect("deleted");
        handle.stop();
        fs.commit(fs.running_tid().expect("tid")).expect("commit");
        fs.close().expect("closed");
        writable.assert_clean();
        assert_eq!(writable.free_by_dumpe2fs(), before, "{arguments}");
    }
}
