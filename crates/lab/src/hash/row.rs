//! What one table did, as figures.

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

/// One combination's figures. As JSON, without the chain lengths themselves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// By what the keys are spread.
    pub function: Finder,
    /// Over 2^`bits` buckets.
    pub bits: u32,
    /// Lookups of the trace.
    pub lookups: u64,
    /// Those that hit.
    pub hits: u64,
    /// Links walked on all hits.
    pub links_on_hits: u64,
    /// Links walked on all misses.
    pub links_on_misses: u64,
    /// Links walked in the mean.
    pub links: Links,
    /// Objects, when there were the most.
    pub objects: u64,
    /// Chains; trees have none.
    #[serde(flatten)]
    pub chains: Option<Chains>,
    /// Nanoseconds of a lookup in the median run; `None` if the trace is too short to time any.
    pub lookup_ns: Option<f64>,
    /// How far runs are from that: the median of the distances.
    pub mad_ns: Option<f64>,
    /// Lookups by the second on one processor.
    pub lookups_s: Option<f64>,
    /// Whether no other row's lookups are faster but by noise.
    pub is_fastest: bool,
    /// What buckets, links and nodes take with so many objects, in bytes.
    pub table_bytes: u64,
    /// Chain lengths when there were the most objects.
    #[serde(skip)]
    pub histogram: Histogram,
}

/// How objects are spread over chains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are keys of the JSON")]
pub struct Chains {
    /// How much more is walked on a lookup than if chance spread the keys, as a share of it.
    pub over_chance: f64,
    /// Objects of the longest chain, when there were the most objects.
    pub longest_chain: u64,
    /// Empty buckets then.
    pub empty_buckets: u64,
    /// The share of the objects then that are in chains no longer than the mean, rounded up.
    pub share_in_mean_chains: f64,
    /// How far chain lengths then are from Poisson's.
    pub chi_square: f64,
    pub degrees_of_freedom: u32,
    /// How likely chance is to be as far from them or further.
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
    /// The figures of `outcome`, in a trace of which `survey` tells.
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

    /// How long a lookup takes, if that was timed.
    pub fn time(&self) -> Option<LookupTime> {
        let (median_ns, mad_ns) = self.lookup_ns.zip(self.mad_ns)?;
        Some(LookupTime { median_ns, mad_ns })
    }

    /// What the table's lookups did.
    pub fn counts(&self) -> Counts {
        Counts {
            hits: self.hits,
            misses: self.lookups - self.hits,
            links_on_hits: self.links_on_hits,
            links_on_misses: self.links_on_misses,
        }
    }
}

/// A link in an object's slot.
const LINK_BYTES: u64 = 4;

fn links(counts: &Counts) -> Links {
    Links {
        hit: quotient(counts.links_on_hits, counts.hits),
        miss: quotient(counts.links_on_misses, counts.misses),
        lookup: quotient(counts.links(), counts.lookups()),
    }
}

/// How likely chance is to be as far from Poisson's chain lengths as this, or further; 1 where there
/// are too few of them to tell.
#[must_use]
pub fn p_value(chi: ChiSquare) -> f64 {
    ChiSquared::new(chi.degrees_of_freedom.into())
        .map_or(1.0, |distribution| distribution.sf(chi.statistic))
}
