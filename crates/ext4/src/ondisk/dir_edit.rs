//! Modification of a chain of directory records, in a block or in a part of an inode.
//!
//! Every function validates the part of the chain that it walks, and returns an error if that part
//! is damaged. It does not rely on an earlier validation.

use super::Damage;
use super::dir::{
    Dirent, NAME_OFFSET, Record, Records, TAIL_BYTES, TAIL_FILE_TYPE, record_len_bytes,
};
use super::fields::{put16, put32};
use crate::Ino;
use std::ops::Range;

/// The contents of a new entry.
#[derive(Clone, Copy, Debug)]
pub struct NewDirent<'a> {
    /// The number of the inode that the name refers to.
    pub ino: Ino,
    /// The type byte; 0 without the feature `filetype`.
    pub file_type: u8,
    /// The name, of 1 to 255 bytes.
    pub name: &'a [u8],
}

impl<'a> From<Dirent<'a>> for NewDirent<'a> {
    fn from(dirent: Dirent<'a>) -> Self {
        Self {
            ino: dirent.ino,
            file_type: dirent.file_type,
            name: dirent.name,
        }
    }
}

/// Returns the offset of the first record that has space for another name of `name_len` bytes.
pub fn find_room(chain: &[u8], name_len: usize) -> Result<Option<usize>, Damage> {
    let wanted = record_len_bytes(name_len);
    for record in Records::new(chain) {
        let record = record?;
        if (record.end - record.offset).saturating_sub(record.used_bytes()) >= wanted {
            return Ok(Some(record.offset));
        }
    }
    Ok(None)
}

/// Adds an entry in the record at `offset`, which [`find_room`] must have returned. If that record
/// is in use, its unused end becomes the record of the new entry.
pub fn insert_at(chain: &mut [u8], offset: usize, entry: NewDirent<'_>) -> Result<(), Damage> {
    let record = record_at(chain, offset)?;
    let (used, end) = (record.used_bytes(), record.end);
    let at = offset + used;
    if end.saturating_sub(at) < record_len_bytes(entry.name.len()) {
        return Err("directory record has no space for the entry");
    }
    if used > 0 {
        set_len(chain, offset, used);
    }
    put(chain, at..end, entry);
    Ok(())
}

/// Adds an entry to the first record with enough space. Returns false if there is no such record.
pub fn insert(chain: &mut [u8], entry: NewDirent<'_>) -> Result<bool, Damage> {
    let Some(offset) = find_room(chain, entry.name.len())? else {
        return Ok(false);
    };
    insert_at(chain, offset, entry)?;
    Ok(true)
}

/// Changes the inode and type of the entry `name`. Returns false if there is no such entry.
pub fn retarget(chain: &mut [u8], name: &[u8], ino: Ino, file_type: u8) -> Result<bool, Damage> {
    let Some((_, record)) = find(chain, name)? else {
        return Ok(false);
    };
    put32(chain, record.start, ino.0);
    chain[record.start + 7] = file_type;
    Ok(true)
}

/// Removes the entry `name`. Its space is added to the preceding record. If the entry is in the
/// first record, that record becomes free instead. Returns false if there is no such entry.
pub fn remove(chain: &mut [u8], name: &[u8]) -> Result<bool, Damage> {
    let Some((before, record)) = find(chain, name)? else {
        return Ok(false);
    };
    match before {
        Some(before) => {
            chain[record.clone()].fill(0);
            set_len(chain, before, record.end - before);
        }
        None => free(chain, record),
    }
    Ok(true)
}

/// Makes the whole chain one free record.
///
/// A chain that is too short for the header of a record is filled with zeros.
pub fn clear(chain: &mut [u8]) {
    if chain.len() < NAME_OFFSET {
        chain.fill(0);
        return;
    }
    free(chain, 0..chain.len());
}

