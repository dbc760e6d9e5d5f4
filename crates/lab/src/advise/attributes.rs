//! Advice on the caches of shared attributes (`mbcache`), from their counts in the trace.
//!
//! # Model
//! A trace has no rows of these caches, so their curve is unknown. But the counts show whether the caches are useful:
//! they are if files began to share attributes. If none did, `mbcache=off` would save the searches. Only an upper bound
//! of this saving is known, so `mbcache=off` is not recommended.

use super::recommendation::{Change, MIN_SHARE};
use crate::run_report::{as_f64, ratio};
use crate::statistics::Interval;
use larder_trace::AttributeInfo;

/// Assumed upper limit of the total time of a search and the insertion after it.
const MAX_NS: f64 = 5000.0;

/// Part of the configuration that this module examines.
const PART: &str = "mbcache";

/// Returns the recommendation: to keep the current option, with the reason. `recording_ns` is the duration of the
/// recording.
pub(super) fn advise(attributes: Option<&AttributeInfo>, recording_ns: u64) -> Change {
    let Some(attributes) = attributes else {
        return keep(
            None,
            "the trace has no counts of searches for shared attributes".to_owned(),
        );
    };
    let AttributeInfo {
        variant,
        lookups,
        hits,
        shares,
        evicted,
    } = attributes;
    if variant == "off" {
        let reason = "it was off, so its benefit is unknown".to_owned();
        return keep(None, reason);
    }
    let found = 100.0 * ratio(as_f64(*hits), as_f64(*lookups));
    let searches = format!("{lookups} searches, {found:.0}% found an entry");
    let most_ns = as_f64(*lookups) * MAX_NS;
    if *shares > 0 {
        let full = if *evicted > 0 {
            format!("; {evicted} entries were evicted, so a larger cache_size may share more")
        } else {
            String::new()
        };
        let reason = format!("{searches}, and {shares} files or attributes began to share{full}");
        return keep(None, reason);
    }
    let reason = if most_ns < MIN_SHARE * as_f64(recording_ns) {
        "too few for mbcache=off to save 1%"
    } else {
        "and nothing was shared; measure mbcache=off"
    };
    keep(
        Some(Interval::new(0.0, [0.0, most_ns])),
        format!("{searches}, {reason}"),
    )
}

fn keep(saved_ns: Option<Interval>, reason: String) -> Change {
    Change {
        part: PART,
        options: Vec::new(),
        saved_ns,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn reason(counts: [u64; 4], recording_ns: u64) -> String {
        let [lookups, hits, shares, evicted] = counts;
        let attributes = AttributeInfo {
            variant: "clock".to_owned(),
            lookups,
            hits,
            shares,
            evicted,
        };
        let change = advise(Some(&attributes), recording_ns);
        assert!(!change.is_recommended());
        change.reason
    }

    #[test]
    fn reason_states_the_hit_rate_and_what_was_shared() {
        assert_eq!(
            reason([8, 6, 5, 0], SECOND_NS),
            "8 searches, 75% found an entry, and 5 files or attributes began to share"
        );
        assert!(reason([8, 6, 5, 3], SECOND_NS).contains("3 entries were evicted"));
        assert_eq!(
            reason([0, 0, 0, 0], SECOND_NS),
            "0 searches, 0% found an entry, too few for mbcache=off to save 1%"
        );
        let many = reason([1_000_000, 0, 0, 0], SECOND_NS);
        assert!(many.ends_with("measure mbcache=off"), "{many}");
    }

    #[test]
    fn unknown_use_is_stated() {
        let unknown = advise(None, SECOND_NS);
        assert_eq!((unknown.saved_ns, unknown.is_recommended()), (None, false));
        let off = AttributeInfo {
            variant: "off".to_owned(),
            lookups: 0,
            hits: 0,
            shares: 0,
            evicted: 0,
        };
        assert!(advise(Some(&off), SECOND_NS).reason.contains("was off"));
    }
}
