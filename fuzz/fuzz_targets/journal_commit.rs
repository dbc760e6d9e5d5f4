//! A commit block of the log.
#![no_main]

use larder_ext4::ondisk::jbd2::{BlockKind, commit};
use larder_fuzz::journal_format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&features, block)) = data.split_first() else {
        return;
    };
    let _ = commit(block);
    if let Some(format) = journal_format(features) {
        let _ = format.block_is_intact(BlockKind::Commit, block);
    }
});
