//! Completion of mount options.

use crate::mount_options::{SWITCHES, VALUED};
use larder::{MbCacheVariant, PolicyName, Tables};
use larder_console::complete::{Candidate, Completion, Kind};
use larder_fuse::Transport;
use larder_image::ImageFormat;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Returns the completion of the last of the mount options in `text`, or of its value.
pub(super) fn complete(text: &[u8]) -> Completion {
    let start = text.iter().rposition(|&byte| byte == b',');
    let start = start.map_or(0, |at| at + 1);
    let option = text.get(start..).unwrap_or_default();
    let Some(equals) = option.iter().position(|&byte| byte == b'=') else {
        let valued = VALUED.iter().map(|name| format!("{name}="));
        let names = SWITCHES.iter().map(ToString::to_string).chain(valued);
        return Completion::after(text, start, names.map(Candidate::new));
    };
    let kept_bytes = start + equals + 1;
    let name = option.get(..equals).unwrap_or_default();
    let name = OsStr::from_bytes(name).to_str().unwrap_or_default();
    let files = match name {
        "overlay" | "profile" | "profile_record" | "url_file" => Some(Kind::Files),
        "cache_dir" => Some(Kind::Directories),
        _ => None,
    };
    match files {
        Some(kind) => Completion {
            kept_bytes,
            ..Completion::files(kind)
        },
        None => Completion::after(
            text,
            kept_bytes,
            values(name).into_iter().map(Candidate::new),
        ),
    }
}

/// Returns the values of the mount option `name`, if they have names.
fn values(name: &str) -> Vec<&'static str> {
    match name {
        "readahead" => PolicyName::ALL
            .iter()
            .map(|policy| policy.as_str())
            .collect(),
        "transport" => Transport::NAMES.into(),
        "format" => ImageFormat::ALL.map(ImageFormat::as_str).into(),
        "data" => vec!["ordered", "writeback", "journal"],
        "errors" => vec!["continue", "remount-ro", "abort", "panic"],
        "mbcache" => MbCacheVariant::ALL.map(MbCacheVariant::as_str).into(),
        "tables" => Tables::NAMED.iter().map(|(name, _)| *name).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use crate::mount_options::Options;
    use clap::CommandFactory;

    fn candidates(text: &str) -> Vec<String> {
        let found = complete(text.as_bytes());
        let kept = &text[..found.kept_bytes];
        let whole = |one: Candidate| format!("{kept}{}", String::from_utf8(one.text).unwrap());
        found.candidates.into_iter().map(whole).collect()
    }

    #[test]
    fn last_option_and_its_value_are_completed() {
        assert_eq!(candidates("no_"), ["no_mbcache"]);
        assert_eq!(candidates("ro,da"), ["ro,data="]);
        assert_eq!(candidates("ro,data=o,tra"), ["ro,data=o,transport="]);
        assert_eq!(candidates("ro,data=w"), ["ro,data=writeback"]);
        assert_eq!(candidates("ro,unknown="), [""; 0]);
        let overlay = complete(b"ro,overlay=/tmp/x");
        assert_eq!((overlay.kind, overlay.kept_bytes), (Kind::Files, 11));
    }

    #[test]
    fn every_completed_option_is_accepted() {
        for name in SWITCHES {
            let mut options = Options::default();
            assert!(options.add_list(name.as_ref(), false).is_ok(), "{name}");
        }
        for name in VALUED {
            for value in values(name) {
                let mut options = Options::default();
                let option = format!("{name}={value}");
                assert!(options.add_list(option.as_ref(), false).is_ok(), "{option}");
            }
        }
    }

    /// The help shows the options at the beginnings of its rows. Those that have no effect are not completed.
    #[test]
    fn every_option_of_the_help_is_completed() {
        let cli = Cli::command();
        let mount = cli.find_subcommand("mount").unwrap();
        let help = mount.get_after_help().unwrap().to_string();
        let (_, rows) = help.split_once("Mount options").unwrap();
        let (rows, _) = rows.split_once("\n\n").unwrap();
        let known: Vec<String> = candidates("");
        let rows = rows
            .lines()
            .filter(|row| row.starts_with("  ") && !row.starts_with("   "));
        let names = rows
            .flat_map(|row| row.split([',', ' ']))
            .filter(|name| !name.is_empty());
        let names: Vec<&str> = names.take_while(|&name| name != "nobarrier").collect();
        assert!(names.len() > 30, "{names:?}");
        for name in names {
            let name = name.split_inclusive('=').next().unwrap();
            assert!(known.iter().any(|known| known == name), "{name}");
        }
    }
}
