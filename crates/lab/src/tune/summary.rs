//! Text of the recommendations: the table to use for each cache, and the measured gain.

use super::bootstrap::MIN_SEGMENTS;
use super::{Advice, CacheAdvice, Interval, MIN_SECOND_HALF_LOOKUPS, ShrinkingAdvice};
use crate::hash::own_function;
use crate::output::{counted, duration};
use crate::run_report::as_f64;
use larder_cache::tables::Finder;
use larder_cache::tape::CacheKind;
use std::fmt::Write as _;
use std::time::Duration;

impl Advice {
    /// Returns the recommendations as text.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        if !self.losses.are_none() {
            let _ = writeln!(text, "The trace is incomplete: {}.", self.losses);
        }
        for advice in &self.caches {
            let _ = writeln!(text, "{}: {}", advice.cache.as_str(), verdict(advice));
        }
        if let Some(shrinking) = &self.shrinking {
            let _ = writeln!(text, "{}", shrinking_verdict(shrinking));
        }
        let names = self
            .caches
            .iter()
            .find(|advice| advice.cache == CacheKind::Dentry);
        if let Some(names) = names {
            let _ = writeln!(
                text,
                "For names, larder's hash function uses a secret seed, so {} was measured instead. Short and \
                 long names were in one table, which had the size of the table for short names.",
                own_function(CacheKind::Dentry)
            );
            if names.is_worth_it && names.selected.function != Finder::Larder {
                text.push_str(
                    "Warning: only larder's function for names resists names that are chosen to share a \
                     bucket.\n",
                );
            }
        }
        text
    }
}

impl CacheAdvice {
    /// Returns whether the table that was selected on the first half differs from the current one.
    pub(super) fn differs_from_current(&self) -> bool {
        let table = |judged: &super::SecondHalfResult| (judged.function, judged.bits);
        table(&self.selected) != table(&self.current)
    }
}

/// Returns the recommendation for a cache's table, with its reason.
fn verdict(advice: &CacheAdvice) -> String {
    let CacheAdvice {
        selected,
        lookups,
        faster_share,
        ..
    } = advice;
    let table = format!("{}/{}", selected.function, selected.bits);
    let pairs = format!(
        "{table} was faster in {:.0}% of the pairs of runs.",
        faster_share * 100.0
    );
    if *lookups == 0 {
        return "keep the current table: the second half has no lookups.".to_owned();
    }
    if !advice.differs_from_current() {
        return "keep the current table: no other was measurably faster.".to_owned();
    }
    if advice.gain_links.low.is_none() {
        if *lookups < MIN_SECOND_HALF_LOOKUPS {
            return format!(
                "keep the current table: the second half has too few lookups for a verdict ({lookups})."
            );
        }
        return format!(
            "keep the current table: too few segments of the second half have links for a verdict (fewer \
             than {MIN_SEGMENTS})."
        );
    }
    let Some(gain) = advice.gain_time else {
        return "keep the current table: there were too few lookups to measure times.".to_owned();
    };
    if !advice.is_worth_it {
        return format!(
            "keep the current table: {table}, selected in the first half, was not reliably faster in the \
             second. The median of its runs was {}. {pairs}",
            speed_change(gain)
        );
    }
    format!(
        "change to {table}: lookups are {}{}. {pairs} The number of links changes by {}.",
        speed_change(gain),
        time_saved(advice),
        links_change(advice.gain_links)
    )
}

/// Formats a relative decrease in time as a change of speed.
fn speed_change(gain: f64) -> String {
    let direction = if gain < 0.0 { "slower" } else { "faster" };
    format!("{:.1}% {direction}", gain.abs() * 100.0)
}

/// Formats the time that the selected table saves. Returns an empty text if the time was not measured.
fn time_saved(advice: &CacheAdvice) -> String {
    let times = advice.current.lookup_ns.zip(advice.selected.lookup_ns);
    times.map_or_else(String::new, |(current, selected)| {
        let each_ns = current - selected;
        let total = Duration::try_from_secs_f64(each_ns * as_f64(advice.lookups) / 1e9);
        format!(
            " ({each_ns:.1} ns each, {} over the second half)",
            duration(total.unwrap_or_default())
        )
    })
}

/// Formats the change in links, with its 95% interval.
fn links_change(gain: Interval) -> String {
    match (gain.low, gain.high) {
        (Some(low), Some(high)) => format!(
            "{} (95% interval: {} to {})",
            percent(-gain.value),
            percent(-low),
            percent(-high)
        ),
        _ => percent(-gain.value),
    }
}

/// Formats a share as a percentage with a sign.
fn percent(share: f64) -> String {
    format!("{:+.1}%", share * 100.0)
}

/// Returns the recommendation for eager shrinking, with its reason.
fn shrinking_verdict(shrinking: &ShrinkingAdvice) -> String {
    let ShrinkingAdvice {
        lookups,
        misses_eager,
        misses_normal,
        ..
    } = shrinking;
    let added = misses_eager.saturating_sub(*misses_normal);
    let added = counted(added, "miss", "misses");
    let lookups = counted(*lookups, "lookup", "lookups");
    let subject = "Eager shrinking (shrink=eager, measured with half as many names)";
    let Some(saved_ns) = shrinking.saved_ns else {
        return format!("{subject} adds {added} to {lookups} and is not measurably faster.");
    };
    let Some(break_even_ns) = shrinking.break_even_ns else {
        return format!(
            "{subject} adds no misses to {lookups}: this trace does not show which is better."
        );
    };
    format!(
        "{subject} saves {saved_ns:.1} ns for each lookup and adds {added} to {lookups}. It pays if a miss \
         costs less than {break_even_ns:.0} ns. The trace does not contain the cost of a miss; {:.0} ns is \
         assumed (--miss-ns).",
        shrinking.assumed_miss_ns
    )
}
