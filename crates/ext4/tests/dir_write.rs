//! Changes of directories, checked with a map, e2fsck and the kernel.

mod directory;
mod image;
mod naming;

use image::Image;
use larder_ext4::Filesystem;
use larder_ext4::ondisk::hash::HashVersion;
use larder_testkit::e2fsprogs::debugfs_write;
use larder_testkit::seed::{Random, Seed};
use larder_testkit::tool::Tool;
use naming::Subject;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

/// Layouts with and without an index, checksums, type bytes and inline directories.
const LAYOUTS: [(&str, &str); 9] = [
    ("-t ext4 -b 1024", "32M"),
    ("-t ext4 -b 1024 -O ^metadata_csum,uninit_bg", "32M"),
    ("-t ext4 -b 1024 -O inline_data", "32M"),
    ("-t ext4 -b 4096 -O inline_data,large_dir -I 512", "64M"),
    ("-t ext4 -b 4096 -O bigalloc -C 16384", "64M"),
    ("-t ext4 -b 65536", "256M"),
    ("-t ext3 -b 1024", "32M"),
    ("-t ext2 -b 1024 -O ^dir_index", "32M"),
    ("-t ext2 -r 0 -b 1024", "32M"),
];

/// Returns a name that `subject` does not have, of any bytes that are legal in a name.
fn new_name(subject: &mut Subject) -> Vec<u8> {
    loop {
        let len = match subject.random.below(4) {
            0 => 1 + subject.random.below(255),
            1 => 1 + subject.random.below(4),
            _ => 5 + subject.random.below(30),
        };
        let name: Vec<u8> = (0..len)
            .map(|_| match u8::try_from(subject.random.below(256)).unwrap() {
                0 | b'/' => b'-',
                byte => byte,
            })
            .collect();
        if !subject.model.contains_key(&name) && name != b"." && name != b".." {
            return name;
        }
    }
}

/// Makes one random change. `growing` increases the probability of an addition.
fn step(subject: &mut Subject, growing: u64) {
    let what = subject.random.below(100);
    if what < growing {
        let name = new_name(subject);
        subject.add(&name);
        return;
    }
    if what == 99 {
        let name = new_name(subject);
        subject.fail(&name);
        return;
    }
    let Some(name) = subject.known() else { return };
    if what.is_multiple_of(5) {
        subject.retarget(&name);
    } else {
        subject.remove(&name);
    }
}

#[test]
fn directory_after_random_changes_matches_model_e2fsck_and_kernel() {
    let seed = Seed::from_environment(0x6e61_6d65);
    println!("seed {seed}");
    for (number, (arguments, size)) in (0..).zip(LAYOUTS) {
        let random = Random::new(seed.part(number));
        let Some(mut subject) = Subject::new(arguments, size, random) else {
            return;
        };
        // Few names at first, so that inline directories and those of one block are also changed.
        for round in 0..3000 {
            let growing = match round {
                0..200 => 52,
                200..1800 => 85,
                1800..2600 => 30,
                _ => 60,
            };
            step(&mut subject, growing);
            if round % 250 == 0 {
                subject.check();
                subject.commit();
            }
        }
        subject.finish();
    }
}

/// Returns a name of `len` bytes that starts with `number`.
fn long_name(number: u64, len: usize) -> Vec<u8> {
    let mut name = format!("{number:08}").into_bytes();
    name.resize(len.max(name.len()), b'x');
    name
}

#[test]
fn directory_with_names_of_255_bytes_grows_levels_until_it_is_full() {
    // A leaf holds three names. One level of nodes is full at about 400 names, two levels at 50,000.
    for (arguments, count, levels) in [
        ("-t ext4 -b 1024 -N 100 -O large_dir", 50_000, 2),
        ("-t ext4 -b 1024 -N 100 -O ^metadata_csum", 3_000, 1),
    ] {
        let Some(mut subject) = Subject::new(arguments, "128M", Random::new(Seed(1))) else {
            return;
        };
        for number in 0..count {
            subject.add(&long_name(number, 255));
        }
        assert_eq!(directory::levels(&subject.fs, &subject.dir), levels);
        subject.finish();
    }
}

#[test]
fn directory_with_a_full_index_refuses_names_and_stays_valid() {
    let Some(mut subject) = Subject::new("-t ext4 -b 1024 -N 100", "64M", Random::new(Seed(2)))
    else {
        return;
    };
    let full = (0..).find_map(|number| {
        let name = long_name(number, 255);
        subject.try_add(&name).err()
    });
    assert!(
        matches!(full, Some(larder_ext4::Error::NoSpace)),
        "{full:?}"
    );
    assert!(subject.model.len() > 10_000);
    subject.finish();
}

