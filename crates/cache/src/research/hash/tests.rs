//! Tests of the hash functions: their values, the bounds of their results, and their names.

mod current;
mod published;

use super::*;
use crate::page::PageKey;
use crate::table::{Hash64, HashFunction};
use crate::tape::CacheKind;
use current::CURRENT;
use proptest::prelude::*;
use published::PUBLISHED;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;
use std::collections::BTreeSet;

/// The name of a function, a key, the log2 of the number of buckets, and the expected bucket.
type Golden = (&'static str, HashKey, u32, u32);

const SMALL: HashKey = HashKey {
    object: 2,
    index: 3,
};

/// A key whose two numbers do not fit into 32 bits.
const LARGE: HashKey = HashKey {
    object: 0x1_0000_0005,
    index: 0x12_3456_789a,
};

/// A visitor that computes the bucket by the function's own type.
struct Bucket {
    key: HashKey,
    bits: u32,
}

impl FunctionVisitor for Bucket {
    type Output = u32;

    fn visit<H: HashFunction<HashKey> + Copy + 'static>(self, hash: H) -> u32 {
        assert_eq!(size_of::<H>(), 0, "a function has no state");
        hash.bucket(self.key, self.bits)
    }
}

fn bucket(name: &str, object: u64, index: u64, bits: u32) -> u32 {
    let function: Function = name.parse().expect("a function's name");
    function.bucket(HashKey { object, index }, bits)
}

#[test]
fn function_of_known_key_gives_golden_bucket() {
    for &(name, key, bits, bucket) in PUBLISHED.iter().chain(CURRENT) {
        let function: Function = name.parse().expect("a function's name");
        let found = function.bucket(key, bits);
        assert_eq!(
            found, bucket,
            "{name} of {key:?} in {bits} bits: {found:#x}"
        );
    }
}

/// Larder places inode `n` at the address 336 * `n`.
#[test]
fn page_at_the_address_of_its_inode_has_the_bucket_of_its_key() {
    for function in Function::ALL {
        let page = AddressedPage {
            inode: 5000 * 336,
            inode_bytes: 336,
            page: 77,
        };
        let key = HashKey {
            object: 5000,
            index: 77,
        };
        let is_published =
            ["page-reference", "page-offset", "page-mult"].contains(&function.as_str());
        let expected = is_published.then(|| function.bucket(key, 13));
        assert_eq!(function.page_bucket(page, 13), expected, "{function}");
    }
}

/// The address is divided by the lowest bit of the size: 4 with 268 bytes, 16 with 272.
#[test]
fn page_function_depends_on_the_size_of_an_inode() {
    let bucket = |inode_bytes| {
        let page = AddressedPage {
            inode: 4096,
            inode_bytes,
            page: 1,
        };
        Function::PageReference.page_bucket(page, 13)
    };
    assert_eq!(bucket(268), Some(4096 / 4 + 1));
    assert_eq!(bucket(272), Some(4096 / 16 + 1));
}

#[test]
fn every_function_has_golden_values_of_two_sizes() {
    for function in Function::ALL {
        let rows = PUBLISHED.iter().chain(CURRENT);
        let of_this = rows.filter(|(name, ..)| *name == function.as_str());
        let sizes: BTreeSet<u32> = of_this.map(|(_, _, bits, _)| *bits).collect();
        assert!(sizes.len() >= 2, "{function}: {sizes:?}");
    }
}

/// Uses the values with which the authors or users of the functions check them.
#[test]
fn mixer_of_known_input_gives_known_output() {
    assert_eq!(bucket("murmur3-32", 0, 1, 29), 0x514e_28b7 & 0x1fff_ffff);
    assert_eq!(bucket("murmur3-64", 0, 1, 29), 0x34c2_cb2c & 0x1fff_ffff);
    // The first number that SplitMix64 generates from seed 0 is 0xe220_a839_7b1d_cdaf.
    let step = 0x9e37_79b9_7f4a_7c15;
    assert_eq!(bucket("splitmix64", 0, step, 29), 0x7b1d_cdaf & 0x1fff_ffff);
}

#[test]
fn golden_of_frame_key_gives_bucket_of_frame_table() {
    for index in [0, 1, 4096, u64::MAX] {
        let key = PageKey { ino: 11, index };
        let bucket = Hash64.bucket(key, 17);
        assert_eq!(Function::Golden.bucket(key.into(), 17), bucket);
    }
}

#[test]
fn hash64_of_linux_gives_buckets_of_golden_in_reverse() {
    for index in 1..1000 {
        let [golden, linux] = ["golden", "hash-64"].map(|name| bucket(name, 3, index, 12));
        assert_eq!(golden + linux, 4095, "{index}");
    }
}

