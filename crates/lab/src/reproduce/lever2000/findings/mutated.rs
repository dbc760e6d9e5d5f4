//! Changed results, for tests of the findings.
//!
//! In each table, the reference is the kernel of the first row. Durations are changed round by round, so
//! that the noise that all kernels have in common remains.
//!
//! Histograms are changed as a whole. If nothing differs, each histogram equals the histogram of the reference. With
//! noise, one of a hundred of its objects is in another bucket, by chance. If effects are inverted, the histograms with
//! xor and the histograms with a mixing function are exchanged. If effects are halved, the k-th longest chain gets the
//! mean of its own length and the length of the k-th longest chain with xor.

use crate::reproduce::finding::{Mutable, Mutation, NOISE};
use crate::reproduce::lever2000::addresses::Layout;
use crate::reproduce::lever2000::costs::FunctionCost;
use crate::reproduce::lever2000::disk::{DiskCosts, DiskMisses};
use crate::reproduce::lever2000::measure::{CacheFigures, Load, Row};
use crate::reproduce::lever2000::misses::Misses;
use crate::reproduce::lever2000::recorded::RecordedKeys;
use crate::reproduce::lever2000::results::Lever2000;
use crate::reproduce::lever2000::runs::RoundTimes;
use crate::run_report::{as_f64, quotient};
use crate::statistics::Figures;
use crate::workload::chance::generator;
use larder_cache::hash::Function;
use larder_cache::table::Histogram;
use rand::Rng;

impl Mutable for Lever2000 {
    fn mutated(&self, mutation: Mutation) -> Self {
        let mut index = 0;
        let mut change = |reference, figure| {
            index += 1;
            mutation.apply(reference, figure, index, NOISE)
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
            layouts: (self.layouts.iter())
                .map(|layout| changed_layout(layout, &mut change))
                .collect(),
            findings: Vec::new(),
            ..self.clone()
        };
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
    let mut streams = 0..;
    let changed = rows.iter().map(|row| {
        let loads = row.loads.iter().zip(&reference.loads).enumerate();
        let loads = loads.map(|(at, (load, of_reference))| {
            let mut changed = changed_load(load, of_reference, change);
            let other = counterpart(rows, row, mutation).and_then(|row| row.loads.get(at));
            change_histograms(&mut changed, other.unwrap_or(load), mutation, &mut streams);
            changed
        });
        Row {
            loads: loads.collect(),
            ..row.clone()
        }
    });
    changed.collect()
}

/// Returns the row whose histograms determine the changed histograms of `row`.
fn counterpart<'r>(rows: &'r [Row], row: &Row, mutation: Mutation) -> Option<&'r Row> {
    let named = |name| rows.iter().find(|row| row.kernel == name);
    match mutation {
        Mutation::Equal | Mutation::Noise(_) => rows.first(),
        Mutation::Inverted if row.kernel.starts_with("reference") => named("mult shift 11, 16384"),
        Mutation::Inverted | Mutation::Halved => named("reference, 16384"),
    }
}

/// Changes the histograms of `load`, given those of `other`. Takes a number from `streams` for the noise of each.
fn change_histograms(
    load: &mut Load,
    other: &Load,
    mutation: Mutation,
    streams: &mut impl Iterator<Item = u64>,
) {
    for figures in &mut load.caches {
        let other = other.cache(figures.cache);
        for (report, other) in [
            (&mut figures.full, &other.full),
            (&mut figures.after, &other.after),
        ] {
            let stream = streams.next().unwrap_or_default();
            report.histogram = match mutation {
                Mutation::Equal | Mutation::Inverted => other.histogram.clone(),
                Mutation::Halved => halfway(&report.histogram, &other.histogram),
                Mutation::Noise(seed) => noisy(&other.histogram, &mut generator(seed, stream)),
            };
        }
        figures.longest_chain = figures.full.histogram.longest_chain();
    }
}

/// Returns the histogram whose k-th longest chain has the mean length of the k-th longest chains of `one` and `other`.
/// If a mean is not a whole number, half an object is carried to the next chain, so that the number of objects is the
/// mean as well. If the numbers of buckets differ, the chains cannot be paired, and the result is `one`.
fn halfway(one: &Histogram, other: &Histogram) -> Histogram {
    if one.buckets() != other.buckets() {
        return one.clone();
    }
    let mut halved = Histogram::default();
    let mut left = 0;
    for (one, other) in chains(one).zip(chains(other)) {
        let sum = one + other + left;
        halved.add(sum / 2);
        left = sum % 2;
    }
    halved
}

/// Returns the histogram with one of a hundred objects in another bucket.
fn noisy(histogram: &Histogram, random: &mut impl Rng) -> Histogram {
    let mut lengths: Vec<u64> = chains(histogram).collect();
    for (at, length) in chains(histogram).enumerate() {
        let moved = (0..length).filter(|_| random.random_ratio(1, 100)).count();
        for _ in 0..moved {
            lengths[at] -= 1;
            let to = random.random_range(0..lengths.len());
            lengths[to] += 1;
        }
    }
    let mut noisy = Histogram::default();
    for length in lengths {
        noisy.add(length);
    }
    noisy
}

/// Returns the length of each chain, ascending.
fn chains(histogram: &Histogram) -> impl Iterator<Item = u64> {
    let lengths = histogram.lengths();
    lengths.flat_map(|(length, buckets)| (0..buckets).map(move |_| length))
}

fn changed_load(load: &Load, reference: &Load, change: Change) -> Load {
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
        *figures = changed_cache(figures, reference.cache(figures.cache), change);
    }
    changed
}

/// Changes the links of a cache, and its share of long chains. The numbers of lookups and of hits remain.
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
    reason = "counts are positive, and larger ones are limited"
)]
fn whole(count: f64) -> u64 {
    // The largest count of a report. Sums of many such counts fit into 64 bits.
    (count.round() as u64).min(1 << 53)
}

/// Changes the links of each kernel, relative to those of the first kernel of its table. A range changes in proportion.
fn changed_layout(layout: &Layout, change: Change) -> Layout {
    let mut changed = layout.clone();
    for chains in &mut changed.chains {
        let mut of_table = layout.chains.iter();
        if let Some(reference) = of_table.find(|other| other.table == chains.table) {
            let links = change(reference.links, chains.links);
            let factor = links / chains.links;
            chains.range = chains.range.map(|range| range.map(|end| factor * end));
            chains.links = links;
        }
    }
    changed
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

/// Changes the links in each table relative to the links in the first table. Changes the number of areas that red-black
/// trees compare relative to the smallest possible number in Linux 2.2.
fn recorded_keys(keys: &RecordedKeys, change: Change) -> RecordedKeys {
    let mut changed = keys.clone();
    if let Some(reference) = keys.rows.first() {
        for row in &mut changed.rows {
            row.links = change(reference.links, row.links);
        }
    }
    if let Some(search) = &mut changed.search {
        search.red_black = change(search.linux_2_2[0], search.red_black);
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
