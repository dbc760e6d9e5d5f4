//! Sets of attributes that are distributed over many files, so that files can share attribute blocks. Also
//! computes the space that perfect sharing needs.

pub use crate::e2fsprogs::Space;
use crate::model::acl::{ACCESS, Acl};
use crate::oracle::Attributes;
use crate::seed::{Random, Seed};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of files that share a block of attributes.
const MAX_USERS: u64 = 1024;

/// The possible names of attributes.
const NAMES: [&[u8]; 3] = [b"user.alpha", b"user.beta-of-some-length", b"trusted.gamma"];

/// The attribute whose value does not fit in a block of 1 KiB.
const LARGE: &[u8] = b"user.large";

/// The number of values that this attribute may have.
const LARGE_VALUES: usize = 7;

/// The parameters of a distribution of attributes.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The number of sets, all different.
    pub sets: usize,
    /// The number of files, each with one of the sets.
    pub files: usize,
    /// The first set has at least this many files, in addition to the one file that each set has.
    pub crowd: usize,
    /// Whether half of the sets have a value of several KiB, which other sets have too.
    pub large: bool,
}

/// The attributes of each file.
#[derive(Clone, Debug)]
pub struct AttributeSets {
    sets: Vec<Attributes>,
    of_file: Vec<usize>,
}

/// Names and values, in the order in which they are to be set.
pub type Ordered<'a> = Vec<(&'a [u8], &'a [u8])>;

impl AttributeSets {
    /// Creates the sets and files of `seed`. A set fits in a block of 1 KiB, except for the large value;
    /// an inode of 256 bytes has room only for the name of that attribute.
    #[must_use]
    pub fn new(seed: Seed, rules: &Rules) -> Self {
        let mut random = Random::new(seed);
        let large: Vec<Vec<u8>> = (0..LARGE_VALUES)
            .map(|_| {
                let len = 2000 + random.index(4000);
                random.bytes(len)
            })
            .collect();
        let sets: Vec<_> = (0..rules.sets)
            .map(|number| {
                let mut set = small_attributes(&mut random);
                if rules.large && number.is_multiple_of(2) {
                    let value = random.choose(&large).cloned().unwrap_or_default();
                    set.insert(LARGE.to_vec(), value);
                }
                set
            })
            .collect();
        let mut of_file: Vec<usize> = (0..rules.sets).chain(vec![0; rules.crowd]).collect();
        while of_file.len() < rules.files {
            of_file.push(random.index(rules.sets));
        }
        random.shuffle(&mut of_file);
        Self { sets, of_file }
    }

    /// Returns the attributes of each file with its number.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Attributes)> {
        self.of_file.iter().map(|set| &self.sets[*set]).enumerate()
    }

    /// Returns the attributes of each file in its own random order, in which they are to be set.
    pub fn in_any_order(&self, seed: Seed) -> impl Iterator<Item = (usize, Ordered<'_>)> {
        let mut random = Random::new(seed);
        self.files().map(move |(file, attributes)| {
            let pairs = attributes
                .iter()
                .map(|(name, value)| (&name[..], &value[..]));
            let mut pairs: Vec<_> = pairs.collect();
            random.shuffle(&mut pairs);
            (file, pairs)
        })
    }

    /// Returns the space of all attributes if everything that can be shared is shared.
    #[must_use]
    pub fn shared_space(&self, block_bytes: u64) -> Space {
        let mut users = vec![0_u64; self.sets.len()];
        for set in &self.of_file {
            users[*set] += 1;
        }
        let large: BTreeSet<&Vec<u8>> = self.sets.iter().filter_map(|set| set.get(LARGE)).collect();
        let of_sets = users.iter().map(|users| users.div_ceil(MAX_USERS));
        let of_values = large.iter().map(|value| blocks_of(value, block_bytes));
        Space {
            blocks: of_sets.sum::<u64>() + of_values.sum::<u64>(),
            inodes: large.len() as u64,
        }
    }

    /// Returns the space of all attributes if nothing is shared.
    #[must_use]
    pub fn unshared_space(&self, block_bytes: u64) -> Space {
        let large: Vec<_> = self.files().filter_map(|(_, set)| set.get(LARGE)).collect();
        let of_values = large.iter().map(|value| blocks_of(value, block_bytes));
        Space {
            blocks: self.of_file.len() as u64 + of_values.sum::<u64>(),
            inodes: large.len() as u64,
        }
    }
}

fn blocks_of(value: &[u8], block_bytes: u64) -> u64 {
    (value.len() as u64).div_ceil(block_bytes)
}

fn small_attributes(random: &mut Random) -> Attributes {
    let mut set = Attributes::new();
    let count = 1 + random.index(NAMES.len());
    for name in &NAMES[..count] {
        let len = 100 + random.index(100);
        set.insert(name.to_vec(), random.bytes(len));
    }
    if random.below(3) == 0 {
        let mut permissions = || u16::from(random.byte() & 7);
        let acl = Acl {
            owner: permissions(),
            users: (1000..1012).map(|id| (id, permissions())).collect(),
            group: permissions(),
            groups: BTreeMap::new(),
            mask: Some(permissions()),
            other: permissions(),
        };
        set.insert(ACCESS.to_vec(), acl.encode());
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_of_few_files_is_counted_by_hand() {
        let rules = Rules {
            sets: 3,
            files: 2060,
            crowd: 2050,
            large: true,
        };
        let attribute_sets = AttributeSets::new(Seed(1), &rules);
        assert_eq!(attribute_sets.files().count(), 2060);
        assert!(
            attribute_sets.sets[0] != attribute_sets.sets[1]
                && attribute_sets.sets[1] != attribute_sets.sets[2]
        );
        let large: Vec<_> = [0, 2]
            .iter()
            .map(|set| &attribute_sets.sets[*set][LARGE])
            .collect();
        let blocks = |value: &Vec<u8>| value.len().div_ceil(1024) as u64;
        let values = if large[0] == large[1] {
            (blocks(large[0]), 1)
        } else {
            (blocks(large[0]) + blocks(large[1]), 2)
        };
        let expected = Space {
            blocks: 3 + 1 + 1 + values.0,
            inodes: values.1,
        };
        assert_eq!(attribute_sets.shared_space(1024), expected);
        assert!(attribute_sets.unshared_space(1024).inodes >= 2051);
    }
}
