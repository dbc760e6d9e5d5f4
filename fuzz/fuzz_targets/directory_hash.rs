//! The hash of any name: it is even, and never the value that marks the end of a directory.
#![no_main]

use larder_ext4::ondisk::hash::HashVersion;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, bool, [u32; 4], &[u8])| {
    let (version, unsigned, seed, name) = input;
    if let Some(version) = HashVersion::from_disk(version, unsigned) {
        let hash = version.hash(seed, name);
        assert!(hash & 1 == 0 && hash < 0xffff_fffe);
    }
});