/// Replaces the chain with the given entries, without space between them. The last entry gets all
/// remaining space. Returns false if the entries do not fit; the chain then contains only some of
/// them.
pub fn fill<'e>(chain: &mut [u8], entries: impl IntoIterator<Item = NewDirent<'e>>) -> bool {
    clear(chain);
    let mut last = None;
    let mut at = 0;
    for entry in entries {
        let len = record_len_bytes(entry.name.len());
        if chain.len() - at < len {
            return false;
        }
        if let Some(last) = last {
            set_len(chain, last, at - last);
        }
        put(chain, at..chain.len(), entry);
        last = Some(at);
        at += len;
    }
    true
}

/// Extends the chain in the first `len` bytes of `chain` to the whole of `chain`. The last record
/// gets the added space. If the old chain was too short for a record, `chain` becomes one free
/// record.
pub fn extend(chain: &mut [u8], len: usize) -> Result<(), Damage> {
    let before = chain.get(..len).ok_or("directory block is truncated")?;
    let last = Records::new(before)
        .try_fold(None, |_, record| record.map(|record| Some(record.offset)))?;
    match last {
        Some(last) => set_len(chain, last, chain.len() - last),
        None => clear(chain),
    }
    Ok(())
}

/// Splits a block into its chain and its tail. Returns `None` if it has no tail.
pub fn split_tail_mut(block: &mut [u8]) -> Option<(&mut [u8], &mut [u8; TAIL_BYTES])> {
    super::dir::split_tail(block)?;
    block.split_last_chunk_mut()
}

/// Writes a tail to the last bytes of `block`. The caller must set its checksum afterwards.
pub fn make_tail(block: &mut [u8]) {
    if let Some((_, tail)) = block.split_last_chunk_mut() {
        *tail = [0, 0, 0, 0, 12, 0, 0, TAIL_FILE_TYPE, 0, 0, 0, 0];
    }
}

/// Sets the checksum in a tail.
pub fn set_tail_checksum(tail: &mut [u8; TAIL_BYTES], checksum: u32) {
    put32(tail, 8, checksum);
}

/// The offset of the preceding record, if any, and the range of the record that was found.
type Found = (Option<usize>, Range<usize>);

/// Returns the record of `name`.
fn find(chain: &[u8], name: &[u8]) -> Result<Option<Found>, Damage> {
    let mut before = None;
    for record in Records::new(chain) {
        let record = record?;
        if record.dirent.is_some_and(|dirent| dirent.name == name) {
            return Ok(Some((before, record.offset..record.end)));
        }
        before = Some(record.offset);
    }
    Ok(None)
}

fn record_at(chain: &[u8], offset: usize) -> Result<Record<'_>, Damage> {
    Records::new(chain)
        .find(|record| record.is_ok_and(|record| record.offset == offset) || record.is_err())
        .unwrap_or(Err("directory record no longer exists"))
}

/// Writes a record with `entry` that fills `range` of the chain.
fn put(chain: &mut [u8], range: Range<usize>, entry: NewDirent<'_>) {
    let at = range.start;
    put32(chain, at, entry.ino.0);
    set_len(chain, at, range.end - at);
    chain[at + 6] = u8::try_from(entry.name.len()).unwrap_or(u8::MAX);
    chain[at + 7] = entry.file_type;
    let name_end = at + NAME_OFFSET + entry.name.len();
    chain[at + NAME_OFFSET..name_end].copy_from_slice(entry.name);
    let padded = at + record_len_bytes(entry.name.len());
    chain[name_end..padded].fill(0);
}

/// Makes `range` of the chain one free record.
fn free(chain: &mut [u8], range: Range<usize>) {
    chain[range.clone()].fill(0);
    if !range.is_empty() {
        set_len(chain, range.start, range.end - range.start);
    }
}

/// Sets the length of the record at `at`. The length 65,536, which 16 bits cannot represent, is
/// stored as 65,535.
fn set_len(chain: &mut [u8], at: usize, len_bytes: usize) {
    put16(chain, at + 4, u16::try_from(len_bytes).unwrap_or(u16::MAX));
}

