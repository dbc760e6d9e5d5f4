//! Changes of attributes on images with seeded damage: whatever the bytes are, every change ends
//! without a panic, and one that fails has no effect.

mod image;
mod writable;

use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{Filesystem, Handle, Ino, Inode, Result, XattrMode};
use larder_testkit::seed::{Random, Seed};
use larder_testkit::{Access, LoopMount, Requirement, skip};
use rustix::fs::{XattrFlags, lsetxattr};
use writable::Writable;

const LAYOUTS: &[&str] = &[
    "-t ext4 -b 1024 -O ^metadata_csum,ea_inode",
    "-t ext4 -b 4096 -O ^metadata_csum,inline_data,ea_inode",
    "-t ext2 -b 1024 -I 128",
];

/// The number of damaged copies of each image.
const COPIES: u64 = 150;

/// Returns the bytes of an image with a file that has attributes in all possible places, and the
/// locations of the structures: the inode, the block, and a value inode.
fn make(arguments: &str) -> (Vec<u8>, Ino, Vec<(usize, usize)>) {
    let image = image::Image::make(arguments, "12M").expect("mke2fs");
    let mount = LoopMount::new(image.path(), Access::ReadWrite, &[]).expect("mount");
    let path = mount.path().join("file");
    std::fs::write(&path, "content").expect("file");
    for (name, len) in [
        ("user.a", 4),
        ("user.b", 60),
        ("user.c", 500),
        ("user.d", 6000),
    ] {
        // The last one fits only into a separate inode.
        let _ = lsetxattr(&path, name, &vec![3; len], XattrFlags::empty());
    }
    drop(mount);
    let (fs, _) = image.open();
    let root = fs.inode(Ino::ROOT).expect("root");
    let (ino, _) = fs
        .lookup(&root, b"file")
        .expect("lookup")
        .expect("is there");
    let inode = fs.inode(ino).expect("inode");
    let block_bytes = usize::try_from(fs.superblock().block_size_bytes()).expect("small");
    let block = usize::try_from(inode.file_acl().expect("a block").0).expect("small");
    let inode_bytes = usize::from(fs.superblock().inode_size_bytes);
    let table = usize::try_from(
        fs.group(larder_ext4::GroupNo(0))
            .expect("group")
            .inode_table
            .0,
    )
    .expect("small");
    let index = usize::try_from(ino.0 - 1).expect("small");
    let at = table * block_bytes + index * inode_bytes;
    // The next inode may hold a value. Damage to entries has the most effects.
    let places = vec![
        (at, inode_bytes),
        (at + 100, inode_bytes - 100),
        (at + inode_bytes, inode_bytes),
        (block * block_bytes, 160),
        (block * block_bytes, block_bytes),
    ];
    (image.bytes(), ino, places)
}

fn change(
    fs: &Filesystem,
    ino: Ino,
    change: impl FnOnce(&mut Handle<'_>, &mut Inode) -> Result<()>,
) -> Result<()> {
    let mut inode = fs.inode(ino)?;
    let mut handle = fs.start(fs.xattr_credits(&inode))?;
    inode.set_ctime(Timestamp {
        seconds: 1_700_000_000,
        nanoseconds: 0,
    });
    change(&mut handle, &mut inode)?;
    handle.stop();
    Ok(())
}

/// Makes every kind of change to the attributes of a file. Returns how many succeeded.
fn change_all(fs: &Filesystem, ino: Ino, random: &mut Random) -> usize {
    let mut done = 0;
    for _ in 0..6 {
        let name = format!(
            "user.{}",
            char::from(b'a' + random.next_u64().to_le_bytes()[0] % 6)
        );
        let name = name.as_bytes();
        let len = [3, 60, 480, 7000][random.next_u64().to_le_bytes()[0] as usize % 4];
        let inline = |handle: &mut Handle<'_>, inode: &mut Inode| {
            let capacity = fs.inline_capacity(inode)?;
            fs.set_inline_data(handle, inode, &vec![1; capacity])
        };
        let changed = match random.below(5) {
            0 => change(fs, ino, |handle, inode| {
                fs.remove_xattr(handle, inode, name)
            }),
            1 if fs.inode(ino).is_ok_and(|inode| inode.has_inline_data()) => {
                change(fs, ino, inline)
            }
            _ => change(fs, ino, |handle, inode| {
                fs.set_xattr(handle, inode, name, &vec![5; len], XattrMode::Any)
            }),
        };
        done += usize::from(changed.is_ok());
    }
    let dropped = change(fs, ino, |handle, inode| {
        while !fs.drop_xattrs(handle, inode)? {
            if handle.credits() < 30 {
                break;
            }
        }
        Ok(())
    });
    done + usize::from(dropped.is_ok())
}

#[test]
fn changes_of_damaged_attributes_do_not_panic() {
    if skip(&[Requirement::LoopMount, Requirement::Tool("mke2fs")]) {
        return;
    }
    let seed = Seed::from_environment(0xda3);
    println!("seed {seed}");
    for (number, arguments) in (0..).zip(LAYOUTS) {
        let (bytes, ino, places) = make(arguments);
        let (mut done, mut tried) = (0, 0);
        for copy in 0..COPIES {
            let mut random = Random::new(seed.part(number * COPIES + copy));
            let mut bytes = bytes.clone();
            for _ in 0..=random.below(4) {
                let which = usize::try_from(random.below(places.len() as u64)).expect("small");
                let (start, len) = places[which];
                let at = start + usize::try_from(random.below(len as u64)).expect("small");
                let [value, how, ..] = random.next_u64().to_le_bytes();
                bytes[at] = match how % 3 {
                    0 => value,
                    1 => bytes[at] ^ (1 << (value % 8)),
                    _ => [0, 1, 4, 0x7f, 0xff][usize::from(value) % 5],
                };
            }
            let writable = Writable::open(bytes, (*arguments).to_owned());
            done += change_all(&writable.fs, ino, &mut random);
            tried += 7;
        }
        println!("{arguments}: {done} of {tried} changes on {COPIES} damaged images");
        assert!(done > 0 && done < tried);
    }
}
