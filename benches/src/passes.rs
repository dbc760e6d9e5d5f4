//! Passes: a cold read is repeated, and the result is the median of the repetitions.
//!
//! A virtual machine can return free memory to its host some two seconds after it was freed
//! (`page_reporting`). When the memory is used again, the host provides it at only 260 to 500 MB/s, which
//! is slower than reads from the device. Between two passes, the page cache is evicted and filled again
//! within less than two seconds. Therefore most passes use memory that was not returned.

use anyhow::Result;

use crate::work::Reading;

/// How often each side reads.
pub(crate) const PASSES: usize = 5;

/// Calls `pass` [`PASSES`] times. Returns the result with the median `key`.
pub(crate) fn median_by<T>(pass: impl FnMut() -> Result<T>, key: impl Fn(&T) -> f64) -> Result<T> {
    let results: Result<Vec<_>> = std::iter::repeat_with(pass).take(PASSES).collect();
    let mut results = results?;
    results.sort_by(|one, other| key(one).total_cmp(&key(other)));
    Ok(results.swap_remove(PASSES / 2))
}

/// Calls `read` [`PASSES`] times. Returns the reading with the median time. Its number of wrong pages is
/// the sum over all passes.
pub(crate) fn median_pass(mut read: impl FnMut() -> Result<Reading>) -> Result<Reading> {
    let mut wrong_pages = 0;
    let counted = || {
        let reading = read()?;
        wrong_pages += reading.wrong_pages;
        Ok(reading)
    };
    let reading = median_by(counted, |reading: &Reading| reading.seconds)?;
    Ok(Reading {
        wrong_pages,
        ..reading
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_pass_has_the_wrong_pages_of_all_passes() {
        let mut seconds = [5.0, 1.0, 4.0, 2.0, 3.0].into_iter();
        let read = || {
            Ok(Reading {
                seconds: seconds.next().expect("there are five passes"),
                wrong_pages: 2,
                ..Reading::default()
            })
        };
        let reading = median_pass(read).unwrap();
        assert_eq!((reading.seconds, reading.wrong_pages), (3.0, 10));
    }

    #[test]
    fn failed_pass_fails_all() {
        let mut passes = 0;
        let pass = || {
            passes += 1;
            anyhow::ensure!(passes < PASSES);
            Ok(1.0)
        };
        assert!(median_by(pass, |value| *value).is_err());
    }
}
