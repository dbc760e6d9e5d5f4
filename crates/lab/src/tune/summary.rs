//! Text of a recommendation: what to change, the gain, and its certainty.

use super::{Advice, CacheAdvice, Interval, ShrinkingAdvice};
use crate::hash::own_function;
use larder_cache::tables::Finder;
use larder_cache::tape::CacheKind;
use std::fmt::Write as _;

impl Advice {
    /// Returns the recommendation as text.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        if !self.losses.are_none() {
            let _ = writeln!(text, "Incomplete: {}.", self.losses);
        }
        for advice in &self.caches {
            let _ = writeln!(text, "{}: {}.", advice.cache.as_str(), verdict(advice));
        }
        if let Some(shrinking) = &self.shrinking {
            let what = of_shrinking(shrinking);
            let _ = writeln!(text, "Half as many names (shrink=eager) {what}.");
        }
        let names = self
            .caches
            .iter()
            .find(|advice| advice.cache == CacheKind::Dentry);
        if let Some(names) = names {
            let _ = writeln!(
                text,
                "For larder's function of names, which has a secret, stands {}; all names are in one table, \
                 as large as that of short names.",
                own_function(CacheKind::Dentry)
            );
            if names.is_worth_it && names.best.function != Finder::Larder {
                text.push_str(
                    "Beware: names made to share a bucket can flood any function of dentries but larder's.\n",
                );
            }
        }
        let _ = writeln!(text, "\nMount with: -o {}", self.mount_option);
        text
    }
}

impl CacheAdvice {
    /// Returns whether the table that was selected on the first half differs from the current one.
    pub(super) fn is_another(&self) -> bool {
        let table = |judged: &super::Judged| (judged.function, judged.bits);
        table(&self.best) != table(&self.today)
    }
}

/// Returns the recommendation for a cache's table, with its reason.
fn verdict(advice: &CacheAdvice) -> String {
    let CacheAdvice {
        best,
        lookups,
        certainty,
        ..
    } = advice;
    let table = format!("{}/{}", best.function, best.bits);
    let pairs = format!("faster in {:.0}% of all pairs of runs", certainty * 100.0);
    if !advice.is_another() {
        return "keep today's table, than which none was faster beyond noise".to_owned();
    }
    if advice.gain_links.low.is_none() {
        return format!(
            "keep today's table: {lookups} lookups in the second half are too few to be sure"
        );
    }
    let Some(gain) = advice.gain_time else {
        return "keep today's table: there was too little to time".to_owned();
    };
    if !advice.is_worth_it {
        return format!(
            "keep today's table: {table}, the best in the first half, is not faster beyond noise in the second \
             ({} time, {pairs})",
            percent(-gain)
        );
    }
    format!(
        "change to {table}: a lookup takes {} time ({pairs}) and walks {} links",
        percent(-gain),
        of_links(advice.gain_links)
    )
}

/// Formats the change in links, with its 95% interval.
fn of_links(gain: Interval) -> String {
    match (gain.low, gain.high) {
        (Some(low), Some(high)) => format!(
            "{} ({} to {}, 95% sure)",
            percent(-gain.value),
            percent(-low),
            percent(-high)
        ),
        _ => percent(-gain.value),
    }
}

fn percent(share: f64) -> String {
    format!("{:+.1}%", share * 100.0)
}

fn of_shrinking(shrinking: &ShrinkingAdvice) -> String {
    let ShrinkingAdvice {
        lookups,
        misses_eager,
        misses_normal,
        ..
    } = shrinking;
    let added = misses_eager.saturating_sub(*misses_normal);
    let Some(saved_ns) = shrinking.saved_ns else {
        return format!("adds {added} misses to {lookups} lookups, and saves no time beyond noise");
    };
    let Some(break_even_ns) = shrinking.break_even_ns else {
        return format!("adds no misses to {lookups} lookups here, and needs no deciding");
    };
    format!(
        "saves {saved_ns:.1} ns a lookup and adds {added} misses to {lookups} lookups: it pays where a miss \
         costs less than {break_even_ns:.0} ns. A trace does not tell what a miss costs: it is taken to be \
         {:.0} ns (--miss-ns)",
        shrinking.assumed_miss_ns
    )
}
