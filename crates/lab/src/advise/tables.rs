//! Recommends tables, if they can matter: compares tables only if faster lookups can save 1% of the recording.

use super::current::Current;
use super::pass::Observation;
use super::recommendation::{Change, MIN_SHARE, is_worth_it};
use super::table_sample::TableSample;
use crate::hash::{Error, Source, TraceFile};
use crate::output::duration;
use crate::run_report::{as_f64, ratio};
use crate::statistics::Interval;
use crate::tune::{self, CacheAdvice, Conditions};
use std::time::Duration;

/// Assumed upper limit of the time that a faster table can save in a lookup. Lookups in a suitable table take 10
/// to 200 ns.
const MAX_SAVED_NS: f64 = 500.0;

/// Part of the configuration that this module examines.
const PART: &str = "tables";

/// Recommends the current tables without a comparison, if their lookups are a negligible part of the recording.
pub(super) fn negligible(observation: &Observation) -> Option<Change> {
    let lookups: u64 = observation.counts.iter().map(|counts| counts.lookups).sum();
    let most_ns = as_f64(lookups) * MAX_SAVED_NS;
    let recording = as_f64(observation.recording_ns);
    (most_ns < MIN_SHARE * recording).then(|| Change {
        part: PART,
        options: Vec::new(),
        saved_ns: Some(Interval::new(0.0, [0.0, most_ns])),
        reason: format!(
            "{lookups} lookups in {} are too few for faster tables to save 1%",
            duration(Duration::from_secs_f64(recording / 1e9))
        ),
    })
}

/// Compares tables on the whole trace, or on a sample if the trace is long.
pub(super) fn advise(
    trace: &TraceFile,
    observation: &Observation,
    current: &Current,
    latency_ns: f64,
    seed: u64,
) -> Result<(Change, Option<tune::Advice>), Error> {
    let sample: &TableSample = &observation.table_sample;
    let source: &dyn Source = if sample.is_needed() { sample } else { trace };
    let conditions = Conditions {
        miss_ns: latency_ns,
        tables: current.tables,
        seed,
        ..Conditions::new(current.cache_size_bytes)
    };
    let advice = match tune::tune(source, conditions, &mut |_| {}) {
        Ok(advice) => advice,
        Err(Error::Empty) => {
            let change = Change {
                part: PART,
                options: Vec::new(),
                saved_ns: None,
                reason: "the trace has too few lookups to compare tables".to_owned(),
            };
            return Ok((change, None));
        }
        Err(error) => return Err(error),
    };
    let worth: Vec<&CacheAdvice> = advice.caches.iter().filter(|one| one.is_worth_it).collect();
    let saved_ns = worth.iter().fold(Interval::exact(0.0), |sum, one| {
        let lookups = observation.counts[one.cache as usize].lookups;
        add(sum, saved_in_cache(one, as_f64(lookups)))
    });
    let shrinking = advice
        .shrinking
        .as_ref()
        .filter(|shrinking| shrinking.is_worth_it);
    let names = observation.counts[larder_cache::tape::CacheKind::Dentry as usize].lookups;
    let shrunk = shrinking.map_or(0.0, |shrinking| {
        let added = shrinking
            .misses_eager
            .saturating_sub(shrinking.misses_normal);
        let saved = shrinking.saved_ns.unwrap_or(0.0) * as_f64(shrinking.lookups);
        let net = saved - as_f64(added) * shrinking.assumed_miss_ns;
        net * ratio(as_f64(names), as_f64(shrinking.lookups))
    });
    let saved_ns = saved_ns.map(|saved| saved + shrunk);
    let is_recommended = is_worth_it(saved_ns, observation.recording_ns);
    let reason = if is_recommended {
        format!("faster on {}", source.title())
    } else if worth.is_empty() && shrinking.is_none() {
        "no other table was faster by more than the noise".to_owned()
    } else {
        "other tables save less than 1% of the recording, or less than the noise".to_owned()
    };
    let option = is_recommended.then(|| advice.mount_option.clone());
    let change = Change {
        part: PART,
        options: option.into_iter().collect(),
        saved_ns: Some(saved_ns),
        reason,
    };
    Ok((change, Some(advice)))
}

/// Returns the saving in `lookups` lookups of one cache. The interval extends by two standard deviations on each side.
fn saved_in_cache(advice: &CacheAdvice, lookups: f64) -> Interval {
    let times = advice.current.lookup_ns.zip(advice.selected.lookup_ns);
    let saved = times.map_or(0.0, |(current, selected)| current - selected);
    // For a normal distribution, the median absolute deviation is 0.67 standard deviations.
    let deviations = [advice.current.mad_ns, advice.selected.mad_ns];
    let squares: f64 = deviations
        .iter()
        .map(|mad| (mad.unwrap_or(0.0) / 0.67).powi(2))
        .sum();
    let error = 2.0 * squares.sqrt();
    Interval::new(
        saved * lookups,
        [(saved - error) * lookups, (saved + error) * lookups],
    )
}

/// Returns the sum of two intervals.
fn add(one: Interval, other: Interval) -> Interval {
    let both =
        |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| one + other);
    Interval {
        value: one.value + other.value,
        low: both(one.low, other.low),
        high: both(one.high, other.high),
    }
}
