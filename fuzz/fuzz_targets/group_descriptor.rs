//! A group descriptor under any superblock: its inode table is inside the file system.
#![no_main]

use larder_ext4::GroupNo;
use larder_ext4::ondisk::features::RoCompat;
use larder_ext4::ondisk::group::GroupDesc;
use larder_fuzz::split_superblock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mut sb, bytes)) = split_superblock(data) else {
        return;
    };
    let group = GroupNo(sb.groups_count - 1);
    let _ = GroupDesc::parse(&sb, group, bytes);
    sb.ro_compat
        .remove(RoCompat::METADATA_CSUM | RoCompat::GDT_CSUM);
    if let Ok(desc) = GroupDesc::parse(&sb, group, bytes) {
        assert!(sb.contains_blocks(desc.inode_table, u64::from(sb.inode_table_blocks())));
    }
});
