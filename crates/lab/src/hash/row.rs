//! The measurements and statistics of one table, as a row of the report.

use super::replay::BUCKET_BYTES;
use super::survey::{Links, Survey};
use super::sweep::Outcome;
use super::timing::{LookupTime, Timing};
use crate::run_report::{quotient, ratio};
use larder_cache::research::page_trees::NODE_BYTES;
use larder_cache::table::histogram::ChiSquare;
use larder_cache::table::{Counts, Histogram};
use larder_cache::tables::Finder;
use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// The measurements of one combination of function and size. The JSON form omits `histogram`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The function that distributes the keys.
    pub function: Finder,
    /// The table has 2^`bits` buckets.
    pub bits: u32,
    /// Number of lookups in the trace.
    pub lookups: u64,
    /// Number of lookups that hit.
    pub hits: u64,
    /// Links walked by all hits.
    pub links_on_hits: u64,
    /// Links walked by all misses.
    pub links_on_misses: u64,
    /// Mean numbers of links of hits, of misses and of all lookups.
    pub links: Links,
    /// The largest number of objects at any time.
    pub objects: u64,
    /// Statistics of the chains; `None` for trees.
    #[serde(flatten)]
    pub chains: Option<Chains>,
    /// Nanoseconds of a lookup in the median run; `None` if the trace is too short to time lookups.
    pub lookup_ns: Option<f64>,
    /// The median absolute deviation of the runs from `lookup_ns`.
    pub mad_ns: Option<f64>,
    /// Lookups per second of one thread, computed from `lookup_ns`.
    pub lookups_s: Option<f64>,
    /// Whether no other row's lookups are significantly faster.
    pub is_fastest: bool,
    /// Memory for buckets, links and tree nodes with `objects` objects, in bytes.
    pub table_bytes: u64,
    /// Chain lengths when the number of objects was largest.
    #[serde(skip)]
    pub histogram: Histogram,
}

/// Distribution of the objects over chains when the number of objects was largest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are keys of the JSON")]
pub struct Chains {
    /// Relative excess of the mean links of a lookup over chance, the expected mean if the objects were
    /// distributed at random. All lookups of the trace are included.
    pub over_chance: f64,
    /// Number of objects in the longest chain.
    pub longest_chain: u64,
    /// Number of empty buckets.
    pub empty_buckets: u64,
    /// The share of the objects in chains that are no longer than the mean length rounded up to an integer.
    pub share_in_mean_chains: f64,
    /// Chi-square of the chain lengths against the Poisson distribution.
    pub chi_square: f64,
    pub degrees_of_freedom: u32,
    /// Probability that random chain lengths have a chi-square at least as large.
    pub p_value: f64,
}

impl Chains {
    fn new(links: Links, chance: Links, histogram: &Histogram) -> Self {
        let chi = histogram.chi_square();
        Self {
            over_chance: ratio(links.lookup - chance.lookup, chance.lookup),
            longest_chain: histogram.longest_chain(),
            empty_buckets: histogram.empty_buckets(),
            share_in_mean_chains: histogram.share_in_mean_chains(),
            chi_square: chi.statistic,
            degrees_of_freedom: chi.degrees_of_freedom,
            p_value: p_value(chi),
        }
    }
}

impl Row {
    /// Computes the row of `outcome`, for a trace with this `survey`.
    pub fn new(outcome: &Outcome, survey: &Survey) -> Self {
        let Outcome {
            combination,
            counts,
            objects,
            histogram,
            timing,
            ..
        } = outcome;
        let links = links(counts);
        let is_trees = combination.function == Finder::RedBlackTrees;
        let chance = survey.chance(combination.bits);
        let object_bytes = LINK_BYTES + if is_trees { NODE_BYTES } else { 0 };
        let time = timing.as_ref().map(Timing::lookup);
        Self {
            function: combination.function,
            bits: combination.bits,
            lookups: counts.lookups(),
            hits: counts.hits,
            links_on_hits: counts.links_on_hits,
            links_on_misses: counts.links_on_misses,
            links,
            objects: *objects,
            chains: (!is_trees).then(|| Chains::new(links, chance, histogram)),
            lookup_ns: time.map(|time| time.median_ns),
            mad_ns: time.map(|time| time.mad_ns),
            lookups_s: time.map(|time| ratio(1e9, time.median_ns)),
            is_fastest: false,
            table_bytes: object_bytes * objects + (BUCKET_BYTES << combination.bits),
            histogram: histogram.clone(),
        }
    }

    /// Returns the time of a lookup, if it was measured.
    pub fn time(&self) -> Option<LookupTime> {
        let (median_ns, mad_ns) = self.lookup_ns.zip(self.mad_ns)?;
        Some(LookupTime { median_ns, mad_ns })
    }

    /// Returns the counts of the table's lookups.
    pub fn counts(&self) -> Counts {
        Counts {
            hits: self.hits,
            misses: self.lookups - self.hits,
            links_on_hits: self.links_on_hits,
            links_on_misses: self.links_on_misses,
        }
    }
}

/// Memory for a link in an object's slot, in bytes.
const LINK_BYTES: u64 = 4;

fn links(counts: &Counts) -> Links {
    Links {
        hit: quotient(counts.links_on_hits, counts.hits),
        miss: quotient(counts.links_on_misses, counts.misses),
        lookup: quotient(counts.links(), counts.lookups()),
    }
}

/// Returns the probability that the chi-square of random chain lengths is at least as large as `chi`. Returns
/// 1 if there are too few chains for a test.
#[must_use]
pub fn p_value(chi: ChiSquare) -> f64 {
    ChiSquared::new(chi.degrees_of_freedom.into())
        .map_or(1.0, |distribution| distribution.sf(chi.statistic))
}
