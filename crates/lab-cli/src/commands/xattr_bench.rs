//! `larder lab xattr-bench`.

use super::{Results, interrupt, progress, write};
use crate::args::{Names, TargetName, XattrBenchArgs};
use larder::MbCacheVariant;
use larder_console::{Failure, Result};
use larder_fuse::mount_of;
use larder_lab::mke2fs;
use larder_lab::xattr_bench::{self, BenchConfig, Case, Error, Target, Worker, XattrBench};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// What this program is given in place of a command, before the job, to be one process of a bench.
/// People do not run it, so it is no command that help and shells would tell of.
pub(crate) const WORKER: &str = "xattr-bench-worker";

pub(super) fn run(args: &XattrBenchArgs) -> Result<ExitCode> {
    let cases = cases(args)?;
    let (name, targets) = targets(args)?;
    let config = BenchConfig {
        operations: args.ops,
        runs: args.runs,
        seed: args.seed,
    };
    let runs = cases.len() as u64 * targets.len() as u64 * u64::from(args.runs);
    let bar = progress(runs);
    let measured = xattr_bench::measure_all(&name, &targets, &cases, &config, &mut || bar.inc(1));
    bar.finish_and_clear();
    let bench = measured.map_err(|error| failure(&error))?;
    if let (Some(path), [plot]) = (&args.plot, &*bench.plots()) {
        write("--plot", path, &plot.content)?;
    }
    let results = Results {
        json: bench.to_json()?,
        csv: bench.to_csv()?,
        report: bench.report()?,
        text: &|out| print_text(out, &bench),
    };
    results.write(&args.results)?;
    if let Some(warning) = bench.warning() {
        writeln!(io::stderr(), "warning: {warning}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One process of a bench on a directory, which has its job as JSON. Who started it tells of errors.
pub(crate) fn work(job: &OsStr) -> ExitCode {
    let job = serde_json::from_slice(job.as_encoded_bytes());
    match job.map(|job| xattr_bench::work(&job)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn cases(args: &XattrBenchArgs) -> Result<Vec<Case>> {
    let (all_files, all_values) = (args.files(), args.values());
    if args.plot.is_some() && (all_files.len() > 1 || all_values.len() > 1) {
        return Err(Failure::Usage {
            message: "--plot shows one number of files and one number of values".to_owned(),
            hint: Some("write all plots with --output DIR".to_owned()),
        });
    }
    if let Some(path) = &args.plot
        && path.extension() != Some(OsStr::new("svg"))
    {
        return Err(Failure::Usage {
            message: format!(
                "--plot writes SVG, and {} is named otherwise",
                path.display()
            ),
            hint: Some("give a name that ends in .svg".to_owned()),
        });
    }
    let mut cases = Vec::new();
    for values in all_values {
        for &files in &all_files {
            for processes in args.processes() {
                cases.push(Case {
                    processes,
                    files,
                    values,
                });
            }
        }
    }
    Ok(cases)
}

/// What is driven, and what all of it is called.
fn targets(args: &XattrBenchArgs) -> Result<(String, Vec<Target>)> {
    let of_variants = |target: fn(MbCacheVariant) -> Target| {
        let variants = args.variant.clone().unwrap_or_else(Names::all);
        variants.0.into_iter().map(target).collect()
    };
    match &args.target {
        TargetName::Engine => Ok(("engine".to_owned(), of_variants(Target::Engine))),
        TargetName::Volume => Ok(("volume".to_owned(), of_variants(Target::Volume))),
        TargetName::Directory(path) => {
            let target = directory(path, args.variant.is_some())?;
            Ok((described(path)?, vec![target]))
        }
    }
}

/// A directory, and the type of the file system that it lies in.
fn described(path: &Path) -> Result<String> {
    let mount = mount_of(path)?;
    let fs_type = mount.map_or_else(|| "?".to_owned(), |mount| mount.fs_type);
    Ok(format!("{} ({fs_type})", path.display()))
}

fn directory(path: &Path, has_variant: bool) -> Result<Target> {
    if has_variant {
        return Err(Failure::Usage {
            message: "--variant does not go with a directory: its mount has chosen".to_owned(),
            hint: Some(
                "choose when you mount: larder mount -o mbcache=NAME, or -o no_mbcache for the \
                 kernel's ext4"
                    .to_owned(),
            ),
        });
    }
    if !path.is_dir() {
        return Err(Failure::with_hint(
            format!("{} is not a directory", path.display()),
            "--target must be engine, volume, or a directory of a mounted file system",
        ));
    }
    Ok(Target::Directory {
        path: path.to_owned(),
        worker: Worker {
            interrupt: Some(Arc::new(interrupt()?)),
            ..worker()?
        },
    })
}

/// This program, once more.
pub(super) fn worker() -> Result<Worker> {
    Ok(Worker {
        program: std::env::current_exe()?,
        arguments: vec![WORKER.to_owned()],
        interrupt: None,
    })
}

fn print_text(out: &mut dyn Write, bench: &XattrBench) -> io::Result<()> {
    writeln!(out, "{}", bench.title())?;
    if bench.is_matrix() {
        writeln!(out, "Medians of the runs in seconds; * is the fastest")?;
        write!(out, "\n{}", bench.medians().to_text())?;
    } else {
        write!(out, "\n{}", bench.table().to_text())?;
    }
    if let Some(sizes) = bench.entry_sizes() {
        write!(out, "\n{}", sizes.to_text())?;
    }
    Ok(())
}

/// What a bench that cannot be run means for the command line.
fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    let hint = match error {
        Error::Image(mke2fs::Error::Missing) => {
            "install e2fsprogs, or give --target engine or a directory"
        }
        Error::Image(mke2fs::Error::Failed { .. }) => "give less with --processes or --files",
        Error::Directory { .. } => {
            "--target must name a directory that can be written, with room for the files"
        }
        Error::Attribute { source, .. }
        | Error::Told {
            source: Some(source),
            ..
        } => match source.kind() {
            io::ErrorKind::Unsupported => {
                "--target must lie on a file system with attributes: ext4 mounted with user_xattr"
            }
            io::ErrorKind::StorageFull => {
                "files that share nothing take a block each: give less with --processes or --files"
            }
            _ => return Failure::new(message),
        },
        _ => return Failure::new(message),
    };
    Failure::with_hint(message, hint)
}
