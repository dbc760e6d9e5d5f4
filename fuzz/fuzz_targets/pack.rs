//! A pack: its head, its map, and the units after it. The checksum of the head and the map is corrected first, so that
//! the map is parsed.
#![no_main]

use larder_fuzz::pack_with_checksum;
use larder_remote::UNIT_BYTES;
use larder_remote::profile::pack::Head;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for bytes in [data, &pack_with_checksum(data)] {
        let Some((head, rest)) = bytes.split_first_chunk() else {
            return;
        };
        let Ok(head) = Head::parse(head) else {
            continue;
        };
        let Some((rest, mut units)) = rest.split_at_checked(head.rest_bytes()) else {
            continue;
        };
        let Ok(map) = head.map(rest) else {
            continue;
        };
        for entry in map.entries() {
            assert!(entry.len > 0 && entry.len as u64 <= UNIT_BYTES);
            let Some((unit, others)) = units.split_at_checked(entry.len) else {
                break;
            };
            let _ = entry.matches(unit);
            units = others;
        }
    }
});
