//! Runs xattr-bench on a volume in this process.

use super::draws::{Draws, bytes_of, last_values};
use super::{ATTRIBUTE, BenchConfig, Case, Commits, Error, Run};
use crate::concurrent::{Spent, run_concurrently};
use larder::{Ino, Volume, XattrMode};

/// Runs all processes, as threads, on a newly opened volume, and closes it. `all_files` contains the files of each
/// process.
pub(super) fn run(
    volume: &Volume,
    all_files: &[Vec<Ino>],
    case: Case,
    config: &BenchConfig,
) -> Result<Run, Error> {
    let set = |is_measured: bool| -> larder::Result<Spent> {
        let (spent, done) = run_concurrently(case.processes, |process| {
            let files = &all_files[process as usize];
            let draws = Draws::new(case, config, process);
            let [before, measured] = draws.split(config.unmeasured(case));
            let draws = if is_measured { measured } else { before };
            move || set_all(volume, files, draws, config.seed)
        });
        done.into_iter().collect::<larder::Result<()>>()?;
        Ok(spent)
    };
    let commits = || volume.stats().writing.map(|writing| Commits::of(&writing));
    if config.is_warm {
        set(false)?;
    }
    let before = commits();
    let spent = set(true)?;
    let commits = commits().zip(before);
    let commits = commits.map(|(after, before)| after.since(before));
    for (process, files) in (0..).zip(all_files) {
        check(
            volume,
            files,
            process,
            &last_values(case, config, process),
            config.seed,
        )?;
    }
    let stats = volume.stats().attributes;
    volume.close()?;
    Ok(Run {
        elapsed: spent.wall,
        stats,
        commits,
    })
}

fn set_all(volume: &Volume, files: &[Ino], draws: Draws, seed: u64) -> larder::Result<()> {
    for draw in draws {
        let value = bytes_of(draw.value, seed);
        let file = files[draw.file as usize];
        volume.set_xattr(file, ATTRIBUTE.as_bytes(), &value, XattrMode::Any)?;
    }
    Ok(())
}

fn check(
    volume: &Volume,
    files: &[Ino],
    process: u32,
    last: &[Option<u32>],
    seed: u64,
) -> Result<(), Error> {
    for (file, (ino, last)) in files.iter().zip(last).enumerate() {
        let found = volume.xattr(*ino, ATTRIBUTE.as_bytes())?;
        if found != last.map(|value| bytes_of(value, seed).to_vec()) {
            return Err(Error::Lost { process, file });
        }
    }
    Ok(())
}
