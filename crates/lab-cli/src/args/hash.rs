//! The command line of `larder lab hash`.

use super::parse_seed;
use super::results::ResultArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};
use larder::CacheKind;
use larder_console::{count, size};
use larder_lab::hash::{Functions, KeyKind, Sizes};
use std::path::PathBuf;

/// Compare hash functions and table sizes under the keys of a trace
///
/// Replays the trace in the caches' own table, once for each function and size. Prints for each
/// cache a row for each: links walked by lookups that hit and that miss, how much more that is than
/// chance gives for this trace (excess), the longest chain, how likely chance is to spread the
/// objects so unevenly (p), and nanoseconds of a lookup, alone on one processor: of the median of seven
/// runs, with the median distance of the runs from it. A star says that no row is faster beyond
/// noise: by more than 3% and 4.5 of both distances together.
#[derive(Debug, Args)]
#[command(after_help = "\
Functions are named as `larder lab list` shows them; the cache's name may be left out (mult for
page-mult), and published, today and all stand for those of the cache. One that was made for
another cache is compared if it is named in full. larder is our own function; rbtree finds pages in
red-black trees, for which pages compared stand in place of links.

Objects come and go as the trace tells. Where it tells of lookups alone, or --memory or --objects
is given, what misses comes, and where there is no room, the clock hand takes what was not used
since it last passed.

Examples:
  larder lab hash --keys pages                         try at once, with keys made up
  larder lab hash --trace mount.parquet --bits 11,13..16
  larder lab hash --trace mount.parquet --cache dentry --functions reference,mult-11,golden
  larder lab hash --trace blocks.parquet --memory 256M --json \
      | jq '.caches[].rows[] | select(.is_fastest).function'
  larder lab hash --trace mount.parquet --output report

JSON: source, losses {events, is_cut_short, reason}, is_completed, caches [{cache, survey, rows
[{function, bits, lookups, hits, links_on_hits, links_on_misses, links {hit, miss, lookup}, objects,
over_chance, longest_chain, empty_buckets, share_in_mean_chains, chi_square, degrees_of_freedom,
p_value, lookup_ns, mad_ns, lookups_s, is_fastest, table_bytes}]}], costs, uncounted. rbtree has nothing from
over_chance to p_value; what could not be timed is null.")]
pub(crate) struct HashArgs {
    #[command(flatten)]
    pub keys: KeysArgs,
    /// The caches, separated by commas [default: all that the trace has]
    #[arg(long, value_name = "CACHE,...", value_delimiter = ',', value_parser = cache_names())]
    pub cache: Vec<CacheKind>,
    /// Functions: names separated by commas, published, today, or all
    #[arg(long, value_name = "NAMES", default_value = "all")]
    pub functions: Functions,
    /// Sizes, 2^BITS buckets: numbers and ranges separated by commas; auto has at least as many buckets
    /// as there are objects
    #[arg(long, value_name = "BITS,...", default_value = "auto")]
    pub bits: Sizes,
    /// Print the chain lengths of each table, too
    #[arg(long)]
    pub histograms: bool,
    #[command(flatten)]
    pub results: ResultArgs,
}

/// Where keys are from, and how many objects a table has.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
pub(crate) struct KeysArgs {
    /// The trace
    #[arg(long, value_name = "FILE", group = "source")]
    pub trace: Option<PathBuf>,
    /// Read a trace that was cut short up to its last whole row group
    #[arg(long, requires = "trace")]
    pub salvage: bool,
    /// Keys made up, in place of a trace
    #[arg(long, value_name = "KIND", value_parser = key_kinds(), group = "source")]
    pub keys: Option<KeyKind>,
    /// What made-up keys are drawn from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    /// Memory for the objects of each cache
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, conflicts_with = "objects")]
    pub memory: Option<u64>,
    /// Room for so many objects in each cache; of made-up keys, how many there are [default: 100000]
    #[arg(long, value_name = "N", value_parser = count::within(1..=100_000_000_u32))]
    pub objects: Option<u32>,
}

/// Reads memory, in which one object of any cache has room.
fn parse_memory(text: &str) -> Result<u64, String> {
    /// A page and its slot have room.
    const LEAST_BYTES: u64 = 8 << 10;
    match size::parse(text)? {
        bytes if bytes < LEAST_BYTES => Err(format!(
            "`{text}` is too little: a page must have room, so 8K is the minimum"
        )),
        bytes => Ok(bytes),
    }
}

/// The names that `--cache` takes.
fn cache_names() -> impl TypedValueParser<Value = CacheKind> {
    let names = CacheKind::ALL.map(CacheKind::as_str);
    PossibleValuesParser::new(names).try_map(|name| {
        let mut caches = CacheKind::ALL.into_iter();
        let found = caches.find(|cache| cache.as_str() == name);
        found.ok_or("no such cache")
    })
}

/// The names that `--keys` takes.
fn key_kinds() -> impl TypedValueParser<Value = KeyKind> {
    let names = KeyKind::ALL.iter().map(|kind| kind.as_str());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<KeyKind>())
}
