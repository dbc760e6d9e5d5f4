//! A disk with a partition table. The checksums of its GPT are corrected first, so that the entries that they protect
//! are parsed.
#![no_main]

use larder_block::{BlockDevice, MemoryDevice};
use larder_fuzz::gpt_with_checksums;
use larder_image::{MAX_PARTITIONS, examine};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for bytes in [data.to_vec(), gpt_with_checksums(data)] {
        let device = MemoryDevice::new(bytes);
        let contents = examine(&device, None).expect("memory can be read");
        let Some(table) = contents.table() else {
            continue;
        };
        assert!(table.partitions.len() <= MAX_PARTITIONS);
        for one in &table.partitions {
            assert!(one.size_bytes > 0);
            assert!(one.offset_bytes + one.size_bytes <= device.size_bytes());
        }
        if let Ok(partition) = table.select(None) {
            assert!(partition.is_ext);
        }
    }
});
