//! Attributes from a pool that is so small that files share them.

use crate::seed::Random;

/// The names.
const NAMES: [&[u8]; 3] = [b"user.one", b"user.two", b"trusted.three"];

/// The values, as letter and length. None fits in an inode of 256 bytes, and three fit in a block of 1 KiB.
/// The last one does not fit in such a block: it needs its own inode, or cannot be set.
const VALUES: [(u8, usize); 4] = [(b'p', 120), (b'q', 120), (b'r', 300), (b's', 3000)];

/// Returns one of the names.
pub(super) fn name(random: &mut Random) -> &'static [u8] {
    random.choose(&NAMES).copied().unwrap_or(NAMES[0])
}

/// Returns one of the names, and one of the values.
pub(super) fn attribute(random: &mut Random) -> (&'static [u8], Vec<u8>) {
    let (letter, len) = random.choose(&VALUES).copied().unwrap_or(VALUES[0]);
    (name(random), vec![letter; len])
}
