//! An inode under any superblock: every field decodes, and the cached form is the same.
#![no_main]

use larder_ext4::ondisk::checksum::Crc32c;
use larder_ext4::ondisk::inode::{BASE_INODE_BYTES, checksum_is_right};
use larder_ext4::{Ino, Inode};
use larder_fuzz::split_superblock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((sb, bytes)) = split_superblock(data) else {
        return;
    };
    let bytes = &bytes[..bytes.len().min(sb.inode_size_bytes.into())];
    let Ok(inode) = Inode::decode(&sb, Ino(12), bytes) else {
        return;
    };
    assert_eq!(Inode::from_words(Ino(12), inode.words()), inode);
    assert!(i64::try_from(inode.size_bytes()).is_ok());
    assert!(BASE_INODE_BYTES + usize::from(inode.extra_isize()) <= bytes.len());
    for time in [inode.atime(), inode.mtime(), inode.ctime()] {
        assert!(time.nanoseconds < 1_000_000_000);
    }
    let _ = (
        inode.kind(),
        inode.device(),
        inode.crtime(),
        inode.file_acl(),
    );
    let _ = (inode.blocks_512(sb.block_size_bytes()), inode.version());
    let _ = checksum_is_right(bytes, inode.extra_isize(), Crc32c::START);
});
