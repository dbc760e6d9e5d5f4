//! The number of buckets of a table.

use crate::tape::CacheKind;

/// The number of buckets of a table, or a rule that determines it. Linux's rules depend on the memory of the
/// machine. Here these rules depend on the memory budget of the caches instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableSize {
    /// Larder's rule, which depends on the number of objects that fit into the budget. There is one bucket
    /// for 3/4 to 1 1/2 pages, for 4 to 8 frames of buffers, and for one or two dentries or inodes.
    #[default]
    Larder,
    /// The log2 of the number of buckets.
    Bits(u32),
    /// The rule of Linux 2.2.16, as the printed version of Lever 2000 describes it. The table of the page
    /// cache has a bucket for each page of memory. The other tables have fixed sizes: 32768 buckets for
    /// buffers, 1024 for dentries, and 256 for inodes.
    Linux2_2_16,
    /// The rule of current Linux, as the kernel logs it at boot. The table of dentries has a bucket for each
    /// 8 KiB of memory, and the table of inodes for each 16 KiB. Current Linux has no tables for pages and
    /// blocks. Here these tables have a bucket for each page of memory, as in the last Linux version that
    /// had them.
    LinuxToday,
}

/// The inputs of the rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// The budget of all caches in bytes.
    pub bytes: u64,
    /// The log2 of the number of buckets according to Larder's rule.
    pub own_bits: u32,
}

impl TableSize {
    /// The log2 of the largest number of buckets, which take 64 MiB.
    pub const MAX_BITS: u32 = 24;

    /// The rules with their names.
    pub(super) const RULES: [(&str, Self); 3] = [
        ("larder", Self::Larder),
        ("2.2.16", Self::Linux2_2_16),
        ("today", Self::LinuxToday),
    ];

    /// Returns the log2 of the number of buckets of the table of `cache`.
    pub(crate) fn bits(self, cache: CacheKind, memory: Memory) -> u32 {
        /// The log2 of the bytes for each bucket.
        const PAGE: u32 = 12;
        const DENTRY: u32 = 13;
        const INODE: u32 = 14;
        // The number of buckets is rounded up to a power of two, as in Linux.
        let per = |shift: u32| {
            let buckets = (memory.bytes >> shift).max(1);
            let bits = u64::BITS - (buckets - 1).leading_zeros();
            bits.min(Self::MAX_BITS)
        };
        match (self, cache) {
            (Self::Larder, _) => memory.own_bits,
            (Self::Bits(bits), _) => bits.min(Self::MAX_BITS),
            (Self::Linux2_2_16, CacheKind::Buffer) => 15,
            (Self::Linux2_2_16, CacheKind::Dentry) => 10,
            (Self::Linux2_2_16, CacheKind::Inode) => 8,
            (_, CacheKind::Page) | (Self::LinuxToday, CacheKind::Buffer) => per(PAGE),
            (Self::LinuxToday, CacheKind::Dentry) => per(DENTRY),
            (Self::LinuxToday, CacheKind::Inode) => per(INODE),
        }
    }
}
