//! The command `larder cache`: lists images with parts in the disk cache, and removes these parts.

use crate::args::{CacheArgs, CacheCommand, CacheDirArgs};
use crate::remote::{self, CachedImage, RemoteImages};
use larder::Timestamp;
use larder_console::name::escaped;
use larder_console::size::human;
use larder_console::{Failure, Result, time, write_json};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

pub(super) fn run(args: &CacheArgs) -> Result<ExitCode> {
    let images = remote::images().ok_or_else(|| Failure::new("this program has no disk cache"))?;
    match &args.command {
        CacheCommand::Ls(args) => {
            let cached = images.list_cache(args.directory.cache_dir.as_deref())?;
            if args.json {
                print_json(&cached)?;
            } else {
                print_table(&cached)?;
            }
        }
        CacheCommand::Prune(args) => prune(images, &args.directory, args.size)?,
        CacheCommand::Clear(args) => prune(images, &args.directory, 0)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn prune(images: &dyn RemoteImages, directory: &CacheDirArgs, max_bytes: u64) -> Result<()> {
    let pruned = images.prune_cache(directory.cache_dir.as_deref(), max_bytes)?;
    let in_use = if pruned.left_bytes > max_bytes {
        " (in use)"
    } else {
        ""
    };
    writeln!(
        io::stdout().lock(),
        "cached images removed: {} ({}); remaining: {}{in_use}",
        pruned.images,
        human(pruned.bytes),
        human(pruned.left_bytes),
    )?;
    Ok(())
}

fn print_table(cached: &[CachedImage]) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if cached.is_empty() {
        writeln!(out, "the disk cache is empty")?;
        return Ok(out.flush()?);
    }
    writeln!(
        out,
        "{:<16}  {:>9}  {:>9}  {:<6}  image",
        "last use", "stored", "size", "in use"
    )?;
    for image in cached {
        let last_use = Timestamp {
            seconds: image.last_use_s,
            nanoseconds: 0,
        };
        writeln!(
            out,
            "{:<16}  {:>9}  {:>9}  {:<6}  {}",
            time::short(last_use),
            human(image.stored_bytes),
            image.size_bytes.map_or_else(|| "?".to_owned(), human),
            if image.in_use { "yes" } else { "no" },
            image
                .image
                .as_deref()
                .map_or_else(|| "(damaged)".to_owned(), |label| escaped(label.as_bytes())),
        )?;
    }
    Ok(out.flush()?)
}

#[derive(Serialize)]
struct JsonCache<'c> {
    stored_bytes: u64,
    images: &'c [CachedImage],
}

fn print_json(cached: &[CachedImage]) -> Result<()> {
    write_json(&JsonCache {
        stored_bytes: cached.iter().map(|image| image.stored_bytes).sum(),
        images: cached,
    })
}
