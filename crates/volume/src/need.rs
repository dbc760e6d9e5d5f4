//! Computes the space that must be reserved for blocks of a file.

use crate::dirty::{BlockSet, Dirty};
use larder_ext4::{Filesystem, Inode, MappingLevel};

/// An amount of space to reserve, in clusters: for content, and for the blocks of the mapping.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Need {
    pub(crate) content: u64,
    pub(crate) mapping: u64,
}

/// Returns the space that must be reserved for `blocks` of the file. If `reserved` is given, leaves
/// out the clusters and mapping blocks for which `reserved` already has reservations. In this case,
/// no block of `blocks` may have a reservation yet.
pub(crate) fn need_of(
    fs: &Filesystem,
    inode: &Inode,
    blocks: &BlockSet,
    reserved: Option<&Dirty>,
) -> Need {
    let clusters = MappingLevel {
        first: 0,
        span_log2: fs.superblock().cluster_blocks_log2.into(),
    };
    let levels = fs.mapping_levels(inode).into_iter();
    Need {
        content: count_spans(clusters, blocks, reserved),
        mapping: levels
            .map(|level| count_spans(level, blocks, reserved))
            .sum(),
    }
}

/// Returns the number of spans of `level` that overlap `blocks` and in which no block has a
/// reservation yet. A span is the range of file blocks that one cluster, or one block of the
/// mapping, covers.
fn count_spans(level: MappingLevel, blocks: &BlockSet, reserved: Option<&Dirty>) -> u64 {
    let MappingLevel { first, span_log2 } = level;
    let is_reserved = |span: u64| {
        let start = first + (span << span_log2);
        let all = start..start + (1 << span_log2);
        reserved.is_some_and(|dirty| {
            let mut sets = dirty.reserved_sets().into_iter();
            sets.any(|set| set.intersects(all.clone()))
        })
    };
    let mut count = 0;
    // The span after the last counted span. Two runs may overlap the same span, which is counted once.
    let mut next = 0;
    for run in blocks.runs_in(first..u64::MAX) {
        let touched =
            ((run.start - first) >> span_log2).max(next)..((run.end - 1 - first) >> span_log2) + 1;
        next = touched.end.max(next);
        let is_unshared = reserved.is_none() || span_log2 == 0;
        count += if is_unshared {
            // No span contains a reserved block: either there are no reservations, or each span is
            // a single block of `blocks`, and none of these blocks has a reservation.
            touched.end.saturating_sub(touched.start)
        } else {
            touched.filter(|span| !is_reserved(*span)).count() as u64
        };
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(runs: &[(u64, u64)]) -> BlockSet {
        let mut set = BlockSet::default();
        for &(start, end) in runs {
            set.insert(start..end);
        }
        set
    }

    #[test]
    fn spans_that_blocks_touch_are_counted_once() {
        let level = MappingLevel {
            first: 12,
            span_log2: 8,
        };
        assert_eq!(count_spans(level, &set(&[(0, 12)]), None), 0);
        assert_eq!(count_spans(level, &set(&[(0, 13)]), None), 1);
        assert_eq!(
            count_spans(level, &set(&[(20, 30), (40, 50), (267, 269)]), None),
            2
        );
        assert_eq!(count_spans(level, &set(&[(12, 12 + 256 * 5)]), None), 5);
    }

    #[test]
    fn span_with_a_reservation_is_not_counted() {
        let level = MappingLevel {
            first: 12,
            span_log2: 8,
        };
        let mut dirty = Dirty {
            delayed: set(&[(30, 31)]),
            ..Dirty::default()
        };
        assert_eq!(count_spans(level, &set(&[(40, 41)]), Some(&dirty)), 0);
        assert_eq!(
            count_spans(level, &set(&[(40, 41), (300, 301)]), Some(&dirty)),
            1
        );
        dirty.expected = set(&[(301, 302)]);
        assert_eq!(
            count_spans(level, &set(&[(40, 41), (300, 301)]), Some(&dirty)),
            0
        );
    }
}
