//! Bootstrap: estimates how much a statistic depends on the sample from which it was computed. For this, the
//! statistic is also computed for many random samples that are drawn from the original sample with replacement.

use rand::Rng;

/// Number of random samples.
const SAMPLES: usize = 1000;

/// Number of results that are discarded at each end of the sorted results, so that 95% remain.
const DISCARDED: usize = SAMPLES / 40;

/// Returns the ends of the range that contains `statistic` for 95% of the random samples of `items`; `None` if
/// there are no items.
pub(crate) fn percentile_range<T: Copy>(
    items: &[T],
    random: &mut impl Rng,
    statistic: impl Fn(&[T]) -> f64,
) -> Option<[f64; 2]> {
    percentile_range_of_groups(&[items.to_vec()], random, |groups| statistic(&groups[0]))
}

/// Returns the range of [`percentile_range`] for items in groups, and a statistic of groups. Each sample has as many
/// items from each group as the group itself, so that differences between the groups do not widen the range.
pub(super) fn percentile_range_of_groups<T: Copy>(
    groups: &[Vec<T>],
    random: &mut impl Rng,
    statistic: impl Fn(&[Vec<T>]) -> f64,
) -> Option<[f64; 2]> {
    if groups.iter().all(Vec::is_empty) {
        return None;
    }
    let mut sample = groups.to_vec();
    let mut results: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            for (drawn, items) in sample.iter_mut().zip(groups) {
                drawn.fill_with(|| items[random.random_range(0..items.len())]);
            }
            statistic(&sample)
        })
        .collect();
    results.sort_by(f64::total_cmp);
    Some([results[DISCARDED], results[SAMPLES - 1 - DISCARDED]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::mean;
    use crate::workload::chance::generator;

    #[test]
    fn range_of_equal_items_is_a_point() {
        let range = percentile_range(&[2.0; 9], &mut generator(1, 1), mean).unwrap();
        assert!(range.iter().all(|end| (end - 2.0).abs() < 1e-12));
        assert_eq!(percentile_range(&[], &mut generator(1, 1), mean), None);
    }

    #[test]
    fn range_contains_the_mean_and_depends_on_the_seed_alone() {
        let items: Vec<f64> = (0..20).map(f64::from).collect();
        let range = |seed| percentile_range(&items, &mut generator(seed, 1), mean);
        let [low, high] = range(1).unwrap();
        // The deviation of the mean of 20 items is 1.32.
        assert!(
            (6.4..7.4).contains(&low) && (11.6..12.6).contains(&high),
            "{low} {high}"
        );
        assert_eq!(range(1), Some([low, high]));
        assert_ne!(range(2), Some([low, high]));
    }
}
