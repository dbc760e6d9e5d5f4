//! The command `larder lab eviction`: compares replacement policies on traces.

use super::progress::{progress, set_total};
use super::reading::rewritten_hint;
use super::results::write_results;
use crate::options::{Named, Names, NamesParser, ResultArgs, choice};
use clap::{Args, ValueHint};
use larder::CacheKind;
use larder_console::{Failure, Result, print_warning};
use larder_lab::eviction::{
    Error, Loading, PolicyName, Sizes, Study, Workload, cells, load, study,
};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare replacement policies by replaying traces
///
/// A replacement policy decides which page a full cache evicts. The command replays each trace in caches of several
/// sizes, with each policy, and counts the accesses that miss. It then compares the misses with those of larder,
/// the policy of the mount.
///
/// A trace is a file of larder mount --record or larder lab record, or a file that larder lab import can read. The
/// command detects the format, and decompresses files that are compressed with gzip or zstd. Each lookup in the trace
/// is an access. A removal removes the object from the cache of every policy. An eviction is ignored. Recordings of the
/// kernel, and of earlier versions of larder, do not distinguish removals from evictions: use --ignore-removals if the
/// recorded cache was too small for all objects.
#[derive(Debug, Args)]
#[command(after_help = "\
Policies:
  larder           the clock of a mount's frames
  clock            CLOCK with one bit, in the order of insertion
  clock-first-use  CLOCK in which the use that inserts an object sets its bit
  lru              least recently used
  sieve            SIEVE (Zhang et al., 2024)
  s3-fifo          S3-FIFO (Yang et al., 2023), with the parameters of libCacheSim
  clock2q+         Clock2Q+ (Zhai et al., 2025), with the parameters of libCacheSim
  arc              ARC (Megiddo and Modha, 2003)
  w-tinylfu        W-TinyLFU (Einziger et al., 2017), with a window of 1%
  belady           Belady's optimum, which knows the future

Columns of the summary:
  mean            change of the misses relative to larder, averaged over the sizes of a trace, and then
                  over the traces. -5% means 5% fewer misses
  of the optimum  part of the misses avoided by belady that the policy avoids as well
  best, worst     smallest and largest change, with the trace and the size
  verdict         a policy meets the rule if it saves at least 3% in the mean, and loses at most 1% for
                  each trace and size

Examples:
  larder lab eviction mount.parquet
  larder lab eviction traces/*.lis.zst --sizes 1%,10%,5000 --policies larder,s3-fifo,belady
  larder lab eviction mount.parquet --cache buffer --json | jq '.summaries[] | {policy, mean_change}'
  larder lab eviction *.parquet --output report

JSON:
  traces     [{name, format, sha256, losses {events (lost during the recording), is_cut_short (whether the
             end is missing), reason}, accesses, objects (number of different objects), removals}]
  policies   names of the policies
  sizes      [{share (of the objects)} or {objects}]
  cells      [{trace (its number, from 0), size, objects (of the cache), policy, misses, miss_ratio}]
  summaries  [{policy, mean_change (-0.05: 5% fewer misses than larder), trace_changes (for each trace;
             null if all its caches are too small), share_of_optimum, best {change, trace, size}, worst
             (likewise), verdict (adopt, gain_is_too_small, loses_too_much, optimum)}]; empty without
             larder
share_of_optimum is null without belady.")]
pub(crate) struct EvictionArgs {
    /// Traces to replay
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub paths: Vec<PathBuf>,
    /// Sizes of the caches, separated by commas
    ///
    /// A size is a percentage of the number of objects in the trace, or a number of objects. Caches with room for
    /// fewer than 32 objects are omitted.
    #[arg(long, value_name = "SIZE,...", default_value = Sizes::DEFAULT)]
    pub sizes: Sizes,
    /// Policies, separated by commas, or all: see below
    #[arg(long, value_name = "NAMES", default_value = "all", value_parser = NamesParser::<PolicyName>::new())]
    pub policies: Names<PolicyName>,
    /// Caches whose lookups are accesses, separated by commas
    ///
    /// The default is page,buffer: a mount stores both in the same frames. For a trace that has neither, the
    /// default is all caches.
    #[arg(long, value_name = "CACHE,...", value_delimiter = ',', value_parser = choice(&CacheKind::ALL, CacheKind::as_str))]
    pub cache: Vec<CacheKind>,
    /// Ignore removals
    #[arg(long)]
    pub ignore_removals: bool,
    #[command(flatten)]
    pub results: ResultArgs,
}

impl Named for PolicyName {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(&self) -> &'static str {
        self.as_str()
    }
}

pub(super) fn run(args: &EvictionArgs) -> Result<ExitCode> {
    let loading = Loading {
        caches: args.cache.clone(),
        ignores_removals: args.ignore_removals,
    };
    let bar = progress(0);
    let workloads: Result<Vec<Workload>, Error> =
        args.paths.iter().map(|path| load(path, &loading)).collect();
    let workloads = workloads.map_err(|error| {
        bar.finish_and_clear();
        failure(&error)
    })?;
    let policies = &args.policies.0;
    set_total(&bar, cells(&workloads, &args.sizes, policies));
    let study = study(&workloads, &args.sizes, policies, || bar.inc(1));
    bar.finish_and_clear();
    for note in study.notes() {
        print_warning(&note);
    }
    write_results(&study, &args.results, |out| print_text(out, &study))
}

fn print_text(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    for trace in 0..study.traces.len() {
        let title = study.trace_title(trace);
        let table = study.miss_table(trace).to_text();
        writeln!(out, "{title}; misses in % of the accesses:\n\n{table}")?;
    }
    if study.summaries().is_empty() {
        return Ok(());
    }
    let table = study.summary_table().to_text();
    write!(out, "Misses relative to larder:\n\n{table}")
}

/// Converts an error of reading a trace to a failure of the command.
fn failure(error: &Error) -> Failure {
    use larder_lab::trace::Error as Trace;
    let message = error.to_string();
    let hint = match error {
        Error::Trace { source, .. } => match source {
            Trace::CutShort | Trace::RowGroup { .. } => {
                "larder lab trace salvage writes the part before the damage to a new trace"
            }
            Trace::Io(cause) if cause.kind() == io::ErrorKind::NotFound => {
                "PATH must name an existing trace"
            }
            other => match rewritten_hint(other) {
                Some(hint) => hint,
                None => return Failure::new(message),
            },
        },
        Error::UnknownFormat(_) => {
            "PATH must be a trace, or a file that larder lab import can read, plain or compressed with gzip or zstd"
        }
        Error::NoLookups { .. } => "omit --cache, or name a cache that the trace has",
        _ => return Failure::new(message),
    };
    Failure::with_hint(message, hint)
}
