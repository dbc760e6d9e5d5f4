//! Findings that compare throughputs, and the scatter of the throughputs.

use super::finding::{Observed, Verdict};
use crate::reproduce::lever2000::measure::Load;
use crate::reproduce::lever2000::results::Lever2000;
use crate::statistics::{Figures, median};
use larder::CacheKind;
use std::cmp::Ordering;

/// Returns the figures without the first run, or of all runs if the first run is the only one.
pub(in crate::reproduce::lever2000) fn steady(load: &Load) -> Figures {
    load.runs.without_first().unwrap_or_else(|| load.runs.all())
}

/// Standard deviations without the first runs, in percent of the averages.
pub(in crate::reproduce::lever2000) struct Scatter {
    /// Number of combinations of a row and a load.
    pub rows: usize,
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Scatter {
    /// Computes the scatter of all rows; `None` if there are only single runs.
    pub(in crate::reproduce::lever2000) fn of(results: &Lever2000) -> Option<Self> {
        let loads = results.tables.iter().flatten().flat_map(|row| &row.loads);
        let parts = loads.map(|load| {
            let steady = steady(load);
            Some(100.0 * steady.s? / steady.mean)
        });
        let parts: Vec<f64> = parts.collect::<Option<_>>()?;
        Some(Self {
            rows: parts.len(),
            least: parts.iter().copied().fold(f64::INFINITY, f64::min),
            median: median(&parts),
            most: parts.iter().copied().fold(0.0, f64::max),
        })
    }

    /// Returns the smallest significant difference between two rows with the median scatter, in
    /// percent.
    pub(in crate::reproduce::lever2000) fn shown(&self) -> f64 {
        4.0 * self.median
    }
}

pub(super) fn inode_bits(results: &Lever2000) -> Option<Observed> {
    let (twelve, eight) = (
        results.last_load(5, "12 bit")?,
        results.last_load(5, "reference")?,
    );
    Some(higher(twelve, eight))
}

pub(super) fn kernel_d(results: &Lever2000) -> Option<Observed> {
    let at = |kernel| results.last_load(6, kernel);
    let d = at("D")?;
    let mut parts = Vec::new();
    let mut least = f64::INFINITY;
    let mut against = Vec::new();
    for kernel in ["A", "B", "C", "D"] {
        let other = at(kernel)?;
        least = least.min(other.links_per_script());
        against.push(steady(other).beyond_noise(steady(d)));
        parts.push(format!(
            "{kernel} {:.0}, {}",
            other.links_per_script(),
            steady(other)
        ));
    }
    let text = format!(
        "links per script, and scripts per hour: {}; D walks {:.1}% more links than the kernel with the fewest",
        parts.join("; "),
        100.0 * (d.links_per_script() / least - 1.0)
    );
    let walks_more = d.links_per_script() > 1.05 * least;
    let verdict = if walks_more || against.contains(&Some(Ordering::Greater)) {
        Verdict::DoesNotHold
    } else if against.contains(&None) {
        Verdict::OneRun
    } else {
        Verdict::Holds
    };
    Some((text, verdict))
}

pub(super) fn shrinking(results: &Lever2000) -> Option<Observed> {
    let (eager, normal) = (
        results.last_load(4, "shrink + mult 11")?,
        results.last_load(4, "mult shift 11")?,
    );
    let (text, verdict) = higher(eager, normal);
    let dentries = |load: &Load| load.cache(CacheKind::Dentry).full.histogram.objects();
    let text = format!(
        "{text}; dentries at the end: {} and {}",
        dentries(eager),
        dentries(normal)
    );
    Some((text, verdict))
}

/// Compares the throughput under `one` with that under `other`.
fn higher(one: &Load, other: &Load) -> Observed {
    let (one, other) = (steady(one), steady(other));
    let verdict = match one.beyond_noise(other) {
        Some(Ordering::Greater) => Verdict::Holds,
        Some(Ordering::Equal) => Verdict::WithinNoise,
        Some(Ordering::Less) => Verdict::DoesNotHold,
        None => Verdict::OneRun,
    };
    (format!("scripts per hour: {one} and {other}"), verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdm::Runs;

    fn load(elapsed_s: &[f64]) -> Load {
        Load {
            runs: Runs {
                users: 1,
                elapsed_s: elapsed_s.to_vec(),
            },
            caches: Vec::new(),
            device_reads: 0,
        }
    }

    #[test]
    fn throughputs_of_one_run_without_the_first_are_not_judged() {
        let (fast, slow) = (load(&[9.0, 1.0]), load(&[9.0, 2.0]));
        let (text, verdict) = higher(&fast, &slow);
        assert_eq!(verdict, Verdict::OneRun);
        assert_eq!(text, "scripts per hour: 3600.0 and 1800.0");
        let (fast, slow) = (load(&[9.0, 1.0, 1.0]), load(&[9.0, 2.0, 2.0]));
        assert_eq!(higher(&fast, &slow).1, Verdict::Holds);
        assert_eq!(higher(&slow, &fast).1, Verdict::DoesNotHold);
        let scattered = load(&[9.0, 0.5, 2.0]);
        assert_eq!(higher(&scattered, &slow).1, Verdict::WithinNoise);
    }
}
