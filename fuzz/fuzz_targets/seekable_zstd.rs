//! A file compressed by zstd, with a seek table. The input is the number of frames at the end of the file (1 byte), and the
//! file.
#![no_main]

use larder_fuzz::{read_disk, with_seek_table};
use larder_image::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    read_disk(data, Format::Zstd);
    if let Some((&frames, file)) = data.split_first() {
        read_disk(&with_seek_table(file, frames), Format::Zstd);
    }
});
