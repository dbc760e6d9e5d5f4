//! A complete image whose journal contains one fast commit with a valid checksum. The input is its
//! tags.
#![no_main]

use larder_ext4::ondisk::checksum::Crc32c;
use larder_fuzz::{BLOCK_BYTES, BaseImage, open_and_walk};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static BASE: LazyLock<(BaseImage, u64)> = LazyLock::new(|| {
    let area = std::fs::read_to_string(larder_fuzz::images().join("fast-commit.area"));
    let area = area.expect("`cargo run --example seeds` created the file");
    let offset_bytes = area.trim().parse().expect("the file contains an offset");
    (BaseImage::read("fast-commit.img"), offset_bytes)
});

/// A head tag: header, features and transaction. A tail tag has a header, a transaction and a
/// checksum.
const HEAD: [u8; 12] = [9, 0, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0];
const TAIL_BYTES: usize = 12;

fuzz_target!(|data: &[u8]| {
    let room = BLOCK_BYTES - HEAD.len() - TAIL_BYTES;
    let Some(tags) = data.get(..data.len().min(room)) else {
        return;
    };
    let mut block = [&HEAD, tags].concat();
    // The tail's value is the rest of the block.
    let len = u16::try_from(BLOCK_BYTES - block.len() - 4).unwrap_or(0);
    block.extend([8, 0]);
    block.extend(len.to_le_bytes());
    block.extend(1_u32.to_le_bytes());
    let checksum = Crc32c(0).bytes(&block).0;
    block.extend(checksum.to_le_bytes());
    let (base, offset_bytes) = &*BASE;
    let mut device = base.device();
    if device.patch(*offset_bytes, &block).is_ok() {
        open_and_walk(device);
    }
});