#[test]
fn directory_of_100_000_names_matches_model_and_kernel() {
    let Some(mut subject) = Subject::new("-t ext4 -b 4096", "64M", Random::new(Seed(3))) else {
        return;
    };
    for number in 0..100_000 {
        subject.add(format!("file-{number}").as_bytes());
    }
    for number in (0..100_000).step_by(3) {
        subject.remove(format!("file-{number}").as_bytes());
    }
    subject.finish();
}

#[test]
fn directory_with_each_hash_function_is_searched_by_the_kernel() {
    for hash in ["legacy", "half_md4", "tea"] {
        // The flags for signed and unsigned bytes of names.
        for sign in ["1", "2"] {
            let Some(image) = Image::make("-t ext4 -b 1024", "16M") else {
                return;
            };
            let tune2fs = Tool::new("tune2fs").args(["-E", &format!("hash_alg={hash}")]);
            tune2fs.arg(image.path()).run().expect("tune2fs");
            debugfs_write(image.path(), &[format!("ssv flags {sign}")]).expect("debugfs");
            let made_by = format!("{hash}, flags {sign}");
            let mut subject = Subject::of(image, made_by, Random::new(Seed(4)));
            for number in 0..400_u16 {
                let byte = u8::try_from(150 + number % 100).unwrap();
                let name = [&[b'n', byte][..], format!("{number:040}").as_bytes()].concat();
                subject.add(&name);
            }
            subject.finish();
        }
    }
}

/// Returns names of 255 bytes: two with the same hash, and two with hashes below and above it.
fn colliding_names(fs: &Filesystem) -> [Vec<u8>; 4] {
    let sb = fs.superblock();
    let version = HashVersion::from_disk(sb.default_hash_version, sb.hash_unsigned);
    let hash = |name: &[u8]| version.expect("known").hash(sb.hash_seed, name);
    let mut by_hash = HashMap::new();
    let (first, second) = (0..)
        .find_map(|number| {
            let name = long_name(number, 255);
            let before = by_hash.insert(hash(&name), number);
            before.map(|before| (long_name(before, 255), name))
        })
        .expect("names have equal hashes sooner or later");
    let middle = hash(&first);
    let find = |is_wanted: &dyn Fn(u32) -> bool| {
        let found = by_hash.iter().find(|(hash, _)| is_wanted(**hash));
        long_name(*found.expect("some hash").1, 255)
    };
    let (low, high) = (find(&|hash| hash < middle), find(&|hash| hash > middle));
    [first, second, low, high]
}

#[test]
fn names_of_one_hash_on_both_sides_of_a_split_are_found_and_removed() {
    let Some(mut subject) = Subject::new("-t ext4 -b 1024", "16M", Random::new(Seed(5))) else {
        return;
    };
    let names = colliding_names(&subject.fs);
    for name in &names {
        subject.add(name);
    }
    subject.check();
    assert_eq!(directory::levels(&subject.fs, &subject.dir), 0);
    for name in &names {
        subject.remove(name);
        subject.check();
    }
    for name in names.iter().rev() {
        subject.add(name);
    }
    subject.finish();
}

#[test]
fn listing_during_changes_returns_unchanged_names_once() {
    let layouts = ["-t ext4 -b 1024 -O inline_data -I 512", "-t ext4 -b 1024"];
    for (number, arguments) in (0..).zip(layouts) {
        let Some(mut subject) = Subject::new(arguments, "16M", Random::new(Seed(number))) else {
            return;
        };
        let mut stays = BTreeSet::new();
        for number in 0..4 {
            let name = format!("stays-{number}").into_bytes();
            subject.add(&name);
            stays.insert(name);
        }
        let mut seen = BTreeSet::new();
        let mut cookie = 0;
        let mut round = 0;
        loop {
            let mut next = None;
            let emit = &mut |entry: larder_ext4::DirEntry<'_>| {
                if next.is_some() {
                    return ControlFlow::Break(());
                }
                next = Some(entry.next_cookie);
                if stays.contains(entry.name) {
                    assert!(seen.insert(entry.name.to_vec()), "shown twice");
                }
                ControlFlow::Continue(())
            };
            subject
                .fs
                .read_dir(&subject.dir, cookie, emit)
                .expect("listing");
            let Some(after) = next else { break };
            cookie = after;
            // During the listing, the directory grows from inline over one block to a tree of many
            // leaves.
            for _ in 0..if round < 40 { 20 } else { 0 } {
                let name = new_name(&mut subject);
                subject.add(&name);
            }
            round += 1;
        }
        assert_eq!(seen, stays, "{arguments}");
        subject.finish();
    }
}
