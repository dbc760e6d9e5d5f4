//! The arguments of `larder find`.

use super::FilesArgs;
use crate::criteria::{AgeCriterion, KindCriterion, SizeCriterion};
use clap::Args;
use larder::Timestamp;
use larder_console::{Failure, time};
use std::ffi::OsString;

/// Search for files in an image
///
/// The command examines each PATH and, if it is a directory, everything below it. It prints the paths of the files that
/// meet all criteria, or of all files if there are no criteria. Symbolic links are not followed. Paths are printed in
/// the order in which the directories of the image list them.
#[derive(Debug, Args)]
#[command(
    mut_arg("paths", |arg| arg.help("Paths or patterns inside the image [default: /]")),
    override_usage = "larder find [OPTIONS] <IMAGE> [PATH]...\n       \
                      larder find [OPTIONS] <IMAGE>:/<PATH>...",
    after_help = "\
Examples:
  larder find disk.img
  larder find disk.img:/etc --name '*.conf'
  larder find disk.img /home /srv --type f --size +100M
  larder find disk.img --type f --mtime -7
  larder find --json disk.img:/bin --type l | jq -r '.entries[].target'

JSON: entries. Each entry has path and the keys of larder stat --json except
xattrs. If a path is not valid UTF-8, its entry also has path_hex, the bytes of
the path in hexadecimal."
)]
pub(crate) struct FindArgs {
    #[command(flatten)]
    pub files: FilesArgs,
    /// Only files whose name matches GLOB
    ///
    /// In GLOB, * matches any characters, including a dot at the beginning of the name. ? matches one character, and [...]
    /// matches one of the characters in the brackets. A backslash removes the special meaning of the following character.
    /// Quote GLOB, so that the shell does not expand it.
    #[arg(long, value_name = "GLOB")]
    pub name: Option<OsString>,
    /// Only files of these types (f,d,l,b,c,p,s)
    ///
    /// f: regular file. d: directory. l: symbolic link. b: block device. c: character device. p: FIFO. s: socket. Several
    /// letters can be given, as in f,l or fl.
    #[arg(long = "type", value_name = "LETTERS", value_parser = KindCriterion::parse)]
    pub kind: Option<KindCriterion>,
    /// Only files larger (+) or smaller (-) than N units
    ///
    /// The units are c (bytes), b (512 bytes), k (KiB), M (MiB) and G (GiB) [default: b]. As in find(1), sizes are first
    /// rounded up to whole units, so -1M matches only empty files. Without a sign, the rounded size must equal N.
    #[arg(
        long,
        value_name = "[+-]N[bckMG]",
        allow_hyphen_values = true,
        value_parser = SizeCriterion::parse
    )]
    pub size: Option<SizeCriterion>,
    /// Modified more (+) or less (-) than N days ago
    ///
    /// As in find(1), fractions of a day are ignored, so +1 means at least two days ago. Without a sign, the number of
    /// whole days must equal N.
    #[arg(
        long,
        value_name = "[+-]N",
        allow_hyphen_values = true,
        value_parser = AgeCriterion::parse
    )]
    pub mtime: Option<AgeCriterion>,
    /// Only files modified after TIME, such as 2026-05-01
    ///
    /// TIME can include the time of day, as in 2026-05-01T12:30:00Z. A time without Z or an offset is in the local time zone.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub newer_than: Option<Timestamp>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl FindArgs {
    /// Returns the failure if `args` contain an option of find(1) with a single hyphen, such as `-name`.
    pub(crate) fn single_hyphen(args: &[OsString]) -> Option<Failure> {
        const OPTIONS: [(&str, &str); 5] = [
            ("-name", "--name"),
            ("-type", "--type"),
            ("-size", "--size"),
            ("-mtime", "--mtime"),
            ("-newermt", "--newer-than"),
        ];
        let (wrong, right) = OPTIONS
            .into_iter()
            .find(|(wrong, _)| args.iter().any(|arg| arg == wrong))?;
        Some(Failure::usage_with_hint(
            format!("unexpected argument '{wrong}'"),
            format!("write {right}"),
        ))
    }
}
