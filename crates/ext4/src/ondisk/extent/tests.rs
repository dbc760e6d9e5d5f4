use super::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The first file block, the length, and the physical block of an extent.
type Entry = (u32, u16, u32);

/// Returns a node with room for `max` entries.
fn node(depth: u16, max: u16, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let count = u16::try_from(entries.len()).unwrap();
    for field in [MAGIC, count, max, depth, 0, 0] {
        bytes.extend(field.to_le_bytes());
    }
    for &(start, length, block) in entries {
        bytes.extend(start.to_le_bytes());
        if depth == 0 {
            bytes.extend(length.to_le_bytes());
            bytes.extend([0, 0]);
            bytes.extend(block.to_le_bytes());
        } else {
            bytes.extend(block.to_le_bytes());
            bytes.extend([0; 4]);
        }
    }
    bytes.resize(12 + usize::from(max) * 12, 0);
    bytes
}

const ALL: Range<u64> = 0..FILE_BLOCKS;

#[test]
fn leaf_distinguishes_blocks_in_and_between_extents() {
    let bytes = node(0, 4, &[(10, 5, 100), (20, 0x8000 + 2, 200)]);
    let leaf = Node::parse(&bytes).unwrap();
    leaf.check_order().unwrap();
    let extent = |blocks, block, is_written| {
        Found::Extent(Extent {
            file_blocks: blocks,
            block: FsBlock(block),
            is_written,
        })
    };
    let table = [
        (0, Found::Hole(10)),
        (9, Found::Hole(10)),
        (10, extent(10..15, 100, true)),
        (14, extent(10..15, 100, true)),
        (15, Found::Hole(20)),
        (21, extent(20..22, 200, false)),
        (22, Found::Hole(FILE_BLOCKS)),
    ];
    for (target, expected) in table {
        assert_eq!(leaf.find(FileBlock(target), &ALL), Ok(expected), "{target}");
    }
}

#[test]
fn leaf_extent_of_32768_blocks_is_written() {
    let bytes = node(0, 1, &[(0, 0x8000, 100)]);
    let found = Node::parse(&bytes).unwrap().find(FileBlock(0), &ALL);
    let Ok(Found::Extent(extent)) = found else {
        panic!("{found:?}");
    };
    assert!(extent.is_written);
    assert_eq!(extent.file_blocks, 0..32768);
}

#[test]
fn index_returns_the_child_that_may_map_a_block() {
    let bytes = node(1, 4, &[(10, 0, 100), (20, 0, 200)]);
    let index = Node::parse(&bytes).unwrap();
    index.check_order().unwrap();
    let child = |block, file_blocks| {
        Found::Child(Child {
            block: FsBlock(block),
            depth: 0,
            file_blocks,
        })
    };
    assert_eq!(index.find(FileBlock(9), &(5..30)), Ok(Found::Hole(10)));
    assert_eq!(index.find(FileBlock(19), &(5..30)), Ok(child(100, 10..20)));
    assert_eq!(index.find(FileBlock(20), &(5..30)), Ok(child(200, 20..30)));
}

#[test]
fn node_damaged_header_is_refused() {
    let good = node(0, 4, &[(0, 1, 100)]);
    for (at, value) in [(0, 0), (2, 5), (4, 0), (4, 200), (6, 6)] {
        let mut bytes = good.clone();
        bytes[at] = value;
        assert!(Node::parse(&bytes).is_err(), "byte {at} = {value}");
    }
    assert!(Node::parse(&good[..11]).is_err());
    assert!(Node::parse(&node(1, 4, &[])).is_err());
}

#[test]
fn node_unsorted_or_overlapping_entries_are_refused() {
    let table: [(u16, &[Entry]); 5] = [
        (0, &[(5, 2, 100), (0, 1, 200)]),
        (0, &[(5, 2, 100), (6, 1, 200)]),
        (0, &[(5, 0, 100)]),
        (0, &[(u32::MAX, 2, 100)]),
        (1, &[(5, 0, 100), (5, 0, 200)]),
    ];
    for (depth, entries) in table {
        let bytes = node(depth, 4, entries);
        let node = Node::parse(&bytes).unwrap();
        assert!(node.check_order().is_err(), "{entries:?}");
    }
}

#[test]
fn node_entries_outside_its_range_are_refused() {
    let bytes = node(0, 4, &[(10, 5, 100)]);
    let leaf = Node::parse(&bytes).unwrap();
    assert!(leaf.find(FileBlock(12), &(11..30)).is_err());
    assert!(leaf.find(FileBlock(12), &(0..13)).is_err());
}

#[test]
fn adjacent_extents_merge_up_to_the_maximum_length() {
    let extent = |file_blocks: Range<u64>, block, is_written| Extent {
        file_blocks,
        block: FsBlock(block),
        is_written,
    };
    for (is_written, longest) in [(true, 32_768), (false, 32_767)] {
        let left = extent(5..longest + 4, 100, is_written);
        let right = left.part(longest + 3..longest + 4);
        let left = left.part(5..longest + 3);
        assert!(left.can_merge(&right));
        let more = extent(longest + 3..longest + 6, right.block.0, is_written);
        assert!(!left.can_merge(&more), "too long");
        let other = extent(right.file_blocks.clone(), right.block.0, !is_written);
        assert!(!left.can_merge(&other), "another state");
        let away = extent(right.file_blocks.clone(), right.block.0 + 1, is_written);
        assert!(!left.can_merge(&away), "another location");
    }
}

prop_compose! {
    fn any_extent()(
        start in 0..(1_u64 << 32) - 32_768,
        blocks in 1..32_768_u64,
        block in 0..1_u64 << 48,
        is_written in any::<bool>(),
    ) -> Extent {
        Extent { file_blocks: start..start + blocks, block: FsBlock(block), is_written }
    }
}

prop_compose! {
    fn any_index()(start in 0..1_u64 << 32, block in 0..1_u64 << 48) -> Index {
        Index { start, block: FsBlock(block) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(0),
        ..ProptestConfig::default()
    })]

    #[test]
    fn encoded_node_decodes_to_the_same_entries(
        extents in proptest::collection::vec(any_extent(), 0..84),
        indexes in proptest::collection::vec(any_index(), 1..84),
        depth in 1_u16..=DEPTH_MAX,
        seed in any::<u32>(),
    ) {
        let seed = Crc32c(seed);
        let mut bytes = [0xAA; 1024];
        encode_node(&mut bytes, 0, &extents, Some(seed));
        prop_assert!(checksum_is_right(&bytes, seed));
        prop_assert_eq!(Node::parse(&bytes).unwrap().extents(), extents);
        encode_node(&mut bytes, depth, &indexes, Some(seed));
        prop_assert!(checksum_is_right(&bytes, seed));
        let node = Node::parse(&bytes).unwrap();
        prop_assert_eq!((node.depth(), node.indexes()), (depth, indexes));
    }

    #[test]
    fn node_of_arbitrary_bytes_does_not_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..256),
        header in any::<bool>(),
        entries in 0_u8..20,
        depth in 0_u8..3,
        target in any::<u32>(),
    ) {
        if header && bytes.len() >= 12 {
            bytes[..8].copy_from_slice(&[0x0A, 0xF3, entries, 0, 18, 0, depth, 0]);
        }
        let _ = checksum_is_right(&bytes, Crc32c::START);
        if let Ok(node) = Node::parse(&bytes) {
            let _ = node.check_order();
            if let Ok(Found::Hole(end)) = node.find(FileBlock(target), &ALL) {
                prop_assert!(end > u64::from(target));
            }
        }
    }
}
