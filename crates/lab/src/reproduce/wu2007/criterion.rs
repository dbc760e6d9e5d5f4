//! Defines when a simulated change agrees with a published change. This criterion was defined before any
//! result was known.
//!
//! Both changes are from `legacy` to `ondemand`, in percent of `legacy`, in the unit of the
//! published table. They are rounded to one decimal, as in the document, and then compared.
//!
//! 1. A change counts as **none** if it is not larger than the noise of its table. The noise is the
//!    largest difference between two runs of the same test on the same kernel, over the tests of
//!    that kind in the document itself. A table without a second run uses the noise of iozone's
//!    reads. Counts of processor time have no noise.
//! 2. The **direction** agrees if both changes count as none, or if both have the same sign.
//! 3. The **rough size** agrees if both changes count as none, or if the simulated change is within
//!    [`SIZE_POINTS`] percentage points of the published change, or is between half and twice the
//!    published change.
//!
//! If the noise of a table is above [`LOOSE_NOISE_PCT`], agreement is weak evidence: the rows of the table
//! are marked as loose, and counted separately.

use serde::Serialize;

/// Maximum distance, in percentage points, of two changes of the same rough size.
pub const SIZE_POINTS: f64 = 2.0;

/// Noise above which agreement is weak evidence.
pub const LOOSE_NOISE_PCT: f64 = 5.0;

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// No change beyond the noise.
    Same,
    /// The figure is larger under `ondemand`.
    More,
    /// The figure is smaller under `ondemand`.
    Less,
}

impl Direction {
    fn of(change_pct: f64, noise_pct: f64) -> Self {
        if change_pct.abs() <= noise_pct {
            Self::Same
        } else if change_pct > 0.0 {
            Self::More
        } else {
            Self::Less
        }
    }
}

/// The result of the criterion for one row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The published change, in percent.
    pub published_pct: f64,
    /// The simulated change, in percent; `None` if it is undefined, such as a change from zero.
    pub ours_pct: Option<f64>,
    /// Direction of the published change.
    pub published: Direction,
    /// Whether both directions agree.
    pub direction_agrees: bool,
    /// Whether the direction would agree if the simulated figures had not changed.
    pub agrees_if_nothing_changed: bool,
    /// Whether the rough sizes agree; `None` if the figures are of different kinds.
    pub size_agrees: Option<bool>,
    /// Whether the noise is so large that agreement is weak evidence.
    pub loose: bool,
}

impl Judgement {
    /// Returns whether everything that was judged agrees.
    pub fn agrees(&self) -> bool {
        self.direction_agrees && self.size_agrees != Some(false)
    }
}

/// Compares the simulated change with the published one.
pub fn judge(published_pct: f64, ours_pct: f64, noise_pct: f64) -> Judgement {
    let [published_pct, ours_pct, noise_pct] =
        [published_pct, ours_pct, noise_pct].map(one_decimal);
    let published = Direction::of(published_pct, noise_pct);
    // A change that is not a number, such as from zero to zero, agrees with no other.
    let ours = ours_pct
        .is_finite()
        .then(|| Direction::of(ours_pct, noise_pct));
    let both_same = published == Direction::Same && ours == Some(Direction::Same);
    let near = (ours_pct - published_pct).abs() <= SIZE_POINTS;
    let ratio = ours_pct / published_pct;
    Judgement {
        published_pct,
        ours_pct: ours_pct.is_finite().then_some(ours_pct),
        published,
        direction_agrees: ours == Some(published),
        agrees_if_nothing_changed: published == Direction::of(0.0, noise_pct),
        size_agrees: Some(both_same || near || (0.5..=2.0).contains(&ratio)),
        loose: noise_pct > LOOSE_NOISE_PCT,
    }
}

/// Compares only the directions, where the simulation counts work that the document timed.
pub fn judge_direction(published_pct: f64, ours_pct: f64, noise_pct: f64) -> Judgement {
    Judgement {
        size_agrees: None,
        ..judge(published_pct, ours_pct, noise_pct)
    }
}

/// Returns the noise of a kind of test from its repeated runs. Each item is the same figure in two
/// runs.
pub fn noise_pct(repeats: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    repeats
        .into_iter()
        .map(|(first, second)| one_decimal((second / first - 1.0).abs() * 100.0))
        .fold(0.0, f64::max)
}

/// Rounds to one decimal, without negative zero.
pub fn one_decimal(value: f64) -> f64 {
    (value * 10.0).round() / 10.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published change, simulated change, noise; direction, size.
    const CASES: &[(f64, f64, f64, bool, bool)] = &[
        // Both are within the noise, whatever their distance.
        (0.0, 0.0, 1.2, true, true),
        (1.0, -1.0, 1.2, true, true),
        (17.1, -15.0, 19.7, true, true),
        // A change equal to the noise counts as none; a larger one counts.
        (1.2, 0.0, 1.2, true, true),
        (1.3, 0.0, 1.2, false, true),
        (1.24, 0.0, 1.2, true, true),
        (0.1, 3.5, 1.2, false, false),
        // Same sign: within a factor of two, or two points.
        (8.7, 4.4, 1.2, true, true),
        (8.7, 4.3, 1.2, true, false),
        (8.7, 17.4, 1.2, true, true),
        (8.7, 17.5, 1.2, true, false),
        (3.0, 1.3, 1.2, true, true),
        (-5.0, -2.6, 1.2, true, true),
        // Opposite signs: the sizes may agree within two points, but not the directions.
        (1.3, -1.3, 0.0, false, false),
        (0.9, -0.9, 0.5, false, true),
        (8.0, -8.0, 1.2, false, false),
        // Large changes.
        (200.0, 399.9, 1.2, true, true),
        (200.0, 99.0, 1.2, true, false),
    ];

    #[test]
    fn judgement_of_each_case_follows_the_criterion() {
        for &(published, ours, noise, direction, size) in CASES {
            let judgement = judge(published, ours, noise);
            assert_eq!(
                (judgement.direction_agrees, judgement.size_agrees),
                (direction, Some(size)),
                "published {published} simulated {ours} noise {noise}"
            );
            assert_eq!(judgement.agrees(), direction && size);
        }
    }

    #[test]
    fn undefined_change_agrees_with_nothing() {
        for ours in [f64::NAN, f64::INFINITY] {
            let judgement = judge(0.0, ours, 1.0);
            assert!(!judgement.direction_agrees && judgement.size_agrees == Some(false));
            assert_eq!(judgement.ours_pct, None);
        }
    }

    #[test]
    fn direction_judgement_has_no_size() {
        let judgement = judge_direction(1.2, 60.0, 0.0);
        assert!(judgement.agrees() && judgement.size_agrees.is_none());
        assert!(!judge_direction(-1.0, 60.0, 0.0).agrees());
    }

    #[test]
    fn noise_is_the_largest_difference_of_a_repeat() {
        let noise = noise_pct([(100.0, 101.0), (100.0, 97.0), (50.0, 50.5)]);
        assert!((noise - 3.0).abs() < 1e-9, "{noise}");
        assert!(noise_pct([]).abs() < 1e-9);
    }

    #[test]
    fn noise_above_the_limit_makes_agreement_loose() {
        assert!(!judge(0.0, 0.0, 5.0).loose);
        assert!(judge(0.0, 0.0, 5.1).loose);
    }
}
