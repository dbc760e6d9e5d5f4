//! Changes of the extents of one leaf of an extent tree in memory.
//!
//! Invariants, before and after each function: the extents are sorted, do not overlap, and are not
//! longer than the format allows. Adjacent extents are merged if the format allows it.

use crate::FsBlock;
use crate::ondisk::extent::Extent;
use std::ops::Range;

/// Returns the index of the first extent that ends after `at`.
fn first_ending_after(extents: &[Extent], at: u64) -> usize {
    extents.partition_point(|extent| extent.file_blocks.end <= at)
}

/// Returns whether `extents` map no block of `file_blocks`.
pub(super) fn is_hole(extents: &[Extent], file_blocks: &Range<u64>) -> bool {
    extents
        .get(first_ending_after(extents, file_blocks.start))
        .is_none_or(|extent| extent.file_blocks.start >= file_blocks.end)
}

/// Adds the extent `new`. Returns false, and changes nothing, if any of its file blocks is already
/// mapped.
pub(super) fn insert(extents: &mut Vec<Extent>, new: Extent) -> bool {
    if !is_hole(extents, &new.file_blocks) {
        return false;
    }
    let at = first_ending_after(extents, new.file_blocks.start);
    extents.insert(at, new);
    merge_at(extents, at + 1);
    merge_at(extents, at);
    true
}

/// Merges the extent at index `at` into the preceding extent if the format allows it.
fn merge_at(extents: &mut Vec<Extent>, at: usize) {
    let Some(before) = at.checked_sub(1) else {
        return;
    };
    if let (Some(left), Some(right)) = (extents.get(before), extents.get(at))
        && left.can_merge(right)
    {
        let end = right.file_blocks.end;
        extents.remove(at);
        if let Some(left) = extents.get_mut(before) {
            left.file_blocks.end = end;
        }
    }
}

/// Merges adjacent extents wherever the format allows it.
pub(super) fn merge(extents: &mut Vec<Extent>) {
    extents.dedup_by(|right, left| {
        let merges = left.can_merge(right);
        if merges {
            left.file_blocks.end = right.file_blocks.end;
        }
        merges
    });
}

/// Splits the extent that contains blocks on both sides of `at`, if there is one.
pub(super) fn split_at(extents: &mut Vec<Extent>, at: u64) {
    let index = first_ending_after(extents, at);
    if let Some(extent) = extents.get_mut(index)
        && extent.file_blocks.start < at
    {
        let right = extent.part(at..extent.file_blocks.end);
        extent.file_blocks.end = at;
        extents.insert(index + 1, right);
    }
}

/// Returns the last run that is mapped in `file_blocks`: the part of one extent that is inside this
/// range, limited to the last `max` blocks.
pub(super) fn last_in(extents: &[Extent], file_blocks: &Range<u64>, max: u64) -> Option<Extent> {
    let next = extents.partition_point(|extent| extent.file_blocks.start < file_blocks.end);
    let extent = extents.get(next.checked_sub(1)?)?;
    let end = extent.file_blocks.end.min(file_blocks.end);
    let start = extent.file_blocks.start.max(file_blocks.start);
    let start = start.max(end.saturating_sub(max));
    (start < end).then(|| extent.part(start..end))
}

/// Unmaps `file_blocks`.
pub(super) fn remove(extents: &mut Vec<Extent>, file_blocks: &Range<u64>) {
    split_at(extents, file_blocks.start);
    split_at(extents, file_blocks.end);
    let first = first_ending_after(extents, file_blocks.start);
    let next = extents.partition_point(|extent| extent.file_blocks.start < file_blocks.end);
    extents.drain(first..next.max(first));
}

