//! Reasons why the advice may be inaccurate.

use super::costs::Costs;
use super::curve::MissCurve;
use super::pass::Observation;
use super::readahead::ReadaheadTimes;
use crate::hash::{Source, TraceFile};
use larder_cache::tape::CacheKind;

/// If the simulated reads are from a smaller part of the recording, a note states the part.
const SMALL_SHARE: f64 = 0.2;

/// Returns what may be inaccurate, each as a sentence.
pub(super) fn notes(
    trace: &TraceFile,
    observation: &Observation,
    costs: &Costs,
    readahead: Option<&ReadaheadTimes>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if !trace.losses().are_none() {
        notes.push(format!("The trace is incomplete: {}.", trace.losses()));
    }
    let missing: Vec<&str> = CacheKind::ALL
        .into_iter()
        .filter(|cache| observation.counts[*cache as usize].lookups == 0)
        .map(CacheKind::as_str)
        .collect();
    if !missing.is_empty() {
        notes.push(format!(
            "The trace has no lookups of these caches: {}.",
            missing.join(", ")
        ));
    }
    if !trace.has_changes() {
        notes.push(
            "The trace has no insertions and removals, so each object is assumed to stay until it is evicted."
                .to_owned(),
        );
    }
    let (evictions, invalidations) = observation.population.removals();
    if evictions + invalidations > 0 {
        notes.push(format!(
            "Of the removals, {evictions} occurred in a nearly full cache and are regarded as evictions, and \
             {invalidations} as invalidations."
        ));
    }
    if observation.population.exceeds_memory() {
        notes.push(
            "The recorded caches had more objects than the current cache_size can hold. Give the options of the \
             recorded mount with --current."
                .to_owned(),
        );
    }
    let sampled = observation.curves.iter().filter(|curve| !curve.is_exact());
    if let Some(share) = sampled.map(MissCurve::sampled_share).reduce(f64::min) {
        notes.push(format!(
            "The trace has too many objects to track all of them: the curves are estimated from a sample of \
             {:.4}% of the objects.",
            100.0 * share
        ));
    }
    if costs.reduced_by < 1.0 {
        notes.push(format!(
            "On this device, the misses would take longer than the recording. All times were reduced to {:.1}%: \
             the recorded device was faster, or several threads waited at the same time.",
            100.0 * costs.reduced_by
        ));
    }
    if let Some(times) = readahead {
        notes.push(format!(
            "Readahead was simulated with {}.",
            times.description()
        ));
        if times.share < SMALL_SHARE {
            let percent = 100.0 * times.share;
            notes.push(format!(
                "These reads are from {percent:.1}% of the recording."
            ));
        }
    }
    notes
}
