//! A descriptor block of the log: it has no more tags than fit into it.
#![no_main]

use larder_ext4::ondisk::jbd2::{BlockKind, Tid, log_block};
use larder_fuzz::journal_format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&features, block)) = data.split_first() else {
        return;
    };
    let _ = log_block(block);
    let Some(format) = journal_format(features) else {
        return;
    };
    let _ = format.block_is_intact(BlockKind::Descriptor, block);
    let mut left = block.len() / 8;
    for tag in format.tags(block) {
        left = left.checked_sub(1).expect("no more tags than fit");
        let _ = format.data_is_intact(Tid(1), &tag, &[]);
    }
});
