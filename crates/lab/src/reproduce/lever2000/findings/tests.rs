//! Judges all findings on results with the published figures, and on changed ones.
//!
//! The document contains throughputs, histograms and few counts of links. The other counts are assumed to be those
//! of a random distribution.

use super::{buffer, judge, rules};
use crate::hash::constant::Constants;
use crate::output::Report as _;
use crate::output::picture::expect_texts_inside;
use crate::published::lever2000::{self as published, SCRIPTS, Throughput, throughputs};
use crate::reproduce::finding::Verdict::{
    self, DependsOnAssumption, DoesNotHold, Holds, WithinNoise,
};
use crate::reproduce::finding::{Effect, Finding, Mutable as _, Mutation, expect};
use crate::reproduce::front_page;
use crate::reproduce::lever2000::addresses::{Allocation, Layout, PageChains};
use crate::reproduce::lever2000::costs::{CycleFigures, FunctionCost};
use crate::reproduce::lever2000::disk::{DiskCosts, DiskMisses, Placement};
use crate::reproduce::lever2000::kernels::{Kernel, PublishedTable, TABLES};
use crate::reproduce::lever2000::measure::{CacheFigures, Load, Row};
use crate::reproduce::lever2000::misses::Misses;
use crate::reproduce::lever2000::recorded;
use crate::reproduce::lever2000::results::Lever2000;
use crate::reproduce::lever2000::runs::{RoundTimes, Runs};
use crate::reproduce::lever2000::size::Size;
use crate::reproduce::lever2000::swap::SwapKeys;
use crate::reproduce::lever2000::turn::EmptyTurn;
use crate::reproduce::program::Provenance;
use crate::statistics::{Figures, Interval};
use larder::CacheKind;
use larder_cache::hash::Function;
use larder_cache::table::Histogram;
use larder_cache::table::histogram::Report;
use serde::Deserialize as _;
use std::f64::consts::PI;

/// Number of runs of each kernel under each load.
const RUNS: u32 = 8;

/// Number of lookups of each cache.
const LOOKUPS: u64 = 100_000;

/// Returns results with the published throughputs and histograms.
fn as_published() -> Lever2000 {
    let tables = TABLES.iter().map(|table| {
        let kernels = table.kernels.iter().enumerate();
        kernels.map(|(at, kernel)| row(table, at, kernel)).collect()
    });
    let cost = |function, latency: f64| {
        let figures = |mean| CycleFigures {
            latency: Figures {
                mean,
                s: Some(0.05),
            },
            throughput: Figures {
                mean: 1.0,
                s: Some(0.05),
            },
        };
        FunctionCost {
            function,
            inlined: figures(latency),
            stand_alone: figures(latency + 2.0),
            instruction_bytes: None,
        }
    };
    Lever2000 {
        size: Size::full(2000),
        processors: 2,
        resumed: 0,
        tables: tables.collect(),
        misses: Misses::of(
            (1..=5)
                .map(|round| [600.0 + f64::from(round), 200.0, 1200.0, 300.0])
                .collect(),
        ),
        costs: vec![
            cost(Function::BufferMult11, 5.0),
            cost(Function::BufferSteiner, 4.5),
            cost(Function::Golden, 5.0),
        ],
        constants: Some(Constants {
            published: 100.0,
            prime: 1.2,
        }),
        swap: SwapKeys::measure(),
        empty_turn: EmptyTurn {
            users: SCRIPTS,
            threads: 60,
            elapsed_s: 0.001,
            processor_s: 0.002,
        },
        disk_misses: DiskMisses {
            seeds: 0,
            files: 0,
            reads_per_dentry_miss: Interval::exact(0.0),
            dentry_misses_that_read: Interval::exact(0.0),
            reads_per_cached_dentry_miss: Interval::exact(0.0),
            reads_per_page_fault: Interval::exact(0.0),
            devices: vec![DiskCosts::of(
                "scsi-1998",
                Placement::Spread,
                (1..=10)
                    .map(|seed| [1.0 + 0.01 * f64::from(seed), 10.0, 9.0])
                    .collect(),
            )],
        },
        recorded_keys: recorded::measure().unwrap(),
        layouts: vec![layout(&[])],
        provenance: Provenance::example(),
        findings: Vec::new(),
    }
}

