//! Attributes whose hashes are equal, or 0: sharing depends on the compared contents, not on the
//! hashes.

mod attributed;
mod image;
mod writable;

use attributed::{block_of, check, each, header, make_files, models, needs, set};
use writable::Writable;

/// Returns a value whose last two words have the same hash for every `number`.
fn colliding(number: u32) -> Vec<u8> {
    let mut value = vec![b'v'; 292];
    value.extend(number.to_le_bytes());
    value.extend((!number.rotate_left(16)).to_le_bytes());
    value
}

#[test]
fn contents_with_one_hash_are_distinguished() {
    for writable in each(&["-t ext2 -b 1024 -I 128", "-t ext4 -b 4096"]) {
        let fs = &writable.fs;
        let files = make_files(fs, 4);
        for (ino, number) in files.iter().zip([1, 2, 1, 2]) {
            set(fs, *ino, b"user.a", &colliding(number)).expect("set");
        }
        let blocks: Vec<_> = files
            .iter()
            .map(|&ino| block_of(fs, ino).expect("a block"))
            .collect();
        assert_eq!(header(fs, blocks[0]).hash, header(fs, blocks[1]).hash);
        assert_ne!(blocks[0], blocks[1]);
        assert_eq!(blocks[..2], blocks[2..]);
        let expected = models(fs, &files);
        check(&writable, &expected);
    }
}

/// New contents are compared with at most 16 contents that have the same hash. So if 32 contents are
/// set one by one, and then again for other files in the same order, few are shared.
#[test]
fn contents_with_one_hash_are_compared_with_few_others() {
    const MAX_COMPARED: u64 = 16;
    if needs() {
        return;
    }
    let writable = Writable::make("-t ext4 -b 1024", "20M").expect("mke2fs");
    let fs = &writable.fs;
    let files = make_files(fs, 64);
    for (ino, number) in files.iter().zip((0..32).chain(0..32)) {
        set(fs, *ino, b"user.a", &colliding(number)).expect("set");
    }
    assert!(fs.share_counts().shares <= MAX_COMPARED);
    let expected = models(fs, &files);
    check(&writable, &expected);
}

/// A hash of 0 marks a block that must not be shared. It results from an entry with a hash of 0.
#[test]
fn contents_without_a_hash_are_not_shared() {
    if needs() {
        return;
    }
    let writable = Writable::make("-t ext4 -b 1024 -I 128", "20M").expect("mke2fs");
    let fs = &writable.fs;
    let files = make_files(fs, 2);
    let mut value = vec![0; 300];
    value[..4].copy_from_slice(&u32::from(b'a').rotate_left(16).to_le_bytes());
    for &ino in &files {
        set(fs, ino, b"user.a", &value).expect("set");
    }
    let blocks = [0, 1].map(|at| block_of(fs, files[at]).expect("a block"));
    assert_ne!(blocks[0], blocks[1]);
    assert_eq!(header(fs, blocks[0]).hash, 0);
    let expected = models(fs, &files);
    check(&writable, &expected);
}
