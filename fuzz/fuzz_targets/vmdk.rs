//! A sparse VMDK image.
#![no_main]

use larder_fuzz::read_disk;
use larder_image::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| read_disk(data, Format::Vmdk));
