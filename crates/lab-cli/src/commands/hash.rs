//! The command `larder lab hash`: replays a trace in hash tables, and compares the tables.

use super::progress::progress;
use super::reading::{rewritten_hint, tolerance};
use super::results::write_results;
use crate::options::{ResultArgs, choice, parse_seed};
use clap::{ArgGroup, Args};
use indicatif::{ProgressBar, ProgressStyle};
use larder::CacheKind;
use larder::tables::Finder;
use larder_console::{Failure, Result, count, print_warning, size};
use larder_lab::hash::{
    self, Capacity, Combination, Error, Functions, HashReport, KeyKind, Keys, Sizes, Source,
    Surveys, TraceFile, Wanted, capacity_of,
};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare hash functions and table sizes by replaying a trace
///
/// The command replays the trace in the hash tables of larder's caches, once with each combination of
/// hash function and table size, and counts the links of each lookup. A link is an entry of a hash chain
/// that a lookup compares with its key. A lookup with fewer links is usually faster.
///
/// For each cache, the command prints one row for each combination, with the columns that are explained
/// below. For each table size, a row named chance shows the mean number of links that is expected for
/// keys distributed at random.
#[derive(Debug, Args)]
#[command(after_help = "\
Columns:
  hit      mean links of a lookup that finds its object
  miss     mean links of a lookup that does not find its object
  excess   mean links of a lookup, compared with the mean that is expected for keys distributed at
           random: +5% means 5% more links, and -5% means 5% fewer links
  longest  length of the longest chain
  p        probability that keys distributed at random give chains at least as uneven as these
           (a chi-square test). longest and p describe the table at the time when it contains the
           most objects.
  ns       time of a lookup on one processor, in nanoseconds: the median of seven runs, and their
           median absolute deviation (MAD). An asterisk marks each row that no other row beats by
           more than the noise. The noise between two rows with MADs a and b is 3% of the slower
           time, plus 4.5 * sqrt(a^2 + b^2).

Values of --functions:
  NAME       a function that larder lab list prints. A full name (page-mult) selects the function
             for all caches. A name without its cache prefix (mult) selects page-mult for pages,
             inode-mult for inodes, and so on
  larder     the function that a mount uses by default. For dentries, this function has a secret
             seed, so xxh3-avalanche represents it
  rbtree     for pages only: red-black trees instead of a hash table; a link is then a tree node
  published  the functions that were designed for particular caches, as in Lever 2000; and rbtree
  today      the function larder, and those that were designed for all caches
  all        the functions of both groups, published and today

Values of --keys:
  sequential  consecutive numbers, such as inodes in the order of their creation
  strided     numbers 64 apart, such as the first blocks of file system structures
  pages       pages of files; each file has 1 to 10000 pages, and the inode numbers
              are close together
  blocks      blocks of one device, in runs of 1 to 1000 with gaps between the runs
  names       names in directories; each directory has 1 to 1000 names, and the hashes of the names
              are uniformly distributed

By default, the command repeats the insertions and removals that the trace recorded. If the trace
has only lookups, or if --memory or --objects is given, each lookup that misses inserts an object
instead. If the cache is then full, the clock algorithm selects an object to evict.

Examples:
  larder lab hash --keys pages                         generated keys, without a trace
  larder lab hash --trace mount.parquet --bits 11,13..16
  larder lab hash --trace mount.parquet --cache dentry --functions reference,mult-11,golden
  larder lab hash --trace blocks.parquet --memory 256M --json \\
      | jq '.caches[].rows[] | select(.is_fastest).function'
  larder lab hash --trace mount.parquet --output report

JSON:
  source            origin of the keys
  losses            {events (number of events that were lost during the recording), is_cut_short
                    (whether the end of the trace is missing), reason (why the end is missing, or
                    null)}
  is_completed      true if insertions and removals were derived from the lookups; false if they
                    were taken from the trace
  caches            [{cache, survey (properties of the trace that do not depend on a hash function),
                    rows}]
  caches[].rows     [{function, bits, lookups, hits, links_on_hits, links_on_misses (totals),
                    links {hit, miss, lookup} (means), objects (largest number at any time),
                    over_chance (excess, as a fraction), longest_chain, empty_buckets,
                    share_in_mean_chains (share of the objects in chains of at most
                    ceil(objects / buckets) entries), chi_square, degrees_of_freedom, p_value,
                    lookup_ns, mad_ns (the median absolute deviation),
                    lookups_s (per second), is_fastest, table_bytes}]
  costs             cost of computing each hash function
  uncounted         why the command does not count misses of the processor's caches
