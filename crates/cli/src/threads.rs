//! Parses the numbers of threads on the command line.

use larder::OpenOptions;
use larder_fuse::MountOptions;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// Parses the number of threads that answer requests.
pub(crate) fn parse(text: &str) -> Result<NonZeroUsize, String> {
    within(text, NonZeroUsize::MIN, MountOptions::MAX_THREADS)
}

/// Parses the number of threads that read ahead.
pub(crate) fn parse_readahead(text: &str) -> Result<usize, String> {
    within(text, 0, OpenOptions::MAX_READAHEAD_THREADS)
}

fn within<T>(text: &str, least: T, most: usize) -> Result<T, String>
where
    T: FromStr + Copy + Display + Into<usize>,
{
    let threads = text.parse().ok();
    threads
        .filter(|threads: &T| (*threads).into() <= most)
        .ok_or_else(|| format!("'{text}' is not a number of threads from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_threads_out_of_range_is_rejected() {
        assert_eq!(parse("1").map(NonZeroUsize::get), Ok(1));
        assert_eq!(parse("256").map(NonZeroUsize::get), Ok(256));
        assert_eq!(parse_readahead("0"), Ok(0));
        assert_eq!(parse_readahead("256"), Ok(256));
        assert!(parse("0").is_err());
        for text in ["257", "100000", "99999999999999999999", "-1", "x", ""] {
            assert!(parse(text).unwrap_err().contains("1 to 256"), "{text}");
            let refused = parse_readahead(text).unwrap_err();
            assert!(refused.contains("0 to 256"), "{text}");
        }
    }
}
