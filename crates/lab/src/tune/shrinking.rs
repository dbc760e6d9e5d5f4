//! Whether to shrink dentries eagerly: fewer names make shorter chains, and more misses.
//!
//! # Model
//! "Some may argue that shrinking the dcache unnecessarily might lower the overall effectiveness of the
//! cache" (Lever 2000, section 3.3). Both are measured: the names of the trace in a table with room for
//! the most that there are at any time, and in the same table with room for half as many, which
//! pressure on all objects at every shortage comes to. What is saved on all lookups, for each miss that is
//! added, is what a miss may cost at most for that to pay. What it does cost a trace does not tell: who
//! asks says it, or it is taken for a read of a disk, the worst that it comes to, so that eager
//! shrinking is advised only where it pays even then.

use super::{SURE, certainty};
use crate::hash::{Combination, Error, Outcome, Room, Source, Surveys, Wanted, replay, survey};
use crate::run_report::{as_f64, ratio};
use larder_cache::tape::CacheKind;
use serde::Serialize;

/// A lookup must take less time by this part of it at least: the two tables are timed one after
/// the other, and what the machine does meanwhile differs by some hundredths.
const LEAST_SAVED: f64 = 0.1;

/// What eager shrinking brings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShrinkingAdvice {
    /// Lookups of names.
    pub lookups: u64,
    /// Those that miss with normal shrinking.
    pub misses_normal: u64,
    /// Those that miss with half as many names.
    pub misses_eager: u64,
    /// Nanoseconds that a lookup takes less with half as many names; `None` where that is noise.
    pub saved_ns: Option<f64>,
    /// In how many of all pairs of timed runs half as many names were faster, as a share.
    pub certainty: f64,
    /// What a miss may cost at most, in nanoseconds, for eager shrinking to pay; `None` if no miss is
    /// added.
    pub break_even_ns: Option<f64>,
    /// What a miss is taken to cost.
    pub assumed_miss_ns: f64,
    /// Whether it does.
    pub is_worth_it: bool,
}

/// Measures it in `table`, if the trace has names.
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
        let wanted = Wanted::default().and(cache, Room::Objects(objects.max(1)));
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
        let is_sure = normal - eager >= LEAST_SAVED * normal && certainty >= SURE;
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
