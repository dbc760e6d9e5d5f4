//! The file of an overlay. The input consists of patches of this file: two bytes that choose one of the bytes that are
//! neither zero nor content, and the new value.
#![no_main]

use larder_fuzz::changed_overlay;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| changed_overlay(data));
