//! Traces with other bytes than were written, and files that are no traces.

use super::{events, read, write};
use larder_lab::trace::Tolerance;
use larder_testkit::{Random, Seed};
use std::fs;

const ROWS: usize = 200;
const MUTATIONS: u64 = 1000;

#[test]
fn trace_with_other_bits_gives_its_own_rows_or_an_error() {
    let seed = Seed::from_environment(4);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let events = events(seed, 5 * ROWS);
    write(&path, &events, ROWS);
    let bytes = fs::read(&path).unwrap();
    let mut refused = 0;
    for number in 0..MUTATIONS {
        let part = seed.part(number);
        let mut random = Random::new(part);
        let mut mutated = bytes.clone();
        for _ in 0..=random.below(3) {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            mutated[at] ^= 1 << random.below(8);
        }
        fs::write(&path, &mutated).unwrap();
        match read(&path, Tolerance::Whole) {
            // What was hit is behind a row group, and of use to nobody now.
            Ok(read) => assert!(read == events, "{part}: other rows"),
            Err(_) => refused += 1,
        }
        if let Ok(read) = read(&path, Tolerance::UpToLastRowGroup) {
            assert!(read == events[..read.len()], "{part}: other rows");
        }
    }
    assert!(
        refused > MUTATIONS / 4,
        "{seed}: only {refused} were refused"
    );
}
