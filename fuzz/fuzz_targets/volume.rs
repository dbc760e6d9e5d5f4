//! A complete image with damaged metadata. The input is the number of the image, then patches of
//! eight bytes each: the index of a metadata block (1 byte), the offset in it (2), the length (1)
//! and the new bytes (4).
#![no_main]

use larder_fuzz::{BaseImage, open_and_walk, patch};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static BASES: LazyLock<Vec<BaseImage>> = LazyLock::new(|| {
    let names = ["ext2.img", "ext4.img", "journal.img"];
    names.into_iter().map(BaseImage::read).collect()
});

fuzz_target!(|data: &[u8]| {
    let Some((&which, patches)) = data.split_first() else {
        return;
    };
    let base = &BASES[usize::from(which) % BASES.len()];
    let mut device = base.device();
    for bytes in patches.as_chunks().0 {
        let (offset_bytes, bytes) = patch(&base.metadata_offsets, bytes);
        if device.patch(offset_bytes, bytes).is_err() {
            return;
        }
    }
    open_and_walk(device);
});
