//! Attributes of sizes around every limit: the room in the inode, the room in the block, the largest
//! value.

use rustix::io::Errno;

/// The size of the header of a block, plus that of the zeros after its entries.
const BLOCK_OVERHEAD_BYTES: usize = 36;
/// The size of an entry, without its name (which is stored without the prefix).
const ENTRY_BYTES: usize = 16;
/// The size of the largest value that Linux accepts.
const LARGEST_BYTES: usize = 1 << 16;
/// The length of the longest name that Linux accepts, including its prefix.
const LONGEST_NAME_BYTES: usize = 255;

/// Attributes that are set on one file in turn: the letter of the name without its prefix, how often it
/// is repeated, and the size of the value in bytes.
type Sequence = Vec<(char, usize, usize)>;

/// Sets attributes of all sizes, with a separate file for each sequence. `set` receives the number of
/// the file, the full name and the value. Returns a description and the result of each call.
pub fn set_all(
    block_bytes: usize,
    mut set: impl FnMut(usize, &[u8], &[u8]) -> Result<(), Errno>,
) -> Vec<(String, Result<(), Errno>)> {
    let mut outcomes = Vec::new();
    for (file, sequence) in sequences(block_bytes).into_iter().enumerate() {
        for (step, &(letter, name_len, value_len)) in sequence.iter().enumerate() {
            let name = format!("user.{}", letter.to_string().repeat(name_len));
            let salt = file.to_le_bytes()[0].wrapping_add(step.to_le_bytes()[0]);
            let value = vec![salt; value_len];
            let outcome = set(file, name.as_bytes(), &value);
            outcomes.push((format!("file {file}: {sequence:?}, number {step}"), outcome));
        }
    }
    outcomes
}

/// Returns the number of files that [`set_all`] needs.
#[must_use]
pub fn file_count(block_bytes: usize) -> usize {
    sequences(block_bytes).len()
}

fn entry_bytes(name_len: usize) -> usize {
    ENTRY_BYTES + name_len.next_multiple_of(4)
}

fn sequences(block_bytes: usize) -> Vec<Sequence> {
    let room = block_bytes - BLOCK_OVERHEAD_BYTES;
    let longest = LONGEST_NAME_BYTES - "user.".len();
    let mut sequences = Vec::new();
    for name_len in [1, 4, 5, longest] {
        let full = room - entry_bytes(name_len);
        // Linux stores a value of up to this size in the block if possible. With `ea_inode`, it stores a
        // larger value in an inode of its own.
        let short = room - entry_bytes(1);
        let sizes = [0, 1]
            .into_iter()
            .chain(40..=76)
            .chain(full - 5..=full + 5)
            .chain(short - 5..=short + 5)
            .chain([LARGEST_BYTES - 1, LARGEST_BYTES, LARGEST_BYTES + 1]);
        sequences.extend(sizes.map(|size| vec![('a', name_len, size)]));
    }
    sequences.push(vec![('a', longest + 1, 5)]);
    // A second attribute that just fits, or just does not; a third; then the first is replaced.
    for first in [200, 203, room / 2] {
        let left = room - entry_bytes(1) - first.next_multiple_of(4) - entry_bytes(3);
        for second in [left - 1, left, left + 1, left + 4] {
            sequences.push(vec![
                ('a', 1, first),
                ('b', 3, second),
                ('c', 1, 100),
                ('a', 1, first),
                ('a', 1, first - 4),
                ('a', 1, first + 1),
            ]);
        }
    }
    sequences
}
