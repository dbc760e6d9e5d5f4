//! Parses the number of threads on the command line.

use larder_fuse::MountOptions;
use std::num::NonZeroUsize;

/// Parses a number of threads from 1 to [`MountOptions::MAX_THREADS`].
pub(crate) fn parse(text: &str) -> Result<NonZeroUsize, String> {
    let most = MountOptions::MAX_THREADS;
    let threads = text.parse().ok();
    threads
        .filter(|threads: &NonZeroUsize| threads.get() <= most)
        .ok_or_else(|| format!("'{text}' is not a number of threads from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_threads_out_of_range_is_rejected() {
        assert_eq!(parse("1").map(NonZeroUsize::get), Ok(1));
        assert_eq!(parse("256").map(NonZeroUsize::get), Ok(256));
        assert!(parse("0").is_err());
        for text in ["257", "100000", "99999999999999999999", "-1", "x", ""] {
            assert!(parse(text).unwrap_err().contains("1 to 256"), "{text}");
        }
    }
}
