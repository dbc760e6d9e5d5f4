//! Whether comparisons of tables of pages depend on the assumed addresses of inodes.
//!
//! # Model
//! The throughputs were measured with assumed addresses. For other addresses, only the links of a lookup of a page are
//! computed. Therefore comparisons of throughputs are repeated with these links: a kernel that must be faster than another
//! must have shorter chains, by the same bound. With random addresses, the whole range of both links must be within the
//! bound. A verdict depends on the assumption if the computed chains meet all comparisons with some addresses, but not
//! with others.

use super::recorded::Links;
use super::throughput::{Comparison, throughputs};
use crate::reproduce::finding::{Observed, Verdict};
use crate::reproduce::lever2000::addresses::{Layout, PageChains};
use crate::reproduce::lever2000::results::Lever2000;
use larder::CacheKind;

/// Compares throughputs of kernels with different tables of pages.
pub(super) fn throughputs_of_pages(
    results: &Lever2000,
    comparisons: &[Comparison],
) -> Option<Observed> {
    let observed = throughputs(results, comparisons)?;
    Some(observed.depending_on_assumption(decide(results, comparisons)))
}

/// Returns whether the addresses of inodes decide if the chains of pages meet all `comparisons`.
pub(super) fn decide(results: &Lever2000, comparisons: &[Comparison]) -> bool {
    let layouts = results.layouts.iter();
    let met: Vec<bool> = layouts
        .map(|layout| are_met(results, layout, comparisons))
        .collect();
    met.contains(&true) && met.contains(&false)
}

/// Returns whether the chains of pages meet all `comparisons`. Kernels whose chains are unknown are not compared.
fn are_met(results: &Lever2000, layout: &Layout, comparisons: &[Comparison]) -> bool {
    let mut verdicts = comparisons.iter().filter_map(|comparison| {
        let [one, other] = [comparison.one, comparison.other]
            .map(|kernel| links(results, layout, comparison.table, kernel));
        Some(comparison.bound.verdict(other?.per(&one?)))
    });
    verdicts.all(|verdict| verdict == Verdict::Holds)
}

/// Returns the links of a lookup of a page with a kernel of a table: the computed ones, or those that were measured with
/// trees, which have no buckets and do not depend on addresses.
fn links(results: &Lever2000, layout: &Layout, table: usize, kernel: &str) -> Option<Links> {
    if let Some(PageChains { links, range, .. }) = layout.chains_of(table, kernel) {
        return Some(Links::new(*links, range.unwrap_or([*links; 2])));
    }
    let load = results.row(table, kernel)?.loads.first()?;
    let pages = load.cache(CacheKind::Page);
    let links = pages.links_per_lookup();
    (pages.full.histogram.buckets() == 0).then(|| Links::new(links, [links; 2]))
}
