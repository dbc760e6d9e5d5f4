//! How many buckets a table has.

use crate::tape::CacheKind;

/// How many buckets a table has. A rule takes the budget of the caches for the memory of the
/// machine: it is all that they can fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableSize {
    /// By our rule: a bucket for 3/4 to 1 1/2 pages, for 4 to 8 frames where it is buffers, and for
    /// one or two of as many dentries and inodes as fit into their part of the budget.
    #[default]
    Larder,
    /// 2 to so many.
    Bits(u32),
    /// By Linux 2.2.16's, as the printed version of Lever 2000 tells it: a bucket for each page of
    /// memory, and else as before, 32768 of buffers, 1024 of dentries, and 256 of inodes.
    Linux2_2_16,
    /// By today's Linux's, as its log says at start: a bucket for each 8 KiB of memory for dentries,
    /// and for each 16 KiB for inodes. Pages and blocks have no table there any more; here a bucket
    /// for each page of memory, as in the last Linux where they had one.
    LinuxToday,
}

/// What sizes are chosen by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// The budget of all caches.
    pub bytes: u64,
    /// The size that our own rule gives.
    pub own_bits: u32,
}

impl TableSize {
    /// A table may have 2 to so many buckets: 64 MiB of them.
    pub const MOST_BITS: u32 = 24;

    /// The rules by name.
    pub(super) const RULES: [(&str, Self); 3] = [
        ("larder", Self::Larder),
        ("2.2.16", Self::Linux2_2_16),
        ("today", Self::LinuxToday),
    ];

    /// The table of `cache` has 2 to so many buckets.
    pub(crate) fn bits(self, cache: CacheKind, memory: Memory) -> u32 {
        /// Bytes for each bucket, as powers of two.
        const PAGE: u32 = 12;
        const DENTRY: u32 = 13;
        const INODE: u32 = 14;
        // Rounded up to a power of two, as the kernels do.
        let per = |shift: u32| {
            let buckets = (memory.bytes >> shift).max(1);
            let bits = u64::BITS - (buckets - 1).leading_zeros();
            bits.min(Self::MOST_BITS)
        };
        match (self, cache) {
            (Self::Larder, _) => memory.own_bits,
            (Self::Bits(bits), _) => bits.min(Self::MOST_BITS),
            (Self::Linux2_2_16, CacheKind::Buffer) => 15,
            (Self::Linux2_2_16, CacheKind::Dentry) => 10,
            (Self::Linux2_2_16, CacheKind::Inode) => 8,
            (_, CacheKind::Page) | (Self::LinuxToday, CacheKind::Buffer) => per(PAGE),
            (Self::LinuxToday, CacheKind::Dentry) => per(DENTRY),
            (Self::LinuxToday, CacheKind::Inode) => per(INODE),
        }
    }
}