/// Marks the mapped blocks in `file_blocks` as written or unwritten. Returns whether any extent
/// changed.
pub(super) fn set_written(
    extents: &mut Vec<Extent>,
    file_blocks: &Range<u64>,
    is_written: bool,
) -> bool {
    let differs = |extent: &Extent| {
        extent.is_written != is_written
            && extent.file_blocks.start < file_blocks.end
            && extent.file_blocks.end > file_blocks.start
    };
    if !extents.iter().any(differs) {
        return false;
    }
    split_at(extents, file_blocks.start);
    split_at(extents, file_blocks.end);
    let mut changed = Vec::with_capacity(extents.len());
    for extent in extents.drain(..) {
        if !differs(&extent) {
            changed.push(extent);
            continue;
        }
        // A written extent may be one block longer than an unwritten extent.
        let max = Extent::blocks_max(is_written);
        let mut start = extent.file_blocks.start;
        while start < extent.file_blocks.end {
            let end = extent.file_blocks.end.min(start + max);
            let mut part = extent.part(start..end);
            part.is_written = is_written;
            changed.push(part);
            start = end;
        }
    }
    *extents = changed;
    merge(extents);
    true
}

/// Moves the mapping of `file_blocks` by `by` blocks. Returns `None` if extents would then overlap
/// or exceed `limit`, and otherwise whether any extent changed.
pub(super) fn shift(
    extents: &mut Vec<Extent>,
    file_blocks: &Range<u64>,
    by: i64,
    limit: u64,
) -> Option<bool> {
    split_at(extents, file_blocks.start);
    split_at(extents, file_blocks.end);
    let mut changed = false;
    for extent in extents.iter_mut() {
        if !file_blocks.contains(&extent.file_blocks.start) {
            continue;
        }
        let start = extent.file_blocks.start.checked_add_signed(by)?;
        let end = extent.file_blocks.end.checked_add_signed(by)?;
        if end > limit {
            return None;
        }
        extent.file_blocks = start..end;
        changed = true;
    }
    let is_sorted =
        extents.is_sorted_by(|left, right| left.file_blocks.end <= right.file_blocks.start);
    if !is_sorted {
        return None;
    }
    merge(extents);
    Some(changed)
}

