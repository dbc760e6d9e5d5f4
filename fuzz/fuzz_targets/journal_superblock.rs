//! The journal's superblock: the log and the fast commits are inside the journal.
#![no_main]

use larder_ext4::ondisk::jbd2::JournalSuperblock;
use larder_fuzz::journal_superblock_with_checksum;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = JournalSuperblock::parse(data);
    let Some(bytes) = data.first_chunk() else {
        return;
    };
    let Ok(sb) = JournalSuperblock::parse(&journal_superblock_with_checksum(bytes)) else {
        return;
    };
    assert!(0 < sb.first && sb.first < sb.end && sb.end <= sb.length_blocks);
    assert!(sb.start == 0 || (sb.first..sb.end).contains(&sb.start));
    let fast = sb.fast_commit_blocks();
    assert!(fast.is_empty() || (fast.start > sb.end && fast.end == sb.length_blocks));
    let _ = sb.format();
});
