//! `larder lab hash`.

use super::{Results, progress, rewritten_hint};
use crate::args::{HashArgs, KeysArgs};
use indicatif::{ProgressBar, ProgressStyle};
use larder::CacheKind;
use larder::tables::Finder;
use larder_console::{Failure, Result, tell_warning};
use larder_lab::hash::{
    self, Combination, Error, Functions, HashReport, Keys, Room, Sizes, Source, Surveys, TraceFile,
    Wanted, room_of,
};
use larder_lab::trace::Tolerance;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Keys that are made up, if it is not said how many.
const MADE_UP_KEYS: u32 = 100_000;

pub(super) fn run(args: &HashArgs) -> Result<ExitCode> {
    let (source, caches) = source(&args.keys, &args.cache)?;
    let wanted = wanted(&args.keys, &caches);
    let surveys = survey(&*source, wanted, &args.cache)?;
    let combinations = combinations(&surveys, &args.functions, &args.bits)?;
    let events = source.events().saturating_mul(combinations.len() as u64);
    let bar = replaying(events, "{bar:30} {percent}%, {elapsed}");
    let tick = &mut |events| bar.inc(events);
    let outcomes = hash::replay(&*source, wanted, &surveys, &combinations, tick);
    bar.finish_and_clear();
    let outcomes = outcomes.map_err(|error| failure(&error))?;
    let report = HashReport::new(&*source, wanted, &surveys, &outcomes);
    let results = Results {
        json: report.to_json()?,
        csv: report.to_csv()?,
        report: report.report()?,
        text: &|out| print_text(out, &report, args.histograms),
    };
    results.write(&args.results)?;
    Ok(ExitCode::SUCCESS)
}

/// A bar of events replayed, of which there are `total` or, where this is 0, who knows how many.
pub(super) fn replaying(total: u64, template: &str) -> ProgressBar {
    let bar = progress(total);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Where keys are from, and the caches whose keys are asked for.
fn source(args: &KeysArgs, caches: &[CacheKind]) -> Result<(Box<dyn Source>, Vec<CacheKind>)> {
    if let Some(kind) = args.keys {
        let cache = match caches {
            [] => kind.cache(),
            [cache] => *cache,
            _ => {
                return Err(Failure::Usage {
                    message: "keys made up are of one cache".to_owned(),
                    hint: Some("name one cache with --cache, or none".to_owned()),
                });
            }
        };
        let objects = args.objects.unwrap_or(MADE_UP_KEYS);
        let keys = Keys::new(kind, cache, objects, args.seed);
        return Ok((Box::new(keys), vec![cache]));
    }
    // The command line asks for one or the other.
    let path = args.trace.as_deref().unwrap_or(Path::new(""));
    let trace = open(path, args.salvage)?;
    let caches = match caches {
        [] => CacheKind::ALL.to_vec(),
        caches => caches.to_vec(),
    };
    Ok((Box::new(trace), caches))
}

/// The trace at `path`; warns of what is missing of it.
pub(super) fn open(path: &Path, salvage: bool) -> Result<TraceFile> {
    let tolerance = if salvage {
        Tolerance::UpToLastRowGroup
    } else {
        Tolerance::Whole
    };
    let trace = TraceFile::open(path, tolerance).map_err(|error| failure(&error))?;
    let losses = trace.losses();
    if !losses.are_none() {
        tell_warning(&format!("{}: {losses}", trace.title()));
    }
    Ok(trace)
}

/// The tables of `caches`, with the objects that are asked for.
fn wanted(args: &KeysArgs, caches: &[CacheKind]) -> Wanted {
    caches.iter().fold(Wanted::default(), |wanted, cache| {
        let room = match (args.memory, args.objects) {
            (Some(bytes), _) => Room::Objects(room_of(*cache, bytes)),
            (None, Some(objects)) if args.keys.is_none() => Room::Objects(objects.into()),
            _ => Room::AsTold,
        };
        wanted.and(*cache, room)
    })
}

/// Surveys the trace, in which those caches must be that were asked for by name.
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
            // Trees have no buckets, and chains of roots as a mount would have.
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
            "none of the functions is for a cache that is asked for and in the trace",
            "name a function of that cache, or another --cache: larder lab list shows what is for which",
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

/// What a trace that cannot be replayed means for the command line.
pub(super) fn failure(error: &Error) -> Failure {
    use larder_lab::trace::Error as Trace;
    let message = error.to_string();
    let hint = match error {
        Error::Trace { source, .. } => match source {
            Trace::CutShort => "read it up to the last whole row group with --salvage",
            Trace::Io(cause) if cause.kind() == io::ErrorKind::NotFound => {
                "--trace must name a trace; larder lab hash --keys pages needs none"
            }
            Trace::NotParquet | Trace::Column { .. } => {
                "--trace must name a trace; larder lab import makes one of other formats"
            }
            other => match rewritten_hint(other) {
                Some(hint) => hint,
                None => return Failure::new(message),
            },
        },
        Error::Memory { .. } => "give fewer --bits, or less room with --memory or --objects",
        Error::NoLookups(_) => "leave --cache out to see which caches the trace has",
        _ => return Failure::new(message),
    };
    Failure::with_hint(message, hint)
}
