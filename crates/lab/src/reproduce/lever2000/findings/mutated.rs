//! Changed results, for tests of the findings.
//!
//! In each table, the reference is the kernel of the first row. Durations are changed round by round, so
//! that the noise that all kernels have in common remains. Histograms are not halved. If nothing differs, each
//! histogram equals the histogram of the reference. If effects are inverted, the histograms with xor and the
//! histograms with a mixing function are exchanged.

use crate::reproduce::finding::{Mutable, Mutation};
use crate::reproduce::lever2000::costs::FunctionCost;
use crate::reproduce::lever2000::disk::{DiskCosts, DiskMisses};
use crate::reproduce::lever2000::measure::{CacheFigures, Load, Row};
use crate::reproduce::lever2000::misses::Misses;
use crate::reproduce::lever2000::recorded::RecordedKeys;
use crate::reproduce::lever2000::results::Lever2000;
use crate::reproduce::lever2000::runs::RoundTimes;
use crate::run_report::{as_f64, quotient};
use crate::statistics::Figures;
use larder_cache::hash::Function;

impl Mutable for Lever2000 {
    fn mutated(&self, mutation: Mutation) -> Self {
        let mut index = 0;
        let mut change = |reference, figure| {
            index += 1;
            mutation.apply(reference, figure, index)
        };
        let tables = self
            .tables
            .iter()
            .map(|rows| table(rows, mutation, &mut change));
        let mut mutated = Self {
            tables: tables.collect(),
            misses: misses(&self.misses, &mut change),
            costs: costs(&self.costs, &mut change),
            disk_misses: disk_misses(&self.disk_misses, &mut change),
            recorded_keys: (self.recorded_keys.iter())
                .map(|keys| recorded_keys(keys, &mut change))
                .collect(),
            findings: Vec::new(),
            ..self.clone()
        };
        if let Some(constants) = &mut mutated.constants {
            constants.published = change(constants.prime, constants.published);
        }
        let swap = &mut mutated.swap;
        swap.longest_offset = counted(&mut change, swap.longest_reference, swap.longest_offset);
        mutated
    }
}

/// Returns the changed figure, given the figure of the reference and the figure to change.
type Change<'a> = &'a mut dyn FnMut(f64, f64) -> f64;

fn table(rows: &[Row], mutation: Mutation, change: Change) -> Vec<Row> {
    let Some(reference) = rows.first() else {
        return Vec::new();
    };
    let changed = rows.iter().map(|row| {
        let loads = row.loads.iter().zip(&reference.loads).enumerate();
        let loads = loads.map(|(at, (load, of_reference))| {
            let histograms = histograms(rows, row, mutation).and_then(|row| row.loads.get(at));
            changed_load(load, of_reference, histograms.unwrap_or(load), change)
        });
        Row {
            loads: loads.collect(),
            ..row.clone()
        }
    });
    changed.collect()
}

/// Returns the row whose histograms `row` has in the changed table.
fn histograms<'r>(rows: &'r [Row], row: &'r Row, mutation: Mutation) -> Option<&'r Row> {
    let named = |name| rows.iter().find(|row| row.kernel == name);
    match mutation {
        Mutation::Halved => Some(row),
        Mutation::Equal | Mutation::Noise(_) => rows.first(),
        Mutation::Inverted if row.kernel.starts_with("reference") => named("mult shift 11, 16384"),
        Mutation::Inverted => named("reference, 16384"),
    }
}

fn changed_load(load: &Load, reference: &Load, histograms: &Load, change: Change) -> Load {
    let rounds = load.runs.rounds();
    let rounds = rounds.zip(&reference.runs.round_elapsed_s);
    let rounds: Vec<RoundTimes> = rounds
        .map(|(round, of_reference)| RoundTimes {
            elapsed_s: change(*of_reference, round.elapsed_s),
            ..round
        })
        .collect();
    let mut changed = Load {
        runs: load.runs.with_rounds(&rounds),
        ..load.clone()
    };
    for figures in &mut changed.caches {
        let cache = figures.cache;
        let histograms = histograms.cache(cache);
        *figures = CacheFigures {
            full: histograms.full.clone(),
            after: histograms.after.clone(),
            ..changed_cache(figures, reference.cache(cache), change)
        };
    }
    changed
}

