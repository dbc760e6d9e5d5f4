//! A revoke block of the log: it has no more revocations than fit into it.
#![no_main]

use larder_ext4::ondisk::jbd2::BlockKind;
use larder_fuzz::journal_format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&features, block)) = data.split_first() else {
        return;
    };
    let Some(format) = journal_format(features) else {
        return;
    };
    let _ = format.block_is_intact(BlockKind::Revoke, block);
    if let Some(revoked) = format.revoked(block) {
        assert!(revoked.count() <= block.len() / 4);
    }
});
