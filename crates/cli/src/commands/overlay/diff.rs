//! Lists the paths whose files differ between a base and an overlay.
//!
//! The content of a file is read only where the overlay has changed the disk, or where the two files are at different
//! places of it.

use crate::args::OverlayDiffArgs;
use crate::commands::compare::found::{Found, TROUBLE};
use crate::commands::compare::{Change, Comparison, Difference, Options, Shared, Times, Tree};
use crate::json::{self, Name};
use crate::opening::{format_of, open_image};
use crate::{overlay, remote};
use larder::{Fs, JournalState, Volume};
use larder_console::{Result, write_json};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// How a path differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Added,
    Deleted,
    Modified,
}

impl Kind {
    fn of(difference: &Difference) -> Self {
        match *difference.changes {
            [Change::Added] => Self::Added,
            [Change::Removed] => Self::Deleted,
            _ => Self::Modified,
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Deleted => 'D',
            Self::Modified => 'M',
        }
    }
}

#[derive(Serialize)]
struct JsonDifference {
    change: Kind,
    #[serde(flatten)]
    path: Name,
}

pub(super) fn run(args: &OverlayDiffArgs) -> Result<ExitCode> {
    let with_changes = overlay::with(&args.source, &args.changes)?;
    let mut base = args.source.clone();
    base.volume.format = format_of((&with_changes).into())?;
    let base = open_image(&base)?;
    let changed = open_image(&with_changes)?;
    let shared = match base.info().journal {
        // What was replayed in memory is not on the disk below the overlay.
        JournalState::Recovered { .. } => Shared::Nothing,
        _ => Shared::Base,
    };
    let options = Options {
        times: Times::WithoutDirectories,
        is_brief: true,
    };
    let tree = |volume: Volume, image: &Path| Tree {
        fs: Fs::new(volume),
        image: image.to_owned(),
        root: b"/".to_vec(),
        is_remote: remote::is_remote(&args.source.image),
    };
    let mut found = Found::new(Comparison::new(
        tree(base, &args.source.image),
        tree(changed, &args.changes),
        shared,
        options,
    )?);
    if args.json {
        let listed = found.by_ref().map(|one| JsonDifference {
            change: Kind::of(&one),
            path: Name::new(&one.path),
        });
        write_json(&BTreeMap::from([("changes", json::Stream::new(listed))]))?;
    } else {
        found.print(|one| Kind::of(one).letter())?;
    }
    Ok(if found.has_failures {
        ExitCode::from(TROUBLE)
    } else {
        ExitCode::SUCCESS
    })
}