Rows of rbtree do not have the keys from over_chance to p_value. Times that could not be measured
are null.")]
pub(crate) struct HashArgs {
    #[command(flatten)]
    pub keys: KeysArgs,
    /// Caches, separated by commas [default: all in the trace]
    ///
    /// With --keys, name at most one cache [default: the cache that has keys of this kind].
    #[arg(long, value_name = "CACHE,...", value_delimiter = ',', value_parser = choice(&CacheKind::ALL, CacheKind::as_str))]
    pub cache: Vec<CacheKind>,
    /// Functions, separated by commas: see below
    #[arg(long, value_name = "NAMES", default_value = "all")]
    pub functions: Functions,
    /// Table sizes, as powers of two: numbers, ranges, or auto
    ///
    /// Numbers and ranges are separated by commas: 11,13..16 tests tables of 2^11 and of 2^13 to 2^16
    /// buckets. auto tests the smallest table that has at least as many buckets as objects. This option does
    /// not apply to rbtree.
    #[arg(long, value_name = "BITS,...", default_value = "auto")]
    pub bits: Sizes,
    /// Also print a histogram of each table's chain lengths
    #[arg(long)]
    pub histograms: bool,
    #[command(flatten)]
    pub results: ResultArgs,
}

/// The source of the keys, and the maximum number of objects in a table.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
pub(crate) struct KeysArgs {
    /// Trace to replay
    #[arg(long, value_name = "FILE", group = "source")]
    pub trace: Option<PathBuf>,
    /// Accept a trace that was cut short or damaged
    ///
    /// The trace is read up to its first missing or damaged row group.
    #[arg(long, requires = "trace")]
    pub salvage: bool,
    /// Generate keys of KIND instead of reading a trace
    #[arg(long, value_name = "KIND", value_parser = choice(KeyKind::ALL, KeyKind::as_str), group = "source")]
    pub keys: Option<KeyKind>,
    /// Seed of the generated keys
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
    /// Limit each cache to the objects that fit in SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, conflicts_with = "objects")]
    pub memory: Option<u64>,
    /// Limit each cache to N objects, or generate N keys
    ///
    /// With --trace, each cache contains at most N objects [default: no limit]. With --keys, the command
    /// generates N keys [default: 100000].
    #[arg(long, value_name = "N", value_parser = count::within(1..=100_000_000_u32))]
    pub objects: Option<u32>,
}

/// Parses a memory size, which must have room for one object of any cache.
fn parse_memory(text: &str) -> Result<u64, String> {
    /// A page and its slot fit.
    const MIN_BYTES: u64 = 8 << 10;
    match size::parse(text)? {
        bytes if bytes < MIN_BYTES => Err(format!(
            "`{text}` is too small: the minimum is 8K, one page with its metadata"
        )),
        bytes => Ok(bytes),
    }
}

/// Default number of generated keys.
const GENERATED_KEYS: u32 = 100_000;

pub(super) fn run(args: &HashArgs) -> Result<ExitCode> {
    let (source, caches) = source(&args.keys, &args.cache)?;
    let wanted = wanted(&args.keys, &caches);
    let surveys = survey(&*source, wanted, &args.cache)?;
    let combinations = combinations(&surveys, &args.functions, &args.bits)?;
    let events = source.events().saturating_mul(combinations.len() as u64);
    let bar = replay_progress(events, "{bar:30} {percent}%, {elapsed}");
    let tick = &mut |events| bar.inc(events);
    let outcomes = hash::replay(&*source, wanted, &surveys, &combinations, tick);
    bar.finish_and_clear();
    let outcomes = outcomes.map_err(|error| failure(&error))?;
    let report = HashReport::new(&*source, wanted, &surveys, &outcomes);
    write_results(&report, &args.results, |out| {
        print_text(out, &report, args.histograms)
    })
}