/// Changes the links and the chains of a cache. The numbers of lookups and of hits remain.
fn changed_cache(figures: &CacheFigures, reference: &CacheFigures, change: Change) -> CacheFigures {
    let misses = |figures: &CacheFigures| figures.lookups - figures.hits;
    let mut links = |of: fn(&CacheFigures) -> u64, count: &dyn Fn(&CacheFigures) -> u64| {
        let [reference, own] =
            [reference, figures].map(|figures| quotient(of(figures), count(figures)));
        whole(change(reference, own) * as_f64(count(figures)))
    };
    CacheFigures {
        links: links(|figures| figures.links, &|figures| figures.lookups),
        links_on_misses: links(|figures| figures.links_on_misses, &misses),
        longest_chain: counted(change, reference.longest_chain, figures.longest_chain),
        long_share: change(reference.long_share, figures.long_share),
        ..figures.clone()
    }
}

fn counted(change: Change, reference: u64, figure: u64) -> u64 {
    whole(change(as_f64(reference), as_f64(figure)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are positive, and few"
)]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

/// Changes the times of the dentry cache, relative to those of the page cache.
fn misses(misses: &Misses, change: Change) -> Misses {
    let rounds = misses
        .rounds
        .iter()
        .map(|&[dentry_miss, dentry_hit, page_miss, page_hit]| {
            [
                change(page_miss, dentry_miss),
                change(page_hit, dentry_hit),
                page_miss,
                page_hit,
            ]
        });
    Misses::of(rounds.collect())
}

/// Changes the times of dentry misses and of page faults, relative to those of buffer misses.
fn disk_misses(misses: &DiskMisses, change: Change) -> DiskMisses {
    let devices = misses.devices.iter().map(|costs| {
        let per_seed_ms = costs.per_seed_ms.iter();
        let changed = per_seed_ms
            .map(|&[dentry, buffer, page]| [change(buffer, dentry), buffer, change(buffer, page)]);
        DiskCosts::of(costs.device, costs.placement, changed.collect())
    });
    DiskMisses {
        devices: devices.collect(),
        ..misses.clone()
    }
}

/// Changes the links in each table relative to the links in the first table. Changes the number of areas that trees
/// compare relative to the number that the list compares.
fn recorded_keys(keys: &RecordedKeys, change: Change) -> RecordedKeys {
    let mut changed = keys.clone();
    if let Some(reference) = keys.rows.first() {
        for row in &mut changed.rows {
            row.links = change(reference.links, row.links);
        }
    }
    if let Some(search) = &mut changed.search {
        search.balanced = change(search.list, search.balanced);
        search.red_black = change(search.list, search.red_black);
    }
    changed
}

/// Changes the latency of each inlined function relative to the inlined multiplication, and of each called function
/// relative to the same function when inlined.
fn costs(costs: &[FunctionCost], change: Change) -> Vec<FunctionCost> {
    let multiply = costs
        .iter()
        .find(|cost| cost.function == Function::BufferMult11);
    let Some(multiply) = multiply.map(|cost| cost.inlined.latency.mean) else {
        return costs.to_vec();
    };
    let changed = costs.iter().map(|cost| {
        let mut changed = cost.clone();
        let [inlined, called] = [cost.inlined, cost.stand_alone].map(|cost| cost.latency.mean);
        let now = change(multiply, inlined);
        scale(&mut changed.inlined.latency, now);
        scale(
            &mut changed.stand_alone.latency,
            now / inlined * change(inlined, called),
        );
        changed
    });
    changed.collect()
}

/// Changes the mean to `mean`, and the deviation in proportion.
fn scale(figures: &mut Figures, mean: f64) {
    figures.s = figures.s.map(|s| s / figures.mean * mean);
    figures.mean = mean;
}