/// The size of the table is not a power of two: the mask has eight bits.
#[test]
fn function_of_4000_process_slots_uses_256_of_1000_buckets() {
    let buckets: BTreeSet<u32> = (1..1 << 15)
        .map(|pid| bucket("pid-4000-slots", 0, pid, 10))
        .collect();
    assert_eq!(buckets.len(), 256);
    assert!(buckets.last() < Some(&1000));
}

/// Shows the defect that S. Tweedie's function corrects by adding the unshifted offset. The keys are
/// entries for 16 slots of a swap device, which differ only in the lower 12 bits.
#[test]
fn reference_of_neighbouring_swap_entries_collides() {
    let buckets = |name| {
        let entries = (0..16).map(|slot| slot << 8 | 2);
        let buckets: BTreeSet<u32> = entries.map(|entry| bucket(name, 1, entry, 11)).collect();
        buckets.len()
    };
    assert_eq!(buckets("swap-reference"), 1);
    // The mask keeps the lower 11 bits of the entries. In these bits, the entries have 8 different values, apart
    // from carries.
    assert!(buckets("swap-offset") >= 8, "{}", buckets("swap-offset"));
    assert_eq!(buckets("swap-mult"), 16);
}

/// Shows why the multiplier must suit the word: the product of a small number and 2654435761 is far
/// below 2^64, so its upper bits are 0.
#[test]
fn multiplier_of_32_bits_in_words_of_64_leaves_small_numbers_in_one_bucket() {
    let buckets = |name| {
        let inodes = (1..1000).map(|inode| bucket(name, 0, inode, 12));
        inodes.collect::<BTreeSet<u32>>().len()
    };
    assert_eq!(buckets("inode-mult-64"), 1);
    assert!(buckets("inode-mult") > 900, "{}", buckets("inode-mult"));
}

#[test]
fn function_names_are_unique_and_parse_back() {
    let mut names = BTreeSet::new();
    for function in Function::ALL {
        let name = function.as_str();
        assert!(names.insert(name), "{name} twice");
        assert_eq!(name.parse(), Ok(*function));
        assert_eq!(function.to_string(), name);
        let read: Result<_, Error> = Function::deserialize(name.into_deserializer());
        assert_eq!(read, Ok(*function));
        for text in [function.about(), function.source()] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{name}: {text}");
        }
        assert!(!function.caches().is_empty(), "{name}");
    }
}

#[test]
fn unknown_function_lists_every_function_once() {
    let error = "sha1".parse::<Function>().unwrap_err().to_string();
    assert!(
        error.starts_with("unknown hash function 'sha1'; available:"),
        "{error}"
    );
    // A function in words of 64 bits shares an entry with the function of the same name in words of
    // 32 bits.
    let words = error.split([' ', ',', '\n']);
    let named: Vec<String> = words
        .flat_map(|word| match word.strip_suffix("[-64]") {
            Some(name) => vec![name.to_owned(), format!("{name}-64")],
            None => vec![word.to_owned()],
        })
        .collect();
    for function in Function::ALL {
        let times = named.iter().filter(|name| *name == function.as_str());
        assert_eq!(times.count(), 1, "{function}: {error}");
    }
}

#[test]
fn short_name_in_a_cache_is_its_published_function() {
    let of_cache = |cache, name| Function::of_cache(cache, name).map_err(|error| error.to_string());
    for (cache, name, function) in [
        (CacheKind::Page, "mult", Function::PageMult),
        (CacheKind::Buffer, "mult-11", Function::BufferMult11),
        (CacheKind::Dentry, "mult-11", Function::DentryMult11),
        (CacheKind::Inode, "mult-64", Function::InodeMult64),
        (CacheKind::Page, "swap-mult", Function::SwapMult),
        (CacheKind::Inode, "inode-mult", Function::InodeMult),
        (CacheKind::Buffer, "moremur", Function::MoreMur),
    ] {
        assert_eq!(of_cache(cache, name), Ok(function));
    }
    let error = of_cache(CacheKind::Page, "buffer-steiner").unwrap_err();
    assert!(
        error.contains("page-mult") && !error.contains("dentry"),
        "{error}"
    );
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..1_u64 << 20, any::<u64>(), Just(0), Just(u64::MAX)]
}

proptest! {
    #[test]
    fn bucket_of_any_key_is_in_the_table(object in number(), index in number()) {
        let key = HashKey { object, index };
        for function in Function::ALL {
            for bits in 0..=29 {
                let bucket = function.bucket(key, bits);
                prop_assert!(bucket < 1 << bits, "{function}, {bits} bits: {bucket}");
                prop_assert_eq!(function.visit(Bucket { key, bits }), bucket);
            }
        }
    }
}
