//! The functions by name.

use super::word::{Word32, Word64};
use super::{
    FunctionVisitor, HashKey, buffer, crc, dentry, golden, inode, mixer, page, random_table,
};
use crate::table::HashFunction;
use crate::tape::CacheKind;
use serde::{Deserialize, Serialize};
use std::fmt;

const PAGE: &[CacheKind] = &[CacheKind::Page];
const BUFFER: &[CacheKind] = &[CacheKind::Buffer];
const DENTRY: &[CacheKind] = &[CacheKind::Dentry];
const INODE: &[CacheKind] = &[CacheKind::Inode];
const EVERY: &[CacheKind] = &CacheKind::ALL;

/// Makes [`Function`] of lines `Name = "name": type, caches, source, about;`.
macro_rules! functions {
    ($($variant:ident = $name:literal: $hash:ty, $caches:expr, $source:literal, $about:literal;)*) => {
        /// A hash function that has a name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Function {
            $(
                #[doc = $about]
                #[serde(rename = $name)]
                $variant,
            )*
        }

        impl Function {
            /// All of them, the published ones first, cache by cache.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name by which users choose it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it does, in a line.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)*
                }
            }

            /// Where it is published.
            #[must_use]
            pub fn source(self) -> &'static str {
                match self {
                    $(Self::$variant => $source,)*
                }
            }

            /// The caches that it was published for.
            #[must_use]
            pub fn caches(self) -> &'static [CacheKind] {
                match self {
                    $(Self::$variant => $caches,)*
                }
            }

            /// Calls `visitor` with this function's type.
            pub fn visit<V: FunctionVisitor>(self, visitor: V) -> V::Output {
                match self {
                    $(Self::$variant => visitor.visit(<$hash>::default()),)*
                }
            }
        }

        impl HashFunction<HashKey> for Function {
            #[inline]
            fn bucket(&self, key: HashKey, bits: u32) -> u32 {
                match self {
                    $(Self::$variant => <$hash>::default().bucket(key, bits),)*
                }
            }
        }
    };
}

