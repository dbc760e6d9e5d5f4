//! The file of an overlay. The input patches the file of an overlay with changes: two bytes that choose one of its bytes
//! that are not zero, and the new value.
#![no_main]

use larder_fuzz::changed_overlay;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| changed_overlay(data));
