//! The hash functions by name.

use super::word::{Word, Word32, Word64};
use super::{
    AddressedPage, HashKey, buffer, crc, dentry, golden, inode, mixer, number, page, random_table,
};
use crate::table::HashFunction;
use crate::tape::CacheKind;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The properties of a function except its formula.
struct Description {
    name: &'static str,
    caches: &'static [CacheKind],
    source: &'static str,
    about: &'static str,
}

/// A hash function that computes the formula `F`.
#[derive(Clone, Copy)]
struct Formula<F>(F);

impl<F> fmt::Debug for Formula<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<F>())
    }
}

impl<F: Fn(HashKey, u32) -> u32 + Send + Sync> HashFunction<HashKey> for Formula<F> {
    #[inline]
    fn bucket(&self, key: HashKey, bits: u32) -> u32 {
        (self.0)(key, bits)
    }
}

/// Generic code that is compiled for the type of each function. [`Function::visit`] calls it.
pub trait FunctionVisitor {
    /// The result of the code.
    type Output;

    /// Runs the code with `hash`, a value of the function's own type.
    fn visit<H: HashFunction<HashKey> + Copy + 'static>(self, hash: H) -> Self::Output;
}

/// Defines [`Function`]. Each published function has a version in words of 32 bits and one in words of 64
/// bits, whose name ends with `-64`: `Name, Name64 = "name": formula[parameter], cache, source or source of
/// 64 bits, about;`. The functions in use today follow: `Name = "name": formula, source, about;`.
macro_rules! functions {
    (
        published {
            $($variant:ident, $variant64:ident = $name:literal:
                $module:ident::$formula:ident$([$parameter:expr])?, $cache:ident,
                $source:literal $(or $source64:literal)?, $about:literal;)*
        }
        current {
            $($current:ident = $current_name:literal:
                $current_formula:expr, $current_source:literal, $current_about:literal;)*
        }
    ) => {
        /// A hash function with a name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "&'static str")]
        pub enum Function {
            $(#[doc = $about] $variant,)*
            $(#[doc = concat!($name, " in words of 64 bits")] $variant64,)*
            $(#[doc = $current_about] $current,)*
        }

        impl Function {
            /// All functions: first the published functions of each cache, then those in use today.
            pub const ALL: &[Self] =
                &[$(Self::$variant,)* $(Self::$variant64,)* $(Self::$current,)*];

            fn description(self) -> Description {
                match self {
                    $(Self::$variant => Description {
                        name: $name,
                        caches: &[CacheKind::$cache],
                        source: $source,
                        about: $about,
                    },)*
                    $(Self::$variant64 => Description {
                        name: concat!($name, "-64"),
                        caches: &[CacheKind::$cache],
                        source: functions!(last $source $(, $source64)?),
                        about: concat!($name, " in words of 64 bits"),
                    },)*
                    $(Self::$current => Description {
                        name: $current_name,
                        caches: &CacheKind::ALL,
                        source: $current_source,
                        about: $current_about,
                    },)*
                }
            }

            /// Calls `visitor` with a value of this function's own type.
            pub fn visit<V: FunctionVisitor>(self, visitor: V) -> V::Output {
                match self {
                    $(Self::$variant => {
                        visitor.visit(Formula($module::$formula::<Word32 $(, { $parameter })?>))
                    })*
                    $(Self::$variant64 => {
                        visitor.visit(Formula($module::$formula::<Word64 $(, { $parameter })?>))
                    })*
                    $(Self::$current => visitor.visit(Formula($current_formula)),)*
                }
            }
        }
    };
    (last $source:literal) => { $source };
    (last $source:literal, $source64:literal) => { $source64 };
}

functions! {
published {
    PageReference, PageReference64 = "page-reference": page::reference[page::PAGE], Page,
        "Lever 2000, section 3.1", "shift-add of inode address and page";
    PageOffset, PageOffset64 = "page-offset": page::with_offset[page::PAGE], Page,
        "Lever 2000, section 3.1, after S. Tweedie", "page-reference with the unshifted offset added";
    PageMult, PageMult64 = "page-mult": page::multiplicative[page::PAGE], Page,
        "Lever 2000, section 3.1" or "Lever 2000, sections 3.1 and 5.1", "inode address plus offset, times 2654435761, upper bits";
    SwapReference, SwapReference64 = "swap-reference": page::reference[page::ENTRY], Page,
        "Lever 2000, section 3.1", "page-reference of a swap entry: index is the offset in bytes";
    SwapOffset, SwapOffset64 = "swap-offset": page::with_offset[page::ENTRY], Page,
        "Lever 2000, section 3.1, after S. Tweedie", "page-offset of a swap entry: index is the offset in bytes";
    SwapMult, SwapMult64 = "swap-mult": page::multiplicative[page::ENTRY], Page,
        "Lever 2000, proposed in section 6", "page-mult of a swap entry: index is the offset in bytes";
    BufferReference, BufferReference64 = "buffer-reference": buffer::reference, Buffer,
        "Lever 2000, section 3.2", "device xor block";
    BufferMult11, BufferMult11In64 = "buffer-mult-11": buffer::multiplicative[11], Buffer,
        "Lever 2000, section 3.2", "block times 2654435761, shifted right by 11";
    BufferMult16, BufferMult16In64 = "buffer-mult-16": buffer::multiplicative[16], Buffer,
        "Lever 2000, section 3.2", "block times 2654435761, shifted right by 16";
    BufferMult17, BufferMult17In64 = "buffer-mult-17": buffer::multiplicative[17], Buffer,
        "Lever 2000, section 3.2", "block times 2654435761, shifted right by 17";
    BufferMult18, BufferMult18In64 = "buffer-mult-18": buffer::multiplicative[18], Buffer,
        "Lever 2000, section 3.2", "block times 2654435761, shifted right by 18";
    BufferSteiner, BufferSteiner64 = "buffer-steiner": buffer::steiner, Buffer,
        "Lever 2000, section 3.2, after P. Steiner", "block times 127, plus its upper parts";
    BufferShiftXor, BufferShiftXor64 = "buffer-shift-xor": buffer::shift_xor, Buffer,
        "Linux 2.2.16; A. Arcangeli, linux-kernel, 12 March 2002", "device and block, shifted and combined by xor";
    DentryReference, DentryReference64 = "dentry-reference": dentry::reference, Dentry,
        "Lever 2000, section 3.3", "name's hash plus parent address, xor its upper parts";
    DentryAdd, DentryAdd64 = "dentry-add": dentry::added, Dentry,
        "Lever 2000, section 3.3", "name's hash plus parent address, plus its upper parts";
    DentryMult11, DentryMult11In64 = "dentry-mult-11": dentry::multiplicative[11], Dentry,
        "Lever 2000, section 3.3", "name's hash plus parent address, times 2654435761, shifted right by 11";
    DentryMult17, DentryMult17In64 = "dentry-mult-17": dentry::multiplicative[17], Dentry,
        "Lever 2000, section 3.3", "name's hash plus parent address, times 2654435761, shifted right by 17";
    InodeReference, InodeReference64 = "inode-reference": inode::reference, Inode,
        "Lever 2000, section 3.4", "number or super block address, plus its upper parts";
    InodeModified, InodeModified64 = "inode-modified": inode::modified, Inode,
        "Lever 2000, section 4, formula not printed", "number plus super block's cache line, plus its upper parts";
    InodeMult, InodeMult64 = "inode-mult": inode::multiplicative, Inode,
        "Lever 2000, section 3.4, formula not printed", "number plus super block address, times 2654435761, upper bits";
    PidReference, PidReference64 = "pid-reference": number::reference, Inode,
        "Linux 2.2, include/linux/sched.h", "number of a process or user, xor its bits from the ninth up";
    Pid4000Slots, Pid4000Slots64 = "pid-4000-slots": number::reference_with_slots[4000], Inode,
        "Linux 2.2, include/linux/sched.h, with the slots of Lever 2000", "pid-reference with the mask 999 of 4000 process slots";
    UidAdd, UidAdd64 = "uid-add": number::added, Inode,
        "Linux 2.6, kernel/user.c", "number of a user, plus its upper part";
}
current {
    Golden = "golden": golden::golden,
        "Knuth, The Art of Computer Programming, volume 3, section 6.4", "times the golden ratio of 2^64, upper bits: Larder's own";
    Hash32 = "hash-32": golden::hash_32_of_linux,
        "Linux 4.7, include/linux/hash.h", "Linux's hash of 32 bits: times 0x61c88647, upper bits";
    Hash64 = "hash-64": golden::hash_64_of_linux,
        "Linux 4.7, include/linux/hash.h", "Linux's hash of 64 bits: times 0x61c8864680b583eb, upper bits";
    Murmur32 = "murmur3-32": mixer::murmur_32,
        "A. Appleby, MurmurHash3, 2011", "Murmur 3's finaliser of 32 bits";
    Murmur64 = "murmur3-64": mixer::murmur_64,
        "A. Appleby, MurmurHash3, 2011", "Murmur 3's finaliser of 64 bits";
    Xxh3Avalanche = "xxh3-avalanche": mixer::xxh3_avalanche,
        "Y. Collet, xxHash 0.8, 2020", "XXH3's finaliser of mixed words, one round";
    Xxh3Rrmxmx = "xxh3-rrmxmx": mixer::xxh3_rrmxmx,
        "Y. Collet, xxHash 0.8, 2020, after P. Evensen", "XXH3's finaliser of short inputs, two rounds";
    LowBias32 = "lowbias32": mixer::low_bias_32,
        "C. Wellons, Prospecting for Hash Functions, 2018", "two rounds of 32 bits, found by search";
    SplitMix64 = "splitmix64": mixer::split_mix_64,
        "D. Stafford, Better Bit Mixing, 2011, variant 13", "two rounds of 64 bits, found by search";
    MoreMur = "moremur": mixer::more_mur,
        "P. Evensen, Stronger, better, morer, Moremur, 2019", "two rounds of 64 bits, found by search";
    TableDriven = "table-driven": random_table::table_driven::<Word32>,
        "Lever 2000, appendix B, formula not printed", "a random word for each byte of 32 bits, rotated, from one table";
    TableDriven64 = "table-driven-64": random_table::table_driven::<Word64>,
        "Lever 2000, appendix B, formula not printed", "table-driven in words of 64 bits";
    Crc32c = "crc32c": crc::crc32c,
        "Castagnoli 1993; SSE 4.2, Armv8", "CRC-32C, by the processor's instruction if it has one";
    Tabulation = "tabulation": random_table::tabulation,
        "Zobrist 1970; Carter and Wegman 1979", "a table of random words for each byte of the key";
}
}

impl Function {
    /// Returns the name by which users choose the function.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.description().name
    }

    /// Returns a description of one line.
    #[must_use]
    pub fn about(self) -> &'static str {
        self.description().about
    }

    /// Returns the publication that describes the function.
    #[must_use]
    pub fn source(self) -> &'static str {
        self.description().source
    }

    /// Returns the caches for which the function was published; all caches for a function in use today.
    #[must_use]
    pub fn caches(self) -> &'static [CacheKind] {
        self.description().caches
    }

    /// Returns the bucket of a page whose inode is at a given address. Returns `None` unless the function is a published
    /// function of the page cache, in words of 32 bits.
    #[must_use]
    pub fn page_bucket(self, page: AddressedPage, bits: u32) -> Option<u32> {
        let input = page::Input::<Word32>::from(page);
        match self {
            Self::PageReference => Some(input.reference(bits)),
            Self::PageOffset => Some(input.with_offset(bits)),
            Self::PageMult => Some(input.multiplicative(bits)),
            _ => None,
        }
    }

    /// Returns the name of the function, without the name of the cache for which it was published.
    pub(super) fn short_name(self) -> &'static str {
        let name = self.as_str();
        let short = |cache: &CacheKind| name.strip_prefix(cache.as_str())?.strip_prefix('-');
        self.caches().iter().find_map(short).unwrap_or(name)
    }
}

/// A visitor that computes the bucket of a key.
struct Bucket {
    key: HashKey,
    bits: u32,
}

impl FunctionVisitor for Bucket {
    type Output = u32;

    #[inline]
    fn visit<H: HashFunction<HashKey> + Copy + 'static>(self, hash: H) -> u32 {
        hash.bucket(self.key, self.bits)
    }
}

impl HashFunction<HashKey> for Function {
    #[inline]
    fn bucket(&self, key: HashKey, bits: u32) -> u32 {
        self.visit(Bucket { key, bits })
    }
}

/// Returns the number that the published multiplicative function of `cache` multiplies for `key`, in a word
/// of 64 bits.
#[must_use]
pub fn multiplicand(cache: CacheKind, key: HashKey) -> u64 {
    let word: Word64 = match cache {
        CacheKind::Page => page::sum::<_, { page::PAGE }>(key),
        CacheKind::Buffer => Word64::new(key.index),
        CacheKind::Dentry => dentry::sum(key),
        CacheKind::Inode => inode::sum(key),
    };
    word.0
}

impl From<Function> for &'static str {
    fn from(function: Function) -> Self {
        function.as_str()
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
