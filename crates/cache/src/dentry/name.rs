//! Names in directories: their hashes, and their layout in a slot.
//!
//! # Model
//! `struct qstr`. A name is stored in whole words, padded with zeros. Therefore a name that contains
//! a zero byte, which is invalid anyway, is not accepted.
//!
//! # Hash
//! The author of an image chooses names and inode numbers. If many names shared a bucket, each lookup would
//! have to walk a long chain. Therefore names are hashed with a random seed
//! ([`BudgetConfig::name_seed`](crate::budget::BudgetConfig::name_seed)). If the user selects another hash
//! function for dentries, names are hashed as in Linux 2.2, without a seed. A tape always gets the hash
//! without a seed, which is computed from the words of the name for each event.

use super::name_hash::{self, name_hash};
use crate::hash::HashKey;
use crate::table::{Layout, SeededHash, Slot};

/// The hash function of names.
#[derive(Clone, Copy, Debug)]
pub(super) enum NameHash {
    /// Larder's own function, with a seed.
    Seeded(SeededHash),
    /// The function of Linux 2.2, without a seed.
    Published,
}

/// A name in a directory, in the form in which it is compared and hashed. It has fewer than `N` * 8 bytes.
#[derive(Debug)]
pub(super) struct Name<const N: usize> {
    parent: u32,
    hash: u32,
    words: [u64; N],
    /// The number of words that contain bytes of the name.
    used: usize,
}

impl<const N: usize> Name<N> {
    /// Converts `name`. Returns `None` if the name is empty or too long, or contains a zero byte, which
    /// could not be distinguished from the padding.
    #[inline]
    pub fn new(hash: NameHash, parent: u32, name: &[u8]) -> Option<Self> {
        if name.is_empty() || name.len() >= N * 8 || name.contains(&0) {
            return None;
        }
        let mut words = [0; N];
        let (whole, rest) = name.as_chunks::<8>();
        for (word, bytes) in words.iter_mut().zip(whole) {
            *word = u64::from_le_bytes(*bytes);
        }
        if !rest.is_empty() {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            words[whole.len()] = u64::from_le_bytes(bytes);
        }
        let used = name.len().div_ceil(8);
        let hash = match hash {
            NameHash::Seeded(seeded) => {
                let words = words[..used].iter();
                upper(words.fold(u64::from(parent), |hash, word| seeded.fold(hash, *word)))
            }
            NameHash::Published => name_hash(name),
        };
        Some(Self {
            parent,
            hash,
            words,
            used,
        })
    }
}

/// The input of the hash function: the directory, and the hash of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HashInput {
    parent: u32,
    name: u32,
}

impl From<HashInput> for u64 {
    #[inline]
    fn from(input: HashInput) -> Self {
        u64::from(input.name) | u64::from(input.parent) << 32
    }
}

impl From<HashInput> for HashKey {
    fn from(input: HashInput) -> Self {
        Self {
            object: input.parent.into(),
            index: input.name.into(),
        }
    }
}

/// The layout of a slot. The upper half of the first word contains the inode number of the directory, and
/// the lower half contains that of the file. The other words contain the name, and the file type in the
/// last byte. The half word contains the hash of the name.
#[derive(Debug)]
pub(super) struct NameLayout<const N: usize>;

impl<const N: usize, const W: usize> Layout<W> for NameLayout<N> {
    type Key<'k> = Name<N>;
    type HashInput = HashInput;

    #[inline]
    fn hash_input(key: &Name<N>) -> HashInput {
        HashInput {
            parent: key.parent,
            name: key.hash,
        }
    }

    fn hash_input_in(slot: &Slot<W>) -> HashInput {
        HashInput {
            parent: upper(slot.word(0)),
            name: slot.aux(),
        }
    }

    fn tape_key(key: &Name<N>) -> HashKey {
        tape_key(key.parent, key.words.iter().copied())
    }

    fn tape_key_in(slot: &Slot<W>) -> HashKey {
        let last = name_of_last(slot.word(N));
        let words = (1..N).map(|i| slot.word(i)).chain([last]);
        tape_key(upper(slot.word(0)), words)
    }

    #[inline]
    fn matches(key: &Name<N>, slot: &Slot<W>) -> bool {
        // The word after those of the name is compared as well. In the slot, it is zero unless the slot has
        // a longer name.
        slot.aux() == key.hash
            && upper(slot.word(0)) == key.parent
            && (0..(N - 1).min(key.used + 1)).all(|i| slot.word(i + 1) == key.words[i])
            && (key.used + 1 < N || name_of_last(slot.word(N)) == key.words[N - 1])
    }

    fn store(key: &Name<N>, slot: &Slot<W>) {
        slot.set_aux(key.hash);
        slot.set_word(0, u64::from(key.parent) << 32);
        for (i, word) in key.words.iter().enumerate() {
            slot.set_word(i + 1, *word);
        }
    }
}

/// Returns the key that is reported to a tape for the name in `words` in the directory `parent`.
#[cold]
fn tape_key(parent: u32, words: impl Iterator<Item = u64>) -> HashKey {
    HashInput {
        parent,
        name: name_hash::of_words(words),
    }
    .into()
}

/// Returns true if two slots, with `N` words for the name, have the same name in the same directory.
pub(super) fn is_same<const N: usize, const W: usize>(a: &Slot<W>, b: &Slot<W>) -> bool {
    upper(a.word(0)) == upper(b.word(0))
        && (1..N).all(|i| a.word(i) == b.word(i))
        && name_of_last(a.word(N)) == name_of_last(b.word(N))
}

/// Writes the inode number and the file type into `slot`, which must contain the name `key`.
pub(super) fn set_value<const N: usize, const W: usize>(
    key: &Name<N>,
    slot: &Slot<W>,
    ino: u32,
    file_type: u8,
) {
    slot.set_word(0, u64::from(key.parent) << 32 | u64::from(ino));
    slot.set_word(N, key.words[N - 1] | u64::from(file_type) << 56);
}

/// Returns the inode number and file type in `slot`.
#[inline]
pub(super) fn value_in<const W: usize>(slot: &Slot<W>) -> (u32, u8) {
    let [.., file_type] = slot.word(W - 1).to_le_bytes();
    (lower(slot.word(0)), file_type)
}

/// Returns the inode number of the directory in `slot`, and the name, which is padded with zeros.
pub(super) fn key_in<const W: usize>(slot: &Slot<W>) -> (u32, impl Iterator<Item = u8>) {
    let last = name_of_last(slot.word(W - 1));
    let words = (1..W - 1).map(|i| slot.word(i)).chain([last]);
    (upper(slot.word(0)), words.flat_map(u64::to_le_bytes))
}

/// Returns `word`, the last word of a slot, without the file type.
#[inline]
fn name_of_last(word: u64) -> u64 {
    word & ((1 << 56) - 1)
}

#[inline]
fn upper(word: u64) -> u32 {
    u32::try_from(word >> 32).unwrap_or_default()
}

#[inline]
fn lower(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or_default()
}
