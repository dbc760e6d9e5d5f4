//! A run as Markdown.

use std::fmt::Write;

use crate::hash_table::results::Results;
use crate::hash_table::run::Case;
use crate::hash_table::side::Side;
use crate::report::{counted, figure, judged};
use crate::verdict::{self, Verdict};

/// The required ratio of Larder's rate to that of the fastest concurrent peer, with two threads and 98% reads.
const MIN_RATIO_TO_PEERS: f64 = 1.5;

/// The required ratio of Larder's rate to that of the map for one thread, with one thread and only reads.
const MIN_RATIO_TO_HASHBROWN: f64 = 0.8;

/// The required ratio of the speed of counted lookups to that of uncounted ones.
const MIN_RATIO_TO_UNCOUNTED: f64 = 0.98;

/// The maximum of the mean number of links per hit, divided by the number to expect if the keys were distributed
/// over the buckets at random.
const MAX_RATIO_TO_CHANCE: f64 = 1.02;

/// Returns the whole report.
#[must_use]
pub fn page(results: &Results) -> String {
    format!(
        "{}\n\n{}\n{}",
        origin(results),
        tables(results),
        verdict::table(&verdicts(results))
    )
}

/// Returns a sentence on the sizes, the machine and the commit of the run.
#[must_use]
pub fn origin(results: &Results) -> String {
    let plan = &results.plan;
    format!(
        "Million lookups a second of processor time, with at most {} objects; medians of {} of {} \
         lookups for each thread on {}.",
        plan.objects,
        counted(plan.rounds, "round"),
        plan.lookups,
        results.origin,
    )
}

/// Returns the tables of rates, of ratios and of links.
#[must_use]
pub fn tables(results: &Results) -> String {
    let mut text = String::new();
    rates(&mut text, results);
    ratios(&mut text, results);
    links(&mut text, results);
    text
}

/// Returns the verdicts of the run.
#[must_use]
pub fn verdicts(results: &Results) -> Vec<Verdict> {
    let ratios = |is_wanted: fn(&Case) -> bool, side, others: &'static [Side]| {
        let cases = Case::all().into_iter().filter(is_wanted);
        cases.filter_map(move |case| results.ratio(case, side, others))
    };
    vec![
        Verdict::new(
            "rate of hits with one thread / hashbrown",
            &format!("at least {MIN_RATIO_TO_HASHBROWN}"),
            ratios(|case| !case.churn, Side::Larder, &[Side::Hashbrown]),
            |ratio| ratio >= MIN_RATIO_TO_HASHBROWN,
        ),
        Verdict::new(
            "rate with 98% lookups and two threads / fastest concurrent peer",
            &format!("at least {MIN_RATIO_TO_PEERS}"),
            ratios(
                |case| case.churn && case.threads > 1,
                Side::Larder,
                &Side::CONCURRENT_PEERS,
            ),
            |ratio| ratio >= MIN_RATIO_TO_PEERS,
        ),
        Verdict::new(
            "rate of counted lookups / uncounted",
            &format!("at least {MIN_RATIO_TO_UNCOUNTED}"),
            ratios(|_| true, Side::LarderPin, &[Side::LarderUncounted]),
            |ratio| ratio >= MIN_RATIO_TO_UNCOUNTED,
        ),
        Verdict::new(
            "links per hit / links by chance",
            &format!("at most {MAX_RATIO_TO_CHANCE}"),
            results
                .shapes
                .iter()
                .map(|shape| shape.links / shape.links_of_chance),
            |ratio| ratio <= MAX_RATIO_TO_CHANCE,
        ),
    ]
}

fn rates(text: &mut String, results: &Results) {
    let names = Side::ALL.map(Side::name).join(" | ");
    let _ = writeln!(
        text,
        "| case | {names} |\n|---{}|",
        "|---".repeat(Side::ALL.len())
    );
    for case in Case::all() {
        let rate = |side| figure(results.rate(case, side), 1);
        let rates = Side::ALL.map(rate);
        if rates.iter().any(|rate| rate != "-") {
            let _ = writeln!(text, "| {} | {} |", case.name(), rates.join(" | "));
        }
    }
}

fn ratios(text: &mut String, results: &Results) {
    text.push_str(
        "\n| case | larder / best concurrent peer | larder / hashbrown | larder-pin / larder-uncounted |\n\
         |---|---|---|---|\n",
    );
    for case in Case::all() {
        let against = |others: &[Side]| results.ratio(case, Side::Larder, others);
        let of_peers = against(&Side::CONCURRENT_PEERS);
        if of_peers.is_none() {
            continue;
        }
        let counted = results.ratio(case, Side::LarderPin, &[Side::LarderUncounted]);
        let is_judged = case.threads > 1 && case.churn;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            case.name(),
            judged(of_peers, |ratio| ratio >= MIN_RATIO_TO_PEERS || !is_judged),
            judged(against(&[Side::Hashbrown]), |ratio| {
                ratio >= MIN_RATIO_TO_HASHBROWN || case.churn
            }),
            judged(counted, |ratio| ratio >= MIN_RATIO_TO_UNCOUNTED),
        );
    }
}

fn links(text: &mut String, results: &Results) {
    text.push_str(
        "\n| keys | buckets | links per hit | links by chance | ratio |\n|---|---|---|---|---|\n",
    );
    for shape in &results.shapes {
        let ratio = shape.links / shape.links_of_chance;
        let _ = writeln!(
            text,
            "| {} | {} | {:.3} | {:.3} | {} |",
            shape.workload.name(),
            shape.buckets,
            shape.links,
            shape.links_of_chance,
            judged(Some(ratio), |ratio| ratio <= MAX_RATIO_TO_CHANCE),
        );
    }
}