/// Returns a layout in which pages have the links that are assumed for Table 1. Kernels A to D are alike, except for
/// `others`.
fn layout(others: &[(&'static str, f64)]) -> Layout {
    let of = |table, kernel, links| PageChains {
        table,
        kernel,
        links,
        range: None,
    };
    let alike = ["A", "B", "C", "D"].map(|kernel| {
        let other = others.iter().find(|(name, _)| *name == kernel);
        of(6, kernel, other.map_or(8.0, |(_, links)| *links))
    });
    let table_1 = [
        of(1, "reference", 3.0),
        of(1, "14-bit", 1.25),
        of(1, "offset", 1.2),
        of(1, "mult", 1.2),
        of(6, "reference", 30.0),
    ];
    Layout {
        inode_bytes: 336,
        allocation: Allocation::Numbers,
        chains: table_1.into_iter().chain(alike).collect(),
    }
}

fn row(table: &PublishedTable, at: usize, kernel: &Kernel) -> Row {
    let loads = table.loads.iter().enumerate().map(|(load, users)| {
        let published = throughputs(table.number, load);
        // Kernels that the document does not have are like the reference.
        let published = published.get(at).or(published.first());
        let throughput = published.and_then(|(all, _)| *all).unwrap();
        Load {
            runs: runs(table, *users, throughput, at),
            caches: CacheKind::ALL
                .map(|cache| figures(table.number, kernel.name, cache))
                .to_vec(),
            device_reads: 0,
            turns: 1,
        }
    });
    Row {
        kernel: kernel.name,
        tables: kernel.tables,
        is_published: kernel.is_published,
        loads: loads.collect(),
    }
}

/// Returns runs with the published mean and deviation. Runs of different kernels are not
/// correlated.
fn runs(table: &PublishedTable, users: u32, published: Throughput, kernel: usize) -> Runs {
    let Throughput { mean, s } = published;
    let runs = f64::from(RUNS);
    let cycles = f64::from(u32::try_from(kernel).unwrap() % (RUNS - 1) + 1);
    let throughputs = (0..RUNS).map(|run| {
        // Cosines with different numbers of half cycles are not correlated; their sum is 0, and the sum of their
        // squares is half the number of runs.
        let wave = (PI * cycles * (f64::from(run) + 0.5) / runs).cos();
        let scale = s * ((runs - 1.0) / (runs / 2.0)).sqrt();
        mean + scale * wave
    });
    let rounds = throughputs.map(|throughput| {
        let elapsed_s = f64::from(users) * 3600.0 / throughput;
        RoundTimes {
            scripts: users.into(),
            elapsed_s,
            processor_s: elapsed_s,
        }
    });
    Runs::of(users, table.average, 1, &rounds.collect::<Vec<_>>())
}

fn figures(table: u32, kernel: &str, cache: CacheKind) -> CacheFigures {
    let links_per_1000 = match (table, cache, kernel) {
        (1, CacheKind::Page, "reference") => 3000,
        (1, CacheKind::Page, "offset" | "mult") => 1200,
        (1, CacheKind::Page, _) => 1250,
        (3, CacheKind::Buffer, "reference, 16384" | "reference, 32768") => 3155,
        (3, CacheKind::Buffer, _) => 1242,
        (5, CacheKind::Inode, "reference" | "larder's, 8 bit") => 39_000,
        (5, CacheKind::Inode, "12 bit") => 3400,
        (5, CacheKind::Inode, "mult") => 3300,
        (5, CacheKind::Inode, _) => 1600,
        _ => 2000,
    };
    let [full, after] = histograms(table, kernel, cache).map(|histogram| Report {
        histogram,
        ..Report::of(cache, [])
    });
    CacheFigures {
        cache,
        lookups: LOOKUPS,
        hits: LOOKUPS / 2,
        links: links_per_1000 * LOOKUPS / 1000,
        links_on_misses: links_per_1000 * LOOKUPS / 2000,
        longest_chain: full.histogram.longest_chain(),
        long_share: 0.0,
        full,
        after,
    }
}

/// Returns the histograms of a full cache and after the run.
fn histograms(table: u32, kernel: &str, cache: CacheKind) -> [Histogram; 2] {
    let numbers = match (table, cache) {
        (3, CacheKind::Buffer) if kernel.starts_with("reference") => [1, 2],
        (3, CacheKind::Buffer) => [3, 4],
        _ => return Default::default(),
    };
    let histograms = published::histograms();
    numbers.map(|number| {
        let mut histograms = histograms.iter();
        let histogram = histograms.find(|histogram| histogram.number == number);
        histogram.unwrap().chain_lengths()
    })
}

fn findings() -> Vec<&'static Finding<Lever2000>> {
    rules().map(|rule| &rule.finding).collect()
}

/// The verdicts for the published figures, all kernels equal, effects inverted, and effects halved.
#[test]
fn findings_are_judged_on_changed_results() {
    // Whether inverted or halved, most effects remain beyond the noise of eight runs.
    let clear = [Holds, DoesNotHold, DoesNotHold, Holds];
    // Half of the effect is outside of the bound.
    let less_than_twice = [Holds, DoesNotHold, DoesNotHold, DoesNotHold];
    expect::verdicts(
        &findings(),
        &as_published(),
        &[
            ("buffer cache, xor", less_than_twice),
            ("buffer cache, 2.2.16", clear),
            ("buffer cache, throughput", clear),
            (
                "buffer cache, fewer buckets",
                [WithinNoise, DoesNotHold, DoesNotHold, WithinNoise],
            ),
            ("buffer cache, variance", [WithinNoise; 4]),
            ("buffer cache, Histogram 2", less_than_twice),
            ("buffer cache, Histogram 3", less_than_twice),
            ("buffer cache, Histogram 4", less_than_twice),
            ("inode table, size", clear),
            ("inode table, function", clear),
            ("inode table, throughput", clear),
            ("inode table, 12 bits", clear),
            ("inode table, 14 bits, variance", [WithinNoise; 4]),
            ("page cache, size", clear),
            ("page cache, throughput", clear),
            ("page cache, trees", clear),
            (
                "page cache, trees, variance",
                [WithinNoise, WithinNoise, DoesNotHold, WithinNoise],
            ),
            ("page cache, smaller", clear),
            (
                "page cache, offset",
                [WithinNoise, DoesNotHold, WithinNoise, WithinNoise],
            ),
            (
                "page cache, cost of offset",
                [WithinNoise, DoesNotHold, WithinNoise, WithinNoise],
            ),
            (
                "page cache, elapsed time of mult",
                [WithinNoise, DoesNotHold, DoesNotHold, WithinNoise],
            ),
            (
                "page cache, variance",
                [Holds, WithinNoise, WithinNoise, WithinNoise],
            ),
            ("miss of the dentry cache", clear),
            ("miss of the dentry cache, buffer miss with a disk", clear),
            ("miss of the dentry cache, page fault with a disk", clear),
            ("dentry cache, 14 bits", clear),
            (
                "eager shrinking",
                [WithinNoise, DoesNotHold, WithinNoise, WithinNoise],
            ),
            (
                "eager shrinking, fastest kernel",
                [WithinNoise, DoesNotHold, DoesNotHold, WithinNoise],
            ),
            ("kernels A to D", clear),
            (
                "kernel D",
                [WithinNoise, DoesNotHold, DoesNotHold, WithinNoise],
            ),
            (
                "kernel D, elapsed time",
                [WithinNoise, DoesNotHold, DoesNotHold, WithinNoise],
            ),
            ("kernel D, variance", [WithinNoise; 4]),
            ("64 bits", clear),
            ("shift-add or multiply", [Holds, Holds, Holds, Holds]),
            ("inlined or stand-alone", clear),
            ("swap-like keys", clear),
            // Half of the effect is within the range of chance.
            (
                "process table",
                [Holds, DoesNotHold, DoesNotHold, WithinNoise],
            ),
            ("process table, 4000 slots", clear),
            // The recorded keys are too few.
            (
                "user table",
                [WithinNoise, WithinNoise, DoesNotHold, WithinNoise],
            ),
            // Few processes have fewer than 32 areas, and an AVL tree compares hardly more areas than a red-black tree.
            ("memory areas", [DoesNotHold; 4]),
        ],
    );
}

#[test]
fn no_finding_holds_with_noise_alone() {
    expect::noise(&findings(), &as_published());
}

/// The throughputs of the document itself do not show these findings.
#[test]
fn published_figures_show_all_findings_except_ten() {
    let undecided = rules().filter_map(|rule| {
        let effects = (rule.published)();
        let verdict = Verdict::all(effects.iter().map(Effect::verdict));
        (!effects.is_empty() && verdict != Holds).then_some((rule.finding.name, verdict))
    });
    let expected = [
        ("buffer cache, fewer buckets", WithinNoise),
        ("buffer cache, variance", WithinNoise),
        ("inode table, 14 bits, variance", WithinNoise),
        ("page cache, trees, variance", WithinNoise),
        ("page cache, offset", WithinNoise),
        ("page cache, cost of offset", WithinNoise),
        ("eager shrinking", WithinNoise),
        ("eager shrinking, fastest kernel", WithinNoise),
        ("kernel D", WithinNoise),
        ("kernel D, variance", WithinNoise),
    ];
    assert_eq!(undecided.collect::<Vec<_>>(), expected);
}

#[test]
fn all_findings_except_new_ones_have_their_last_verdict() {
    let new = findings()
        .into_iter()
        .filter(|finding| finding.previous.is_none())
        .map(|finding| finding.name);
    let expected = [
        "inode table, 14 bits, variance",
        "page cache, cost of offset",
        "page cache, elapsed time of mult",
        "eager shrinking, fastest kernel",
        "kernel D, elapsed time",
    ];
    assert_eq!(new.collect::<Vec<_>>(), expected);
}

/// With 33 entries instead of 32, or with 7 instead of 8, the ratio would be above 4.
#[test]
fn one_entry_of_a_longest_chain_does_not_refute_a_finding() {
    let verdict = |xor, mixed| buffer::longest("mult", xor, mixed, 4.0).verdict();
    assert_eq!(verdict(32, 8), WithinNoise);
    assert_eq!(verdict(38, 8), Holds);
    assert_eq!(verdict(26, 8), DoesNotHold);
    assert_eq!(verdict(1, 1), DoesNotHold);
}

/// With so few objects, the chains of the function without mixing can also be as short as by chance.
#[test]
fn histogram_4_requires_a_difference_even_if_all_kernels_are_as_good_as_chance() {
    let mut results = as_published();
    let [full, sparse] = histograms(3, "mult shift 11, 16384", CacheKind::Buffer);
    for figures in (results.tables[2].iter_mut())
        .flat_map(|row| &mut row.loads)
        .flat_map(|load| &mut load.caches)
        .filter(|figures| figures.cache == CacheKind::Buffer)
    {
        figures.full.histogram = full.clone();
        figures.after.histogram = sparse.clone();
    }
    let noise = (0..40).map(Mutation::Noise);
    let mutations = [Mutation::Equal, Mutation::Inverted, Mutation::Halved];
    for mutation in mutations.into_iter().chain(noise) {
        let changed = results.mutated(mutation);
        let verdict = verdict("buffer cache, Histogram 4", &changed);
        assert_eq!(verdict, WithinNoise, "{mutation:?}");
    }
}

/// With these chains, changed rules can be applied to an old run. A new run would take hours.
#[test]
fn json_contains_the_chains_of_all_caches() {
    let results = as_published();
    let json = serde_json::to_value(&results).unwrap();
    for (table, rows) in results.tables.iter().enumerate() {
        for (at, row) in rows.iter().enumerate() {
            let loads = &json["tables"][table][at]["loads"];
            for (load, caches) in row.loads.iter().map(|load| &load.caches).enumerate() {
                for (cache, figures) in caches.iter().enumerate() {
                    let json = &loads[load]["caches"][cache];
                    let report = |key: &str| Report::deserialize(&json[key]).unwrap();
                    assert_eq!(report("full"), figures.full);
                    assert_eq!(report("after"), figures.after);
                }
            }
        }
    }
}

/// Returns the verdict on the finding with this name.
fn verdict(name: &str, results: &Lever2000) -> Verdict {
    let mut findings = findings().into_iter();
    findings
        .find(|finding| finding.name == name)
        .unwrap()
        .verdict(results)
}

/// Returns results with the published figures, in which the throughput of D is multiplied by `factor` and hardly varies.
fn with_d(factor: f64) -> Lever2000 {
    let mut results = as_published();
    let rows = results.tables[5].iter_mut();
    for load in rows
        .filter(|row| row.kernel == "D")
        .flat_map(|row| &mut row.loads)
    {
        let rounds: Vec<RoundTimes> = load.runs.rounds().collect();
        let times = rounds.iter().map(|round| round.elapsed_s);
        let mean_s = times.sum::<f64>() / f64::from(RUNS);
        let steady = (0_u32..).zip(rounds).map(|(at, round)| RoundTimes {
            elapsed_s: mean_s / factor * (1.0 + 1e-6 * f64::from(at)),
            ..round
        });
        load.runs = load.runs.with_rounds(&steady.collect::<Vec<_>>());
    }
    results
}

#[test]
fn kernel_d_is_undecided_if_addresses_change_the_order_of_the_kernels() {
    for (factor, decided) in [(0.9, DoesNotHold), (1.02, Holds)] {
        let mut results = with_d(factor);
        assert_eq!(verdict("kernel D", &results), decided);
        results.layouts.push(layout(&[("D", 28.0)]));
        assert_eq!(verdict("kernel D", &results), DependsOnAssumption);
        // D is the worst everywhere, then the best everywhere.
        results.layouts.remove(0);
        assert_eq!(verdict("kernel D", &results), decided);
        results.layouts = vec![layout(&[("A", 30.0), ("C", 20.0)]), layout(&[])];
        assert_eq!(verdict("kernel D", &results), decided);
    }
}

/// A and B have the same function of pages, whose chains are longer than those of reference with some addresses.
#[test]
fn higher_throughput_is_undecided_if_addresses_can_lengthen_chains() {
    let mut results = as_published();
    results.layouts.push(layout(&[("A", 31.0), ("B", 31.0)]));
    assert_eq!(verdict("kernels A to D", &results), DependsOnAssumption);
    // The order of the kernels is the same with all addresses.
    results.layouts.remove(0);
    assert_eq!(verdict("kernels A to D", &results), Holds);
    // Trees do not depend on addresses, and with 14 bits, chains are always shorter than with 11 bits.
    results.layouts.push(layout(&[]));
    assert_eq!(verdict("page cache, trees", &results), Holds);
    assert_eq!(verdict("page cache, smaller", &results), Holds);
}

#[test]
fn chains_of_random_addresses_are_shorter_only_if_their_whole_range_is() {
    for (range, expected) in [([9.0, 40.0], Holds), ([7.0, 40.0], DependsOnAssumption)] {
        let mut results = as_published();
        let mut random = layout(&[]);
        for chains in &mut random.chains {
            if (chains.table, chains.kernel) == (6, "reference") {
                chains.range = Some(range);
            }
        }
        results.layouts.push(random);
        assert_eq!(verdict("kernels A to D", &results), expected);
    }
}

#[test]
fn generated_keys_do_not_decide_whether_64_bits_need_another_constant() {
    let mut results = as_published();
    results.constants = None;
    assert_eq!(verdict("64 bits", &results), Holds);
}

#[test]
fn trees_are_compared_with_all_computed_chains_of_the_reference() {
    let mut results = as_published();
    let mut short = layout(&[]);
    for chains in &mut short.chains {
        if (chains.table, chains.kernel) == (1, "reference") {
            chains.links = 1.0;
        }
    }
    results.layouts.push(short);
    assert_eq!(verdict("page cache, trees", &results), DependsOnAssumption);
}

/// With 12 bits and mult, the published throughput is lower than with 12 bits and the reference function.
#[test]
fn faster_function_of_inodes_refutes_the_claim_that_only_the_size_matters() {
    let mut results = as_published();
    let rows = results.tables[4].iter_mut();
    for load in rows
        .filter(|row| row.kernel == "mult")
        .flat_map(|row| &mut row.loads)
    {
        let faster = load.runs.rounds().map(|round| RoundTimes {
            elapsed_s: round.elapsed_s / 1.05,
            ..round
        });
        load.runs = load.runs.with_rounds(&faster.collect::<Vec<_>>());
    }
    assert_eq!(verdict("inode table, function", &results), DoesNotHold);
}

#[test]
fn red_black_trees_suit_memory_areas_if_other_structures_compare_far_more() {
    let mut results = as_published();
    let mut recorded = results.recorded_keys.iter_mut();
    let search = recorded.find_map(|keys| keys.search.as_mut()).unwrap();
    search.linux_2_2 = [2.1, 2.4].map(|times| times * search.red_black);
    assert_eq!(verdict("memory areas", &results), Holds);
}

#[test]
fn page_table_size_is_undecided_if_its_advantage_depends_on_addresses() {
    let mut results = as_published();
    assert_eq!(verdict("page cache, size", &results), Holds);
    let mut random = layout(&[]);
    for chains in &mut random.chains {
        match (chains.table, chains.kernel) {
            (1, "reference") => chains.links = 8.9,
            (1, "14-bit") => chains.links = 3.3,
            (1, _) => chains.links = 1.9,
            _ => (),
        }
    }
    results.layouts.push(random);
    assert_eq!(verdict("page cache, size", &results), DependsOnAssumption);
}

/// With 2,700 objects in 16,384 buckets, 1.4% of random distributions have a chain of more than 4.
#[test]
fn longest_chain_by_chance_is_rarely_exceeded() {
    let sparse = histograms(3, "mult shift 11, 16384", CacheKind::Buffer)[1].clone();
    assert_eq!(sparse.objects(), 2717);
    assert_eq!(buffer::longest_by_chance(&sparse), 4);
    assert_eq!(buffer::longest_by_chance(&Histogram::default()), 0);
}

#[test]
fn effects_are_on_the_first_page_beside_the_verdicts() {
    let mut results = as_published();
    results.findings = judge(&results);
    let text = results.body();
    let row = text
        .lines()
        .find(|line| line.contains("256 buckets reduces"));
    let effect = "scripts per hour, 12 bit / reference: 1.018 (";
    assert!(row.is_some_and(|row| row.contains(effect)), "{row:?}");
    assert!(text.contains("The aim of 0.7% was"), "{text}");
    assert!(text.contains("are 1 to 1 times as high"), "{text}");
    assert!(text.contains("The shortest run of a kernel took"), "{text}");
}

/// Histogram 4 of the document is of 3,530,977 lookups, and its longest chain has 6 buffers.
#[test]
fn histogram_after_the_run_has_no_measured_lookups() {
    let text = as_published().body();
    let after = text.split("### Histogram 4").nth(1).unwrap();
    let measured = |figure: &str| {
        let row = after.lines().find(|line| line.contains(figure));
        row.unwrap().rsplit('|').nth(1).unwrap().trim().to_owned()
    };
    for figure in ["| lookups", "| hit rate", "| links per 1000"] {
        assert_eq!(measured(figure), "-", "{figure}");
    }
    assert_eq!(measured("| objects in the largest"), "6");
    let full = text.split("### Histogram 3").nth(1).unwrap();
    assert!(full.lines().any(|line| {
        let mut cells = line.split('|').map(str::trim);
        cells.nth(1) == Some("lookups") && cells.nth(1) == Some("100000")
    }));
}

#[test]
fn addresses_and_moved_effects_are_listed() {
    let mut results = as_published();
    results.findings = judge(&results);
    let text = results.body();
    let row = |start: &str| {
        let row = text.lines().find(|line| {
            line.trim_start_matches("| ")
                .trim_start()
                .starts_with(start)
        });
        row.map(str::to_owned).unwrap_or_default()
    };
    assert!(row("336 | by number ").ends_with("1.200 |"), "{text}");
    let moved = row("scripts per hour, A / reference");
    assert!(moved.contains("2.151 (2.083 to 2.216)"), "{moved}");
    assert!(text.contains(&Provenance::example().to_string()));
}

#[test]
fn each_finding_has_a_row_in_the_plot_and_all_texts_are_inside() {
    let mut results = as_published();
    results.findings = judge(&results);
    front_page::expect::rows(&results.front_page(), rules().count());
    for plot in results.plots() {
        expect_texts_inside(&plot.content);
    }
}
