//! Inline data that grows, shrinks and moves to blocks, beside attributes: compared with a model,
//! then checked by e2fsck and the kernel.

mod image;
mod writable;

use image::new_inode;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{Error, FileKind, FileTypeByte, Filesystem, Ino, Inode, XattrMode};
use larder_testkit::seed::{Random, Seed};
use larder_testkit::{Access, LoopMount, Requirement, skip};
use rustix::fs::lgetxattr;
use writable::Writable;

const LAYOUTS: &[&str] = &[
    "-t ext4 -b 1024 -O inline_data",
    "-t ext4 -b 4096 -O inline_data,^metadata_csum",
    "-t ext4 -b 4096 -I 1024 -O inline_data,ea_inode",
    "-t ext4 -b 1024 -I 512 -O inline_data,^extents,^64bit",
];

const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 5,
};

fn needs() -> bool {
    skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
    ])
}

fn make_file(fs: &Filesystem, name: &str) -> Ino {
    let mut handle = fs.start(40).expect("handle");
    let mut parent = fs.inode(Ino::ROOT).expect("root");
    let new = new_inode(FileKind::Regular, 0o644, NOW);
    let inode = fs.create_inode(&mut handle, &parent, &new).expect("inode");
    let target = (inode.ino(), FileTypeByte(1));
    fs.add_entry(&mut handle, &mut parent, name.as_bytes(), target)
        .expect("entry");
    fs.write_inode(&mut handle, &parent).expect("written");
    handle.stop();
    inode.ino()
}

fn content(len: usize, start: u8) -> Vec<u8> {
    (0..len)
        .map(|at| start.wrapping_add(at.to_le_bytes()[0]))
        .collect()
}

fn try_change(
    fs: &Filesystem,
    ino: Ino,
    change: impl FnOnce(&mut larder_ext4::Handle<'_>, &mut Inode) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut inode = fs.inode(ino)?;
    let mut handle = fs.start(fs.xattr_credits(&inode))?;
    change(&mut handle, &mut inode)?;
    handle.stop();
    Ok(())
}

#[test]
fn inline_data_after_random_changes_is_what_was_set() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(0x1d);
    println!("seed {seed}");
    for (number, arguments) in (0..).zip(LAYOUTS) {
        let mut random = Random::new(seed.part(number));
        let writable = Writable::make(arguments, "20M").expect("mke2fs");
        let fs = &writable.fs;
        let mut files: Vec<_> = (0..6)
            .map(|number| {
                let name = format!("file-{number}");
                (make_file(fs, &name), name, Vec::new(), false)
            })
            .collect();
        let (mut grown, mut refused, mut beside) = (0, 0, 0);
        for step in 0..300_u32 {
            let which = usize::try_from(random.below(6)).expect("small");
            let (ino, _, model, has_attribute) = &mut files[which];
            let inode = fs.inode(*ino).expect("inode");
            let capacity = fs.inline_capacity(&inode).expect("capacity");
            assert!(inode.has_inline_data() && capacity >= 60.max(model.len()));
            if random.below(4) == 0 {
                let len = usize::try_from(random.below(120)).expect("small");
                let value = content(len, 3);
                let set = try_change(fs, *ino, |handle, inode| {
                    fs.set_xattr(handle, inode, b"user.beside", &value, XattrMode::Any)
                });
                set.expect("set in the inode or a block");
                *has_attribute = true;
                beside += 1;
            } else {
                // The length is often close to the limit, and sometimes past it.
                let most = u64::try_from(capacity).expect("small") + 3;
                let len = most.saturating_sub(random.below(8) * random.below(most / 2));
                let data = content(usize::try_from(len).expect("small"), step.to_le_bytes()[0]);
                let set = try_change(fs, *ino, |handle, inode| {
                    fs.set_inline_data(handle, inode, &data)
                });
                match set {
                    Ok(()) => {
                        assert!(data.len() <= capacity);
                        *model = data;
                        grown += 1;
                    }
                    Err(Error::AttributeTooLarge(_)) => {
                        assert!(data.len() > capacity, "{} of {capacity}", data.len());
                        refused += 1;
                    }
                    Err(error) => panic!("{arguments}, step {step}: {error}"),
                }
            }
            let inode = fs.inode(*ino).expect("inode");
            assert_eq!(fs.inline_data(&inode).expect("data"), *model);
        }
        println!("{arguments}: {grown} set, {refused} refused, {beside} attributes");
        // The last file moves to blocks and becomes empty.
        let (ino, _, model, _) = files.last_mut().expect("files");
        try_change(fs, *ino, |handle, inode| {
            let data = fs.remove_inline_data(handle, inode)?;
            assert_eq!(data, *model);
            assert!(!inode.has_inline_data());
            inode.set_size_bytes(0);
            fs.write_inode(handle, inode)
        })
        .expect("removed");
        model.clear();

        fs.close().expect("closed");
        writable.assert_clean();
        writable.on_file(|path| {
            let mount = LoopMount::new(path, Access::ReadOnly, &[]).expect("mount");
            for (_, name, model, has_attribute) in &files {
                let path = mount.path().join(name);
                let found = std::fs::read(&path).expect("content");
                assert!(found == *model, "{name} by the kernel, {arguments}");
                let found = lgetxattr(&path, "user.beside", &mut [0; 200][..]);
                assert_eq!(found.is_ok(), *has_attribute, "{name}, {arguments}");
            }
        });
    }
}

