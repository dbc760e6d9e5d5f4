//! The superblock: if it parses, its numbers are consistent.
#![no_main]

use larder_ext4::GroupNo;
use larder_ext4::ondisk::group::DescriptorPlace;
use larder_ext4::ondisk::superblock::Superblock;
use larder_fuzz::split_superblock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Superblock::parse(data);
    let Some((sb, _)) = split_superblock(data) else {
        return;
    };
    let last = GroupNo(sb.groups_count - 1);
    assert!(sb.group_first_block(last).0 < sb.blocks_count);
    assert!(sb.inode_table_blocks() <= sb.blocks_per_group);
    assert_eq!(sb.size_bytes() >> sb.block_size_log2, sb.blocks_count);
    let place = DescriptorPlace::of(&sb, last);
    assert!(place.offset_bytes < sb.block_size_bytes() as usize);
    let _ = (sb.cluster_size_bytes(), sb.group_has_superblock(last));
    for name in sb.incompat.names().chain(sb.ro_compat.names()) {
        assert!(!name.is_empty());
    }
});
