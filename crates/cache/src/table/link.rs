//! Links between slots: a slot's number, or the end of a chain.

/// The next element of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// A slot of the arena.
    Slot(u32),
    /// The end of the chain of the bucket with this number. If a reader arrives at the end of another
    /// bucket's chain, a slot on its way was reused meanwhile, and the reader starts again.
    End(u32),
}

const END: u32 = 1 << 31;

/// The end of a free list: a bucket number that no table has. Links in zeroed memory have this
/// value.
pub(super) const END_OF_FREE: Link = Link::End(END - 1);

/// The exclusive limit of slot and bucket numbers. A link contains a number plus 1 and a flag, and a
/// bucket head contains a number plus 1 and a lock bit.
pub const NUMBER_LIMIT: u32 = 1 << 30;

impl Link {
    #[inline]
    pub(crate) fn from_raw(raw: u32) -> Self {
        // The stored value is the link plus 1, so that zeroed memory is `END_OF_FREE`.
        let raw = raw.wrapping_sub(1);
        if raw & END == 0 {
            Self::Slot(raw)
        } else {
            Self::End(raw & !END)
        }
    }

    #[inline]
    pub(crate) fn raw(self) -> u32 {
        let raw = match self {
            Self::Slot(slot) => slot,
            Self::End(bucket) => END | bucket,
        };
        raw.wrapping_add(1)
    }
}
