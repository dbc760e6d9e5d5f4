//! Recommends eager or normal shrinking of the dentry cache. Eager shrinking (`shrink=eager`) leaves fewer
//! names in the cache, which makes chains shorter and misses more frequent.
//!
//! # Model
//! "Some may argue that shrinking the dcache unnecessarily might lower the overall effectiveness of the
//! cache" (Lever 2000, section 3.3). Both effects are measured. The trace's names are replayed twice in the
//! same table: with room for the largest number of names that the cache contained, and with room for half of
//! that number. The second replay represents eager shrinking, which evicts names at every shortage of memory.
//! The time saved on all lookups, divided by the number of additional misses, is the maximum cost of a miss at
//! which eager shrinking pays. The trace does not contain the actual cost of a miss. The user can specify it.
//! By default, the cost is the time of a read from a flash disk, as if every miss read the disk. This is the
//! worst case. Therefore eager shrinking is recommended only if it pays even then.

use super::pairs::{MIN_FASTER_SHARE, faster_share};
use crate::hash::{Capacity, Combination, Error, Outcome, Source, Surveys, Wanted, replay, survey};
use crate::run_report::{as_f64, ratio};
use larder_cache::tape::CacheKind;
use serde::Serialize;

/// Minimum relative decrease in the time of a lookup. The two replays are timed one after the other, and in between the
/// speed of the machine can change by several percent.
const MIN_SAVED_SHARE: f64 = 0.1;

/// The recommendation for eager shrinking, and the measurements that it is based on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShrinkingAdvice {
    /// Number of lookups of names.
    pub lookups: u64,
    /// Number of misses with normal shrinking.
    pub misses_normal: u64,
    /// Number of misses with eager shrinking.
    pub misses_eager: u64,
    /// Decrease in the time of a lookup due to eager shrinking, in nanoseconds; `None` if it is within the
    /// noise.
    pub saved_ns: Option<f64>,
    /// The share of all pairs of timed runs, one run of each replay, in which eager shrinking was faster.
    #[serde(rename = "certainty")]
    pub faster_share: f64,
    /// The maximum cost of a miss, in nanoseconds, at which eager shrinking pays; `None` if there are no
    /// additional misses.
    pub break_even_ns: Option<f64>,
    /// The assumed cost of a miss, in nanoseconds.
    pub assumed_miss_ns: f64,
    /// Whether the mount should use eager shrinking.
    pub is_worth_it: bool,
}

/// Measures normal and eager shrinking in `table`. Returns `None` if the trace has no names.
pub(super) fn advise(
    source: &dyn Source,
    table: Combination,
    surveys: &Surveys,
    miss_ns: f64,
    tick: &mut dyn FnMut(u64),
) -> Result<Option<ShrinkingAdvice>, Error> {
    let cache = CacheKind::Dentry;
    let Some(all) = surveys.get(&cache) else {
        return Ok(None);
    };
    let mut replay_with_capacity = |objects: u64| -> Result<Outcome, Error> {
        let capacities = Wanted::default().with(cache, Capacity::Objects(objects.max(1)));
        let surveys = survey(source, capacities)?;
        let mut outcomes = replay(source, capacities, &surveys, &[table], tick)?;
        Ok(outcomes.remove(0))
    };
    let normal = replay_with_capacity(all.peak_objects)?;
    let eager = replay_with_capacity(all.peak_objects / 2)?;
    let time = |outcome: &Outcome| Some(outcome.timing.as_ref()?.lookup().median_ns);
    let faster_share = faster_share(&eager, &normal);
    let times = time(&normal).zip(time(&eager));
    let saved_ns = times.and_then(|(normal, eager)| {
        let is_significant =
            normal - eager >= MIN_SAVED_SHARE * normal && faster_share >= MIN_FASTER_SHARE;
        is_significant.then_some(normal - eager)
    });
    let lookups = normal.counts.lookups();
    let added = eager.counts.misses.saturating_sub(normal.counts.misses);
    let saved = saved_ns.unwrap_or(0.0) * as_f64(lookups);
    let break_even_ns = (added > 0).then(|| ratio(saved, as_f64(added)));
    Ok(Some(ShrinkingAdvice {
        lookups,
        misses_normal: normal.counts.misses,
        misses_eager: eager.counts.misses,
        saved_ns,
        faster_share,
        break_even_ns,
        assumed_miss_ns: miss_ns,
        is_worth_it: saved_ns.is_some() && break_even_ns.is_some_and(|cost| cost >= miss_ns),
    }))
}
