//! Decides whether to shrink dentries eagerly: fewer names make chains shorter and misses more frequent.
//!
//! # Model
//! "Some may argue that shrinking the dcache unnecessarily might lower the overall effectiveness of the
//! cache" (Lever 2000, section 3.3). Both effects are measured: the trace's names are replayed in a table
//! with room for their largest number, and in the same table with room for half as many, which corresponds
//! to pressure on all objects at every shortage. The time saved on all lookups, divided by the number of
//! additional misses, is the maximum cost of a miss at which eager shrinking pays. The actual cost is not
//! in the trace: the user specifies it, or it is assumed to be a read from a disk, the worst case, so that
//! eager shrinking is recommended only where it pays even then.

use super::{MIN_CERTAINTY, certainty};
use crate::hash::{Capacity, Combination, Error, Outcome, Source, Surveys, Wanted, replay, survey};
use crate::run_report::{as_f64, ratio};
use larder_cache::tape::CacheKind;
use serde::Serialize;

/// Minimum relative decrease in the time of a lookup. The two tables are timed one after the other, and
/// the speed of the machine varies by some hundredths meanwhile.
const MIN_SAVED_SHARE: f64 = 0.1;

/// Results of eager shrinking.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShrinkingAdvice {
    /// Number of lookups of names.
    pub lookups: u64,
    /// Number of misses with normal shrinking.
    pub misses_normal: u64,
    /// Number of misses with half as many names.
    pub misses_eager: u64,
    /// Decrease in the time of a lookup with half as many names, in nanoseconds; `None` if it is within
    /// the noise.
    pub saved_ns: Option<f64>,
    /// The share of all pairs of timed runs in which half as many names were faster.
    pub certainty: f64,
    /// The maximum cost of a miss, in nanoseconds, at which eager shrinking pays; `None` if there are no
    /// additional misses.
    pub break_even_ns: Option<f64>,
    /// The assumed cost of a miss.
    pub assumed_miss_ns: f64,
    /// Whether eager shrinking pays.
    pub is_worth_it: bool,
}

/// Measures eager shrinking in `table`, if the trace has names.
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
    let mut with_room = |objects: u64| -> Result<Outcome, Error> {
        let wanted = Wanted::default().with(cache, Capacity::Objects(objects.max(1)));
        let surveys = survey(source, wanted)?;
        let mut outcomes = replay(source, wanted, &surveys, &[table], tick)?;
        Ok(outcomes.remove(0))
    };
    let normal = with_room(all.peak_objects)?;
    let eager = with_room(all.peak_objects / 2)?;
    let time = |outcome: &Outcome| Some(outcome.timing.as_ref()?.lookup().median_ns);
    let certainty = certainty(&eager, &normal);
    let times = time(&normal).zip(time(&eager));
    let saved_ns = times.and_then(|(normal, eager)| {
        let is_sure = normal - eager >= MIN_SAVED_SHARE * normal && certainty >= MIN_CERTAINTY;
        is_sure.then_some(normal - eager)
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
        certainty,
        break_even_ns,
        assumed_miss_ns: miss_ns,
        is_worth_it: saved_ns.is_some() && break_even_ns.is_some_and(|cost| cost >= miss_ns),
    }))
}
