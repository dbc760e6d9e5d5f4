//! Findings that are decided by counts of links.

use super::finding::{Observed, Verdict};
use crate::reproduce::lever2000::measure::CacheFigures;
use crate::reproduce::lever2000::results::Lever2000;
use larder::CacheKind;
use larder_cache::hash::{Function, HashKey};
use larder_cache::table::HashFunction;
use std::fmt::Write as _;

pub(super) fn buffer_xor(results: &Lever2000) -> Option<Observed> {
    let at = |kernel| Some(results.last_load(3, kernel)?.cache(CacheKind::Buffer));
    let xor = at("reference, 16384")?;
    let beyond_first = |figures: &CacheFigures| (figures.links_per_lookup() - 1.0).max(0.0);
    let mut holds = true;
    let longest = xor.longest_chain;
    let mut text = format!(
        "xor: {:.3} links per lookup, longest chain {longest}, with {} objects and {} lookups",
        xor.links_per_lookup(),
        xor.full.histogram.objects(),
        xor.lookups,
    );
    for kernel in [
        "mult shift 11, 16384",
        "mult shift 17, 16384",
        "shift-add, 16384",
    ] {
        let mixed = at(kernel)?;
        let chain = mixed.longest_chain;
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "; {kernel}: {:.3}, longest chain {chain}",
            mixed.links_per_lookup()
        );
        holds &= beyond_first(xor) >= 2.0 * beyond_first(mixed) && longest >= 4 * chain;
    }
    Some((text, Verdict::of(holds)))
}

pub(super) fn inode_size(results: &Lever2000) -> Option<Observed> {
    let mut holds = true;
    let mut parts = Vec::new();
    for (name, small, large) in [
        ("reference", "reference", "14 bit"),
        ("larder's", "larder's, 8 bit", "larder's, 14 bit"),
    ] {
        let [small, large] = [inodes(results, small)?, inodes(results, large)?];
        holds &= small.links_per_miss() >= 4.0 * large.links_per_miss();
        parts.push(format!(
            "{name}: {:.2} links per miss with 8 bits, {:.2} with 14 bits ({:.2} and {:.2} links per lookup; \
             with 8 bits, {:.1}% of lookups hit)",
            small.links_per_miss(),
            large.links_per_miss(),
            small.links_per_lookup(),
            large.links_per_lookup(),
            small.hit_rate_pct(),
        ));
    }
    Some((parts.join("; "), Verdict::of(holds)))
}

pub(super) fn inode_function(results: &Lever2000) -> Option<Observed> {
    let links = |kernel| Some(inodes(results, kernel)?.links_per_miss());
    let (small, large, mult) = (links("reference")?, links("12 bit")?, links("mult")?);
    let text = format!(
        "links per miss: {small:.2} with 8 bits, {large:.2} with 12 bits, {mult:.2} with 12 bits and mult"
    );
    Some((
        text,
        Verdict::of(small - large >= 5.0 * (large - mult).abs()),
    ))
}

fn inodes<'r>(results: &'r Lever2000, kernel: &str) -> Option<&'r CacheFigures> {
    Some(results.last_load(5, kernel)?.cache(CacheKind::Inode))
}

pub(super) fn page_size(results: &Lever2000) -> Option<Observed> {
    // With sixteen scripts, which fit in memory.
    let links = |kernel| {
        let load = results.row(1, kernel)?.loads.first()?;
        Some(load.cache(CacheKind::Page).links_per_lookup())
    };
    let (small, large) = (links("reference")?, links("14-bit")?);
    let functions = [links("offset")?, links("mult")?];
    let [offset, mult] = functions;
    let most = functions
        .iter()
        .map(|links| (links - large).abs())
        .fold(0.0, f64::max);
    let text = format!(
        "links per lookup: {small:.3} with 11 bits, {large:.3} with 14 bits, which is {:.3} fewer; with 14 bits \
         also {offset:.3} with offset and {mult:.3} with mult, a difference of at most {most:.3}",
        small - large
    );
    Some((text, Verdict::of(small - large >= 5.0 * most)))
}

pub(super) fn word_size(results: &Lever2000) -> Option<Observed> {
    let constants = results.constants?;
    let mut text = format!(
        "{:.2} times the links of a random distribution with 2654435761, {:.2} times with the prime. Kernel D \
         does not answer the question, because its only multiplication always shifts by 11; its links per \
         lookup with words of 32 and 64 bits:",
        constants.published, constants.prime
    );
    let (narrow, wide) = (
        results.last_load(6, "D")?,
        results.last_load(6, "D in 64 bits")?,
    );
    for cache in CacheKind::ALL {
        let [narrow, wide] = [narrow, wide].map(|load| load.cache(cache).links_per_lookup());
        // Writing to a string does not fail.
        let _ = write!(text, " {} {narrow:.3} and {wide:.3};", cache.as_str());
    }
    Some((
        text.trim_end_matches(';').to_owned(),
        Verdict::of(constants.is_another_needed()),
    ))
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of all findings")]
pub(super) fn swap(_: &Lever2000) -> Option<Observed> {
    let chains = |function: Function| {
        const BITS: u32 = 14;
        let mut lengths = vec![0_u64; 1 << BITS];
        for slot in 0..1 << BITS {
            // Linux 2.2: the number of the area from bit 1, and that of the page in it from bit 8.
            let key = HashKey {
                object: 1,
                index: slot << 8 | 1 << 1,
            };
            lengths[function.bucket(key, BITS) as usize] += 1;
        }
        lengths.into_iter().max().unwrap_or(0)
    };
    let (reference, offset) = (
        chains(Function::SwapReference),
        chains(Function::SwapOffset),
    );
    let text = format!("longest chain: swap-reference {reference}, swap-offset {offset}");
    Some((text, Verdict::of(reference >= 2 * offset)))
}