#[cfg(test)]
mod tests {
    use super::super::dir::Dirents;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn names(chain: &[u8]) -> BTreeMap<Vec<u8>, Ino> {
        Dirents::new(chain)
            .map(|dirent| dirent.expect("a valid chain"))
            .map(|dirent| (dirent.name.to_vec(), dirent.ino))
            .collect()
    }

    fn entry(name: &[u8], ino: u32) -> NewDirent<'_> {
        NewDirent {
            ino: Ino(ino),
            file_type: 1,
            name,
        }
    }

    #[test]
    fn record_of_a_whole_block_of_64_kib_is_read_back() {
        let mut block = vec![1; 1 << 16];
        clear(&mut block);
        assert!(names(&block).is_empty());
        assert!(insert(&mut block, entry(b"name", 7)).unwrap());
        assert_eq!(names(&block), [(b"name".to_vec(), Ino(7))].into());
        assert!(remove(&mut block, b"name").unwrap());
        assert_eq!(&block[4..6], &[0xFF; 2], "64 KiB in 16 bits");
        assert!(insert(&mut block, entry(&[b'n'; 255], 8)).unwrap());
    }

    #[test]
    fn grown_chain_has_its_new_space_in_one_record() {
        let mut chain = vec![0; 56];
        clear(&mut chain[..16]);
        assert!(insert(&mut chain[..16], entry(b"a", 1)).unwrap());
        extend(&mut chain, 16).unwrap();
        assert_eq!(find_room(&chain, 56 - 12 - 8), Ok(Some(0)));
        let mut short = [1; 5];
        extend(&mut short, 0).unwrap();
        assert_eq!(short, [0; 5]);
        let mut empty = vec![0; 20];
        extend(&mut empty, 0).unwrap();
        assert_eq!(find_room(&empty, 12), Ok(Some(0)));
    }

    proptest! {
        #[test]
        fn chain_after_random_changes_matches_map(
            steps in prop::collection::vec((0_u8..4, 0_u8..40, 1_usize..60), 0..200),
        ) {
            let mut chain = vec![0; 500];
            clear(&mut chain);
            let mut model = BTreeMap::new();
            for (ino, (what, number, len)) in (1..).zip(steps) {
                let mut name = vec![b'a' + number % 26; len];
                name[0] = number + 1;
                let known = model.keys().find(|known: &&Vec<u8>| known[0] == name[0]).cloned();
                match (what, known) {
                    (0 | 1, None) => {
                        let fits = find_room(&chain, len).unwrap().is_some();
                        prop_assert_eq!(insert(&mut chain, entry(&name, ino)).unwrap(), fits);
                        if fits {
                            model.insert(name, Ino(ino));
                        }
                    }
                    (2, Some(known)) => {
                        prop_assert!(retarget(&mut chain, &known, Ino(ino), 2).unwrap());
                        model.insert(known, Ino(ino));
                    }
                    (3, Some(known)) => {
                        prop_assert!(remove(&mut chain, &known).unwrap());
                        prop_assert!(!remove(&mut chain, &known).unwrap());
                        model.remove(&known);
                    }
                    _ => {}
                }
                prop_assert_eq!(&names(&chain), &model);
            }
            let all: Vec<_> = model.iter().map(|(name, ino)| entry(name, ino.0)).collect();
            let mut packed = vec![0xFF; 500];
            prop_assert!(fill(&mut packed, all));
            prop_assert_eq!(names(&packed), model);
        }

        #[test]
        fn chain_of_arbitrary_bytes_does_not_panic(
            mut chain in prop::collection::vec(prop_oneof![Just(0_u8), Just(12), any::<u8>()], 0..100),
            name in prop::collection::vec(any::<u8>(), 1..20),
            offset in 0_usize..100,
        ) {
            let _ = find_room(&chain, name.len());
            let _ = insert_at(&mut chain, offset, entry(&name, 1));
            let _ = insert(&mut chain, entry(&name, 2));
            let _ = retarget(&mut chain, &name, Ino(3), 1);
            let _ = remove(&mut chain, &name);
            let len = offset.min(chain.len());
            let _ = extend(&mut chain, len);
        }
    }
}
