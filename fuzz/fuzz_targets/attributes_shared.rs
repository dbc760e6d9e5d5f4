//! Two attribute blocks that files may share: their headers, and their attributes written again. The
//! input is a number of users (4 bytes), and the two blocks.
#![no_main]

use larder_ext4::ondisk::checksum::Crc32c;
use larder_ext4::ondisk::xattr::{
    BlockHeader, StoredXattr, UserCount, XattrEntries, fill_block, has_same_contents,
    set_block_checksum,
};
use libfuzzer_sys::fuzz_target;

/// Returns the attributes in `block`, up to the first invalid one.
fn attributes(block: &[u8]) -> Vec<StoredXattr> {
    let entries = XattrEntries::in_block(block).into_iter().flatten();
    let whole = entries.map_while(Result::ok);
    whole.map(|entry| StoredXattr::from_entry(&entry)).collect()
}

fuzz_target!(|data: &[u8]| {
    let Some((references, blocks)) = data.split_first_chunk() else {
        return;
    };
    let references = u32::from_le_bytes(*references);
    let (block, other) = blocks.split_at(blocks.len() / 2);
    let is_same = has_same_contents(block, other);
    assert_eq!(is_same, has_same_contents(other, block));
    assert!(has_same_contents(block, block));
    assert_eq!(BlockHeader::of(block).is_some(), block.len() >= 16);

    let mut written = vec![0; block.len().clamp(1024, 65536)];
    let mut first = attributes(block);
    if fill_block(&mut written, &mut first) {
        set_block_checksum(&mut written, Crc32c(references));
        UserCount::new(written.len()).set(&mut written[UserCount::PART], references);
        let counted = written.clone();
        set_block_checksum(&mut written, Crc32c(references));
        assert!(
            counted == written,
            "the checksum does not match the number of users"
        );
        let header = BlockHeader::of(&written).expect("the block has a header");
        assert_eq!(header.references, references);
        let mut again = attributes(&written);
        assert_eq!(again.len(), first.len());
        let mut rewritten = vec![0; written.len()];
        assert!(fill_block(&mut rewritten, &mut again));
        assert!(has_same_contents(&written, &rewritten));
    }
});