functions! {
    PageReference = "page-reference": page::PageReference<Word32>, PAGE,
        "Lever 2000, section 3.1", "shift-add of inode address and page";
    PageOffset = "page-offset": page::PageOffset<Word32>, PAGE,
        "Lever 2000, section 3.1, after S. Tweedie", "page-reference with the unshifted offset added";
    PageMult = "page-mult": page::PageMult<Word32>, PAGE,
        "Lever 2000, section 3.1", "inode address plus offset, times 2654435761, upper bits";
    SwapReference = "swap-reference": page::SwapReference<Word32>, PAGE,
        "Lever 2000, section 3.1", "page-reference of a swap entry: index is the offset in bytes";
    SwapOffset = "swap-offset": page::SwapOffset<Word32>, PAGE,
        "Lever 2000, section 3.1, after S. Tweedie", "page-offset of a swap entry: index is the offset in bytes";
    SwapMult = "swap-mult": page::SwapMult<Word32>, PAGE,
        "Lever 2000, section 6 asks for it", "page-mult of a swap entry: index is the offset in bytes";
    BufferReference = "buffer-reference": buffer::BufferReference<Word32>, BUFFER,
        "Lever 2000, section 3.2", "device xor block";
    BufferMult11 = "buffer-mult-11": buffer::BufferMult<Word32, 11>, BUFFER,
        "Lever 2000, section 3.2", "block times 2654435761, shifted right by 11";
    BufferMult16 = "buffer-mult-16": buffer::BufferMult<Word32, 16>, BUFFER,
        "Lever 2000, section 3.2", "block times 2654435761, shifted right by 16";
    BufferMult17 = "buffer-mult-17": buffer::BufferMult<Word32, 17>, BUFFER,
        "Lever 2000, section 3.2", "block times 2654435761, shifted right by 17";
    BufferMult18 = "buffer-mult-18": buffer::BufferMult<Word32, 18>, BUFFER,
        "Lever 2000, section 3.2", "block times 2654435761, shifted right by 18";
    BufferSteiner = "buffer-steiner": buffer::BufferSteiner<Word32>, BUFFER,
        "Lever 2000, section 3.2, after P. Steiner", "block times 127, plus its upper parts";
    DentryReference = "dentry-reference": dentry::DentryReference<Word32>, DENTRY,
        "Lever 2000, section 3.3", "name's hash plus parent address, xor its upper parts";
    DentryAdd = "dentry-add": dentry::DentryAdd<Word32>, DENTRY,
        "Lever 2000, section 3.3", "name's hash plus parent address, plus its upper parts";
    DentryMult11 = "dentry-mult-11": dentry::DentryMult<Word32, 11>, DENTRY,
        "Lever 2000, section 3.3", "name's hash plus parent address, times 2654435761, shifted right by 11";
    DentryMult17 = "dentry-mult-17": dentry::DentryMult<Word32, 17>, DENTRY,
        "Lever 2000, section 3.3", "name's hash plus parent address, times 2654435761, shifted right by 17";
    InodeReference = "inode-reference": inode::InodeReference<Word32>, INODE,
        "Lever 2000, section 3.4", "number or super block address, plus its upper parts";
    InodeModified = "inode-modified": inode::InodeModified<Word32>, INODE,
        "Lever 2000, section 4, formula not printed", "number plus super block's cache line, plus its upper parts";
    InodeMult = "inode-mult": inode::InodeMult<Word32>, INODE,
        "Lever 2000, section 3.4, formula not printed", "number plus super block address, times 2654435761, upper bits";

    PageReference64 = "page-reference-64": page::PageReference<Word64>, PAGE,
        "Lever 2000, section 3.1", "page-reference in words of 64 bits";
    PageOffset64 = "page-offset-64": page::PageOffset<Word64>, PAGE,
        "Lever 2000, section 3.1, after S. Tweedie", "page-offset in words of 64 bits";
    PageMult64 = "page-mult-64": page::PageMult<Word64>, PAGE,
        "Lever 2000, sections 3.1 and 5.1", "page-mult in words of 64 bits";
    SwapReference64 = "swap-reference-64": page::SwapReference<Word64>, PAGE,
        "Lever 2000, section 3.1", "swap-reference in words of 64 bits";
    SwapOffset64 = "swap-offset-64": page::SwapOffset<Word64>, PAGE,
        "Lever 2000, section 3.1, after S. Tweedie", "swap-offset in words of 64 bits";
    SwapMult64 = "swap-mult-64": page::SwapMult<Word64>, PAGE,
        "Lever 2000, section 6 asks for it", "swap-mult in words of 64 bits";
    BufferReference64 = "buffer-reference-64": buffer::BufferReference<Word64>, BUFFER,
        "Lever 2000, section 3.2", "buffer-reference in words of 64 bits";
    BufferMult11In64 = "buffer-mult-11-64": buffer::BufferMult<Word64, 11>, BUFFER,
        "Lever 2000, section 3.2", "buffer-mult-11 in words of 64 bits";
    BufferMult16In64 = "buffer-mult-16-64": buffer::BufferMult<Word64, 16>, BUFFER,
        "Lever 2000, section 3.2", "buffer-mult-16 in words of 64 bits";
    BufferMult17In64 = "buffer-mult-17-64": buffer::BufferMult<Word64, 17>, BUFFER,
        "Lever 2000, section 3.2", "buffer-mult-17 in words of 64 bits";
    BufferMult18In64 = "buffer-mult-18-64": buffer::BufferMult<Word64, 18>, BUFFER,
        "Lever 2000, section 3.2", "buffer-mult-18 in words of 64 bits";
    BufferSteiner64 = "buffer-steiner-64": buffer::BufferSteiner<Word64>, BUFFER,
        "Lever 2000, section 3.2, after P. Steiner", "buffer-steiner in words of 64 bits";
    DentryReference64 = "dentry-reference-64": dentry::DentryReference<Word64>, DENTRY,
        "Lever 2000, section 3.3", "dentry-reference in words of 64 bits";
    DentryAdd64 = "dentry-add-64": dentry::DentryAdd<Word64>, DENTRY,
        "Lever 2000, section 3.3", "dentry-add in words of 64 bits";
    DentryMult11In64 = "dentry-mult-11-64": dentry::DentryMult<Word64, 11>, DENTRY,
        "Lever 2000, section 3.3", "dentry-mult-11 in words of 64 bits";
    DentryMult17In64 = "dentry-mult-17-64": dentry::DentryMult<Word64, 17>, DENTRY,
        "Lever 2000, section 3.3", "dentry-mult-17 in words of 64 bits";
    InodeReference64 = "inode-reference-64": inode::InodeReference<Word64>, INODE,
        "Lever 2000, section 3.4", "inode-reference in words of 64 bits";
    InodeModified64 = "inode-modified-64": inode::InodeModified<Word64>, INODE,
        "Lever 2000, section 4, formula not printed", "inode-modified in words of 64 bits";
    InodeMult64 = "inode-mult-64": inode::InodeMult<Word64>, INODE,
        "Lever 2000, section 3.4, formula not printed", "inode-mult in words of 64 bits";

    Golden = "golden": golden::Golden, EVERY,
        "Knuth, The Art of Computer Programming, volume 3, section 6.4", "times the golden ratio of 2^64, upper bits: Larder's own";
    Hash32 = "hash-32": golden::Hash32OfLinux, EVERY,
        "Linux 4.7, include/linux/hash.h", "Linux's hash of 32 bits: times 0x61c88647, upper bits";
    Hash64 = "hash-64": golden::Hash64OfLinux, EVERY,
        "Linux 4.7, include/linux/hash.h", "Linux's hash of 64 bits: times 0x61c8864680b583eb, upper bits";
    Murmur32 = "murmur3-32": mixer::Murmur32, EVERY,
        "A. Appleby, MurmurHash3, 2011", "Murmur 3's finaliser of 32 bits";
    Murmur64 = "murmur3-64": mixer::Murmur64, EVERY,
        "A. Appleby, MurmurHash3, 2011", "Murmur 3's finaliser of 64 bits";
    Xxh3Avalanche = "xxh3-avalanche": mixer::Xxh3Avalanche, EVERY,
        "Y. Collet, xxHash 0.8, 2020", "XXH3's finaliser of mixed words, one round";
    Xxh3Rrmxmx = "xxh3-rrmxmx": mixer::Xxh3Rrmxmx, EVERY,
        "Y. Collet, xxHash 0.8, 2020, after P. Evensen", "XXH3's finaliser of short inputs, two rounds";
    LowBias32 = "lowbias32": mixer::LowBias32, EVERY,
        "C. Wellons, Prospecting for Hash Functions, 2018", "two rounds of 32 bits, found by search";
    SplitMix64 = "splitmix64": mixer::SplitMix64, EVERY,
        "D. Stafford, Better Bit Mixing, 2011, variant 13", "two rounds of 64 bits, found by search";
    MoreMur = "moremur": mixer::MoreMur, EVERY,
        "P. Evensen, Stronger, better, morer, Moremur, 2019", "two rounds of 64 bits, found by search";
    TableDriven = "table-driven": random_table::TableDriven<Word32>, EVERY,
        "Lever 2000, appendix B, formula not printed", "a random word for each byte of 32 bits, rotated, from one table";
    TableDriven64 = "table-driven-64": random_table::TableDriven<Word64>, EVERY,
        "Lever 2000, appendix B, formula not printed", "table-driven in words of 64 bits";
    Crc32c = "crc32c": crc::Crc32c, EVERY,
        "Castagnoli 1993; SSE 4.2, Armv8", "CRC-32C, by the processor's instruction where it has it";
    Tabulation = "tabulation": random_table::Tabulation, EVERY,
        "Zobrist 1970; Carter and Wegman 1979", "a table of random words for each byte of the key";
}

impl Function {
    /// Its name without that of the cache that it was published for.
    pub(super) fn short_name(self) -> &'static str {
        let name = self.as_str();
        let short = |cache: &CacheKind| name.strip_prefix(cache.as_str())?.strip_prefix('-');
        self.caches().iter().find_map(short).unwrap_or(name)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
