//! Tests of attributes that are set through a mount. If many files share attributes, dumpe2fs must count exactly the
//! blocks that perfect sharing takes, and e2fsck and the kernel's mount must accept the image. Attributes with valid
//! and invalid sizes and names are compared with the kernel's mount.

mod mounted;

use larder_fuse::MountOptions;
use larder_testkit::attribute_names;
use larder_testkit::attribute_sets::{AttributeSets, Rules};
use larder_testkit::attribute_sizes::{file_count, set_all};
use larder_testkit::e2fsprogs::{check, free_space};
use larder_testkit::oracle::{DirectorySource, Source};
use larder_testkit::{Access, LoopMount, Requirement, Seed, skip};
use mounted::{Mounted, folder};
use rustix::fs::{XattrFlags, lsetxattr};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const FILES: usize = 20_000;
const SETS: usize = 500;
/// Files in one directory.
const DIRECTORY_FILES: usize = 500;

fn can_mount() -> bool {
    let tools = ["mke2fs", "dumpe2fs", "e2fsck"].map(Requirement::Tool);
    !skip(&tools) && !skip(&[Requirement::LoopMount, Requirement::Fuse])
}

/// Returns a writable larder mount.
fn mount(folder: &Path) -> Mounted {
    Mounted::for_writing(folder, &MountOptions::default())
}

/// Returns the path of a file below `root`.
fn file(root: &Path, number: usize) -> PathBuf {
    let directory = number / DIRECTORY_FILES;
    root.join(format!("directory-{directory}/file-{number}"))
}

fn make_files(root: &Path) {
    for number in 0..FILES {
        let path = file(root, number);
        if number % DIRECTORY_FILES == 0 {
            fs::create_dir(path.parent().unwrap()).unwrap();
        }
        File::create(path).unwrap();
    }
}

#[test]
fn mount_of_20000_files_uses_the_blocks_of_perfect_sharing() {
    if !can_mount() {
        return;
    }
    let seed = Seed::from_environment(0x7100);
    println!("seed {seed}");
    let rules = Rules {
        sets: SETS,
        files: FILES,
        crowd: 3000,
        large: false,
    };
    let attribute_sets = AttributeSets::new(seed, &rules);
    let folder = folder("-t ext4 -b 4096 -N 24000", "64M");
    let image = folder.path().join("image");
    make_files(&mount(folder.path()).path);
    let before = free_space(&image).unwrap();

    let mounted = mount(folder.path());
    for (number, attributes) in attribute_sets.in_any_order(seed) {
        let path = file(&mounted.path, number);
        for (name, value) in attributes {
            lsetxattr(&path, name, value, XattrFlags::empty()).unwrap();
        }
    }
    let shared = mounted.volume.stats().attributes.unwrap();
    drop(mounted);
    let after = free_space(&image).unwrap();
    let expected = attribute_sets.shared_space(4096);
    assert_eq!(before.blocks - after.blocks, expected.blocks);
    assert_eq!(before.inodes, after.inodes);
    assert!(
        shared.shares >= FILES as u64 - expected.blocks,
        "{shared:?}"
    );

    check(&image).unwrap();
    let mount = LoopMount::new(&image, Access::ReadOnly, &[]).unwrap();
    let kernel = DirectorySource::new("kernel", &mount.path());
    for (number, attributes) in attribute_sets.files() {
        let found = kernel.attributes(&file(&kernel.root(), number)).unwrap();
        assert!(found == *attributes, "file {number} by the kernel");
    }
}

#[test]
fn attributes_of_any_size_fit_or_fail_through_a_mount_as_on_the_kernel() {
    if !can_mount() {
        return;
    }
    for (mkfs, block_bytes) in [
        ("-t ext4 -b 4096 -N 2048", 4096),
        ("-t ext4 -b 1024 -O ea_inode -J size=4", 1024),
    ] {
        let set_below = |root: &Path| {
            for number in 0..file_count(block_bytes) {
                File::create(root.join(number.to_string())).unwrap();
            }
            set_all(block_bytes, |number, name, value| {
                let path = root.join(number.to_string());
                lsetxattr(path, name, value, XattrFlags::empty())
            })
        };
        let folder = folder(mkfs, "32M");
        let images = ["image", "kernel"].map(|name| folder.path().join(name));
        let by_larder = set_below(&mount(folder.path()).path);
        let kernel = LoopMount::new(&images[1], Access::ReadWrite, &[]).unwrap();
        let by_kernel = set_below(&kernel.path());
        drop(kernel);
        for (on_larder, on_kernel) in by_larder.iter().zip(&by_kernel) {
            assert_eq!(on_larder, on_kernel, "{mkfs:?}");
        }

        check(&images[0]).unwrap();
        let [on_larder, on_kernel] = images.map(|image| {
            let mount = LoopMount::new(&image, Access::ReadOnly, &[]).unwrap();
            let source = DirectorySource::new("kernel", &mount.path());
            (mount, source)
        });
        for number in 0..file_count(block_bytes) {
            let [on_larder, on_kernel] = [&on_larder.1, &on_kernel.1].map(|source| {
                let path = source.root().join(number.to_string());
                source.attributes(&path).unwrap()
            });
            assert!(on_larder == on_kernel, "{mkfs:?}, file {number}");
        }
    }
}

#[test]
fn names_of_attributes_are_accepted_or_refused_through_a_mount_as_by_the_kernel() {
    if !can_mount() {
        return;
    }
    let folder = folder("-t ext4 -b 1024", "20M");
    let [image, on_kernel] = ["image", "kernel"].map(|name| folder.path().join(name));
    let outcomes_below = |root: &Path| {
        attribute_names::make_files(root).unwrap();
        attribute_names::outcomes(&root)
    };
    let by_larder = outcomes_below(&mount(folder.path()).path);
    let kernel = LoopMount::new(&on_kernel, Access::ReadWrite, &[]).unwrap();
    let by_kernel = outcomes_below(&kernel.path());
    for (on_larder, on_kernel) in by_larder.iter().zip(&by_kernel) {
        assert_eq!(on_larder, on_kernel);
    }
    check(&image).unwrap();
}