/// Returns a progress bar of replayed events. `total` is their number, or 0 if it is unknown.
pub(super) fn replay_progress(total: u64, template: &str) -> ProgressBar {
    let bar = progress(total);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Returns the source of keys, and the caches whose keys are requested.
fn source(args: &KeysArgs, caches: &[CacheKind]) -> Result<(Box<dyn Source>, Vec<CacheKind>)> {
    if let Some(kind) = args.keys {
        let cache = match caches {
            [] => kind.cache(),
            [cache] => *cache,
            _ => {
                return Err(Failure::usage_with_hint(
                    "--keys generates keys for one cache, but --cache names several",
                    "name one cache with --cache, or omit it",
                ));
            }
        };
        let objects = args.objects.unwrap_or(GENERATED_KEYS);
        let keys = Keys::new(kind, cache, objects, args.seed);
        return Ok((Box::new(keys), vec![cache]));
    }
    // The command line requires exactly one of `--keys` and `--trace`.
    let path = args.trace.as_deref().unwrap_or(Path::new(""));
    let trace = open(path, args.salvage)?;
    let caches = match caches {
        [] => CacheKind::ALL.to_vec(),
        caches => caches.to_vec(),
    };
    Ok((Box::new(trace), caches))
}

/// Opens the trace at `path`, and warns of missing events.
pub(super) fn open(path: &Path, salvage: bool) -> Result<TraceFile> {
    let trace = TraceFile::open(path, tolerance(salvage)).map_err(|error| failure(&error))?;
    let losses = trace.losses();
    if !losses.are_none() {
        print_warning(&format!("{}: {losses}", trace.title()));
    }
    Ok(trace)
}

/// Returns `caches`, each with the rule that decides which objects its table contains: as recorded, or up to a limit.
fn wanted(args: &KeysArgs, caches: &[CacheKind]) -> Wanted {
    caches.iter().fold(Wanted::default(), |wanted, cache| {
        let capacity = match (args.memory, args.objects) {
            (Some(bytes), _) => Capacity::Objects(capacity_of(*cache, bytes)),
            (None, Some(objects)) if args.keys.is_none() => Capacity::Objects(objects.into()),
            _ => Capacity::AsRecorded,
        };
        wanted.with(*cache, capacity)
    })
}

/// Surveys the trace. Fails if the trace has no lookups of a cache that was requested by name.
fn survey(source: &dyn Source, wanted: Wanted, named: &[CacheKind]) -> Result<Surveys> {
    let surveys = hash::survey(source, wanted).map_err(|error| failure(&error))?;
    let missing = named.iter().find(|cache| !surveys.contains_key(cache));
    match missing {
        Some(cache) => Err(failure(&Error::NoLookups(*cache))),
        None if surveys.is_empty() => Err(failure(&Error::Empty)),
        None => Ok(surveys),
    }
}

fn combinations(
    surveys: &Surveys,
    functions: &Functions,
    sizes: &Sizes,
) -> Result<Vec<Combination>> {
    let mut combinations = Vec::new();
    for (cache, survey) in surveys {
        for function in functions.of(*cache) {
            // Trees have no buckets. The table of their roots has the same size as on a mount.
            let bits = match function {
                Finder::RedBlackTrees => vec![Sizes::fitting(survey)],
                _ => sizes.of(survey),
            };
            for bits in bits {
                combinations.push(Combination {
                    cache: *cache,
                    function,
                    bits,
                });
            }
        }
    }
    if combinations.is_empty() {
        return Err(Failure::with_hint(
            "none of the functions in --functions is for a cache that is replayed",
            "name a function for one of these caches, or another --cache; see larder lab list",
        ));
    }
    Ok(combinations)
}

fn print_text(out: &mut dyn Write, report: &HashReport, histograms: bool) -> io::Result<()> {
    writeln!(out, "{}", report.source)?;
    for of in &report.caches {
        write!(out, "\n{}\n\n{}", of.title(), of.table().to_text())?;
        if let Some(verdict) = of.verdict() {
            writeln!(out, "{verdict}")?;
        }
        if histograms {
            for (heading, histogram) in of.histograms() {
                write!(out, "\n{heading}\n{histogram}")?;
            }
        }
    }
    writeln!(out, "\n{}", report.uncounted)
}

/// Converts an error of replaying a trace to a failure of the command.
pub(super) fn failure(error: &Error) -> Failure {
    use larder_lab::trace::Error as Trace;
    let message = error.to_string();
    let hint = match error {
        Error::Trace { source, .. } => match source {
            Trace::CutShort | Trace::RowGroup { .. } => {
                "use --salvage to read it up to its first missing or damaged row group"
            }
            Trace::Io(cause) if cause.kind() == io::ErrorKind::NotFound => {
                "give the path of an existing trace; larder lab hash --keys pages needs no trace"
            }
            Trace::NotParquet | Trace::Column { .. } => {
                "give the path of a trace; larder lab import converts other formats"
            }
            other => match rewritten_hint(other) {
                Some(hint) => hint,
                None => return Failure::new(message),
            },
        },
        Error::Memory { .. } => "reduce --bits, --memory or --objects",
        Error::NoLookups(_) => "omit --cache to replay all caches of the trace",
        _ => return Failure::new(message),
    };
    Failure::with_hint(message, hint)
}
