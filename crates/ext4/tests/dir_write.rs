//! Changes of directories, against a map, e2fsck and the kernel.

mod directory;
mod image;
mod naming;

use larder_testkit::seed::{Random, Seed};
use naming::Subject;

/// Kinds of images: with and without index, checksums, type bytes, inline directories.
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

/// A name that `subject` does not have, of any bytes that a name may have.
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

/// One random change; `growing` makes it more often an addition.
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
    if what % 5 == 0 {
        subject.retarget(&name);
    } else {
        subject.remove(&name);
    }
}

#[test]
fn directory_after_random_changes_is_as_its_model_e2fsck_and_the_kernel_see_it() {
    let seed = Seed::from_environment(0x6e61_6d65);
    println!("seed {seed}");
    for (number, (arguments, size)) in (0..).zip(LAYOUTS) {
        let random = Random::new(seed.part(number));
        let Some(mut subject) = Subject::new(arguments, size, random) else {
            return;
        };
        // Few at first, so that what is inline or has one block is changed too.
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