/// Returns the preferred location of `file_block`. Its distance from the preceding extent is the
/// same on the image as in the file. If no extent precedes it, the first extent is used instead.
pub(super) fn goal_for(extents: &[Extent], file_block: u64) -> Option<FsBlock> {
    let next = extents.partition_point(|extent| extent.file_blocks.start <= file_block);
    if let Some(before) = next.checked_sub(1).and_then(|index| extents.get(index)) {
        let distance = file_block - before.file_blocks.start;
        return Some(FsBlock(before.block.0.saturating_add(distance)));
    }
    let after = extents.first()?;
    let distance = after.file_blocks.start.saturating_sub(file_block);
    Some(FsBlock(after.block.0.saturating_sub(distance)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use std::collections::BTreeMap;

    fn extent(file_blocks: Range<u64>, block: u64, is_written: bool) -> Extent {
        Extent {
            file_blocks,
            block: FsBlock(block),
            is_written,
        }
    }

    #[test]
    fn insert_between_neighbours_that_touch_makes_one_extent() {
        let mut extents = vec![extent(0..5, 100, true), extent(8..10, 108, true)];
        assert!(insert(&mut extents, extent(5..8, 105, true)));
        assert_eq!(extents, [extent(0..10, 100, true)]);
        assert!(!insert(&mut extents, extent(9..11, 200, true)));
    }

    #[test]
    fn insert_of_another_state_or_location_is_not_merged() {
        let mut extents = vec![extent(0..5, 100, true)];
        assert!(insert(&mut extents, extent(5..8, 105, false)));
        assert!(insert(&mut extents, extent(8..9, 300, false)));
        assert_eq!(extents.len(), 3);
    }

    #[test]
    fn merge_stops_at_the_maximum_extent_length() {
        for (is_written, longest) in [(true, 32_768), (false, 32_767)] {
            let mut extents = vec![extent(0..longest - 1, 100, is_written)];
            let next = extent(longest - 1..longest, 100 + longest - 1, is_written);
            assert!(insert(&mut extents, next));
            assert_eq!(extents.len(), 1);
            let next = extent(longest..longest + 1, 100 + longest, is_written);
            assert!(insert(&mut extents, next));
            assert_eq!(extents.len(), 2);
        }
    }

    #[test]
    fn longest_written_extent_set_unwritten_is_split() {
        let mut extents = vec![extent(0..32_768, 100, true)];
        assert!(set_written(&mut extents, &(0..32_768), false));
        let expected = [
            extent(0..32_767, 100, false),
            extent(32_767..32_768, 32_867, false),
        ];
        assert_eq!(extents, expected);
        assert!(set_written(&mut extents, &(0..40_000), true));
        assert_eq!(extents, [extent(0..32_768, 100, true)]);
    }

    #[test]
    fn goal_follows_the_previous_extent_or_precedes_the_next() {
        let extents = [extent(10..15, 100, true)];
        let goal = |at| goal_for(&extents, at).map(|block| block.0);
        assert_eq!(
            (goal(15), goal(20), goal(8)),
            (Some(105), Some(110), Some(98))
        );
        assert_eq!(goal_for(&[], 3), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u64, bool),
        Remove(u64, u64),
        SetWritten(u64, u64, bool),
        Shift(u64, i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let start = 0..200_u64;
        let blocks = 1..30_u64;
        prop_oneof![
            (start.clone(), blocks.clone(), any::<bool>())
                .prop_map(|(start, blocks, written)| Step::Insert(start, blocks, written)),
            (start.clone(), blocks.clone()).prop_map(|(start, blocks)| Step::Remove(start, blocks)),
            (start.clone(), blocks, any::<bool>())
                .prop_map(|(start, blocks, written)| Step::SetWritten(start, blocks, written)),
            (start, -20..20_i64).prop_map(|(start, by)| Step::Shift(start, by)),
        ]
    }

    type Model = BTreeMap<u64, (u64, bool)>;

    fn as_model(extents: &[Extent]) -> Model {
        let mut model = Model::new();
        for extent in extents {
            for (block, file_block) in (extent.block.0..).zip(extent.file_blocks.clone()) {
                assert!(
                    model
                        .insert(file_block, (block, extent.is_written))
                        .is_none()
                );
            }
        }
        model
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(0),
            ..ProptestConfig::default()
        })]

        #[test]
        fn leaf_after_random_steps_matches_model(steps in proptest::collection::vec(step(), 1..60)) {
            let mut extents = Vec::new();
            let mut model = Model::new();
            for step in steps {
                match step {
                    Step::Insert(start, blocks, is_written) => {
                        let range = start..start + blocks;
                        let free = model.range(range.clone()).next().is_none();
                        // Near the blocks that are already mapped, so that extents merge.
                        let block = 1000 + start;
                        prop_assert_eq!(is_hole(&extents, &range), free);
                        prop_assert_eq!(insert(&mut extents, extent(range.clone(), block, is_written)), free);
                        if free {
                            model.extend(range.map(|at| (at, (1000 + at, is_written))));
                        }
                    }
                    Step::Remove(start, blocks) => {
                        let range = start..start + blocks;
                        let last = last_in(&extents, &range, 3).map(|last| last.file_blocks.end - 1);
                        let expected = model.range(range.clone()).next_back().map(|(&at, _)| at);
                        prop_assert_eq!(last, expected);
                        remove(&mut extents, &range);
                        model.retain(|at, _| !range.contains(at));
                    }
                    Step::SetWritten(start, blocks, is_written) => {
                        let range = start..start + blocks;
                        set_written(&mut extents, &range, is_written);
                        for (_, mapped) in model.range_mut(range) {
                            mapped.1 = is_written;
                        }
                    }
                    Step::Shift(start, by) => {
                        let before = extents.clone();
                        let back = start.saturating_add_signed(by)..start;
                        let fits = by >= 0
                            || (start.checked_add_signed(by).is_some() && is_hole(&extents, &back));
                        let done = shift(&mut extents, &(start..1 << 32), by, 1 << 32);
                        if !fits {
                            // Either the shift was refused, or the blocks before `start` that are
                            // mapped do not overlap the moved extents.
                            extents = before;
                            continue;
                        }
                        prop_assert!(done.is_some());
                        let moved = model.split_off(&start);
                        model.extend(moved.into_iter().map(|(at, mapped)| {
                            (at.checked_add_signed(by).unwrap(), mapped)
                        }));
                    }
                }
                prop_assert_eq!(as_model(&extents), model.clone());
                let is_merged = extents.is_sorted_by(|left, right| {
                    left.file_blocks.end <= right.file_blocks.start && !left.can_merge(right)
                });
                prop_assert!(is_merged);
            }
        }
    }
}
