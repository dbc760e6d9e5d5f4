//! The targets of images at URLs.

use crate::measure::megabytes;
use crate::remote::measure::{Measure, OfStart, Side};
use crate::remote::memory::CACHE_BYTES;
use crate::remote::network::Network;
use crate::remote::prediction;
use crate::remote::recorded::Start;
use crate::remote::results::Results;
use crate::verdict::Verdict;

use Network::{A, B};
use Side::{Larder, LarderDisk, LarderOff, LarderPack, LarderProfile, Plain};

/// Returns the verdicts of a run.
#[must_use]
pub fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = waves(results);
    verdicts.extend(rates(results));
    for start in Start::ALL {
        verdicts.extend(of_start(results, start));
    }
    let memory = results.largest(Measure::Memory, B, Larder);
    let node_requests = results.largest(Measure::NodeRequests, Network::Local, LarderPack);
    verdicts.push(at_most(
        "`node-requests` of larder-pack",
        2.0,
        node_requests,
    ));
    verdicts.extend(predictions(results));
    let of_cache = memory.map(|memory| memory / megabytes(CACHE_BYTES));
    verdicts.push(at_most(
        "`memory` of larder / `--cache-size`",
        1.0,
        of_cache,
    ));
    verdicts
}

/// The targets of the time of reads, relative to the time that a device of the lab predicts.
fn predictions(results: &Results) -> Vec<Verdict> {
    let of = |network: Network, side: Side| {
        let measures = prediction::MEASURES.iter();
        let ratios = measures.filter_map(|&measure| results.value(measure, network, side));
        Verdict::new(
            &format!(
                "measured time of {} / predicted time of the device `{}`",
                side.name(),
                network.name()
            ),
            "within 15% of 1",
            ratios,
            |ratio| (ratio - 1.0).abs() <= 0.15,
        )
    };
    let networks = [Network::Object, Network::ObjectTail];
    let of_network = |network| [of(network, Plain), of(network, Larder)];
    networks.into_iter().flat_map(of_network).collect()
}

fn at_most(subject: &str, limit: f64, figures: impl IntoIterator<Item = f64>) -> Verdict {
    let text = format!("at most {limit}");
    Verdict::new(subject, &text, figures, |figure| figure <= limit)
}

fn at_least(subject: &str, limit: f64, figures: impl IntoIterator<Item = f64>) -> Verdict {
    let text = format!("at least {limit}");
    Verdict::new(subject, &text, figures, |figure| figure >= limit)
}

/// The targets of waves and requests. The largest of all rounds counts.
fn waves(results: &Results) -> Vec<Verdict> {
    let of = |measure: Measure, side: Side, limit: f64| {
        let subject = format!("`{}` of {}", measure.name(), side.name());
        at_most(&subject, limit, results.largest(measure, B, side))
    };
    vec![
        of(Measure::MountWaves, Larder, 1.0),
        of(Measure::FirstByteWaves, Larder, 3.0),
        of(Measure::FirstByteWaves, LarderProfile, 2.0),
        of(Measure::DataRequests, LarderDisk, 0.0),
        of(Measure::Revalidations, LarderDisk, 1.0),
        of(Measure::PathWaves, Larder, 2.0),
        of(Measure::FindWaves, Larder, 10.0),
    ]
}

fn rates(results: &Results) -> Vec<Verdict> {
    let value = |measure, network| results.value(measure, network, Larder);
    let sequential = |network| value(Measure::Sequential, network);
    let link = |network: Network| network.bytes_per_second().map(megabytes);
    let plain = results.value(Measure::Sequential, A, Plain);
    let both = [B, A];
    let interleaved = both
        .into_iter()
        .filter_map(|network| Some(value(Measure::Interleaved8, network)? / sequential(network)?));
    let of_round_trips = |measure, network: Network, threads: f64| {
        Some(value(measure, network)? * network.round_trip().as_secs_f64() / threads)
    };
    let random_1 = both
        .into_iter()
        .filter_map(|network| of_round_trips(Measure::Random1, network, 1.0));
    let random_64 = both.into_iter().filter_map(|network| {
        let of_link = value(Measure::RandomRate, network)? / link(network)?;
        Some(of_round_trips(Measure::Random64, network, 64.0)?.max(of_link))
    });
    let random_bytes = both
        .into_iter()
        .filter_map(|network| value(Measure::RandomBytes, network));
    vec![
        at_least(
            "`sequential` of larder / link B",
            0.95,
            sequential(B).zip(link(B)).map(|(rate, link)| rate / link),
        ),
        at_least(
            "`sequential` of larder / plain, on link A",
            0.85,
            sequential(A).zip(plain).map(|(rate, plain)| rate / plain),
        ),
        at_least("`interleaved-8` / `sequential` of larder", 0.8, interleaved),
        at_least("`random-1` of larder / one per round trip", 0.95, random_1),
        at_least(
            "`random-64` of larder / 64 per round trip, or bytes / link",
            0.9,
            random_64,
        ),
        at_most("`random-bytes` of larder", 16.0, random_bytes),
    ]
}

fn of_start(results: &Results, start: Start) -> Vec<Verdict> {
    let of = OfStart::new(start);
    let name = start.name();
    let value = |measure, side| results.value(measure, B, side);
    let ratio = |measure, side, other| Some(value(measure, side)? / value(measure, other)?);
    let best_peer = Side::PEERS
        .into_iter()
        .filter_map(|side| value(of.time, side))
        .reduce(f64::min);
    let requests = |side| results.largest(of.requests, B, side);
    let used = [LarderProfile, LarderPack];
    vec![
        at_least(
            &format!("time of `{name}-start` of larder / larder-profile"),
            3.0,
            ratio(of.time, Larder, LarderProfile),
        ),
        at_least(
            &format!("time of `{name}-start` of the best peer / larder-profile"),
            5.0,
            best_peer
                .zip(value(of.time, LarderProfile))
                .map(|(peer, own)| peer / own),
        ),
        at_most(
            &format!("`{name}-requests` of larder-profile"),
            20.0,
            requests(LarderProfile),
        ),
        at_most(
            &format!("`{name}-requests` of larder-pack"),
            2.0,
            requests(LarderPack),
        ),
        at_least(
            &format!("`{name}-used` of larder-profile and larder-pack"),
            80.0,
            used.into_iter().filter_map(|side| value(of.used, side)),
        ),
        at_most(
            &format!("`{name}-p99` of larder and larder-profile / larder-off"),
            1.2,
            [Larder, LarderProfile]
                .into_iter()
                .filter_map(|side| ratio(of.p99, side, LarderOff)),
        ),
    ]
}