/// A damaged image can declare any size. The bytes that the inode does not store are a hole, so that copies do not
/// read or store them.
#[test]
fn large_inline_file_is_a_hole_after_its_first_block() {
    const SIZE_BYTES: u64 = 1 << 40;
    if needs() {
        return;
    }
    let writable = Writable::make("-t ext4 -b 1024 -O inline_data", "32M").expect("mke2fs");
    let fs = &writable.fs;
    let ino = make_file(fs, "file");
    let mut inode = fs.inode(ino).expect("inode");
    inode.set_size_bytes(600);
    for (offset, data, hole) in [(0, Some(0), Some(600)), (600, None, None)] {
        assert_eq!(fs.seek_data(&inode, offset).expect("data"), data);
        assert_eq!(fs.seek_hole(&inode, offset).expect("hole"), hole);
    }
    inode.set_size_bytes(SIZE_BYTES);
    for (offset, data, hole) in [
        (0, Some(0), Some(1024)),
        (1023, Some(1023), Some(1024)),
        (1024, None, Some(1024)),
        (5000, None, Some(5000)),
        (SIZE_BYTES, None, None),
    ] {
        assert_eq!(fs.seek_data(&inode, offset).expect("data"), data);
        assert_eq!(fs.seek_hole(&inode, offset).expect("hole"), hole);
    }
}

/// The kernel stores content inline if and only if its length is at most Larder's capacity.
#[test]
fn inline_capacity_equals_the_kernels() {
    if needs() {
        return;
    }
    for (arguments, most) in [("-I 256", 300), ("-I 512", 600), ("-I 1024", 1200)] {
        let arguments = format!("-t ext4 -b 4096 -O inline_data {arguments}");
        let image = image::Image::make(&arguments, "20M").expect("mke2fs");
        let mount = LoopMount::new(image.path(), Access::ReadWrite, &[]).expect("mount");
        for len in 100..most {
            std::fs::write(mount.path().join(format!("{len}")), content(len, 1)).expect("file");
        }
        drop(mount);
        let (fs, _) = image.open();
        let root = fs.inode(Ino::ROOT).expect("root");
        let mut kept = 0;
        for len in 100..most {
            let name = len.to_string();
            let found = fs.lookup(&root, name.as_bytes()).expect("lookup");
            let inode = fs.inode(found.expect("is there").0).expect("inode");
            let capacity = fs.inline_capacity(&inode).expect("capacity");
            assert_eq!(
                inode.has_inline_data(),
                len <= capacity,
                "{len} of {capacity}"
            );
            kept += usize::from(inode.has_inline_data());
        }
        assert!(kept > 0);
    }
}
