//! The recommended options of a mount, and the time that they are predicted to save.

use crate::run_report::as_f64;
use crate::statistics::Interval;
use serde::Serialize;

/// A change that saves less than this share of the recording is not recommended.
pub const MIN_SHARE: f64 = 0.01;

/// The recommendation for one part of the configuration: to set options, or to keep the current ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What was examined: `memory`, `readahead`, `tables` or `mbcache`.
    pub part: &'static str,
    /// The options that replace the current ones, each in the form `key=value`; empty if the current options
    /// should be kept.
    pub options: Vec<String>,
    /// The predicted saving of the best alternative, in nanoseconds over the whole recording. It is present
    /// even if the alternative is not recommended. `None` if the trace does not contain the necessary data.
    pub saved_ns: Option<Interval>,
    /// The reason for the recommendation, as a sentence.
    pub reason: String,
}

impl Change {
    /// Returns whether a change is recommended.
    #[must_use]
    pub fn is_recommended(&self) -> bool {
        !self.options.is_empty()
    }
}

/// The recommended options of a mount.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The current options of `-o`, each in the form `key` or `key=value`. Empty: all options have their
    /// defaults.
    pub current: Vec<String>,
    /// The recommended options of `-o`: the current options, with those of the recommended changes. Equal to
    /// `current` if no change is recommended.
    pub options: Vec<String>,
    /// The duration of the recording in nanoseconds.
    pub recording_ns: u64,
    /// The predicted saving of all recommended changes together, in nanoseconds over the whole recording, with
    /// its 95% confidence interval. 0 if no change is recommended.
    pub saved_ns: Interval,
    /// One element for each part of the configuration that was examined.
    pub changes: Vec<Change>,
}

impl Recommendation {
    /// Combines the changes of the parts.
    pub(super) fn new(current: Vec<String>, recording_ns: u64, changes: Vec<Change>) -> Self {
        let recommended = changes.iter().filter(|change| change.is_recommended());
        let (mut value, mut low, mut high) = (0.0, Some(0.0), Some(0.0));
        let mut options = current.clone();
        for change in recommended {
            if let Some(saved) = change.saved_ns {
                value += saved.value;
                low = low.zip(saved.low).map(|(sum, one)| sum + one);
                high = high.zip(saved.high).map(|(sum, one)| sum + one);
            }
            for option in &change.options {
                replace(&mut options, option);
            }
        }
        Self {
            current,
            options,
            recording_ns,
            saved_ns: Interval { value, low, high },
            changes,
        }
    }

    /// Returns whether the current options should be kept.
    #[must_use]
    pub fn keeps_current(&self) -> bool {
        self.options == self.current
    }

    /// Returns the value of `-o`, or `None` if there are no options.
    #[must_use]
    pub fn mount_option(&self) -> Option<String> {
        (!self.options.is_empty()).then(|| self.options.join(","))
    }

    /// Returns the predicted saving in seconds over the whole recording, with its interval.
    #[must_use]
    pub fn saved_s(&self) -> Interval {
        self.saved_ns.map(|ns| ns / 1e9)
    }

    /// Returns the duration of the recording in seconds.
    #[must_use]
    pub fn recording_s(&self) -> f64 {
        as_f64(self.recording_ns) / 1e9
    }
}

/// Returns a saving as a share of the recording.
pub(super) fn share(saved_ns: Interval, recording_ns: u64) -> Interval {
    let recording = as_f64(recording_ns.max(1));
    saved_ns.map(|ns| ns / recording)
}

/// Returns whether a saving is large and certain enough to recommend the change that causes it.
pub(super) fn is_worth_it(saved_ns: Interval, recording_ns: u64) -> bool {
    let share = share(saved_ns, recording_ns);
    share.value >= MIN_SHARE && share.low.is_some_and(|low| low > 0.0)
}

/// Sets `option` in the list: replaces the last option with the same key, which is the one that applies, or appends it.
fn replace(options: &mut Vec<String>, option: &str) {
    let key = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
    match options.iter_mut().rfind(|one| key(one) == key(option)) {
        Some(present) => option.clone_into(present),
        None => options.push(option.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(options: &[&str], saved: [f64; 3]) -> Change {
        let [low, value, high] = saved;
        Change {
            part: "memory",
            options: options.iter().map(|&option| option.to_owned()).collect(),
            saved_ns: Some(Interval {
                value,
                low: Some(low),
                high: Some(high),
            }),
            reason: String::new(),
        }
    }

    #[test]
    fn recommendation_replaces_current_options_and_adds_savings_of_recommended_changes() {
        let current = ["ro", "cache_size=64M"].map(str::to_owned).to_vec();
        let changes = vec![
            change(&["cache_size=256M"], [1.0, 2.0, 3.0]),
            change(&[], [10.0, 20.0, 30.0]),
            change(&["readahead=modern", "readahead_max=1M"], [4.0, 5.0, 6.0]),
        ];
        let all = Recommendation::new(current.clone(), 100, changes);
        assert_eq!(
            all.mount_option().unwrap(),
            "ro,cache_size=256M,readahead=modern,readahead_max=1M"
        );
        let saved = all.saved_ns;
        assert_eq!(
            (saved.low, saved.value, saved.high),
            (Some(5.0), 7.0, Some(9.0))
        );
        assert!(!all.keeps_current());
        let twice = ["cache_size=1M", "cache_size=64M"].map(str::to_owned);
        let replaced = Recommendation::new(
            twice.to_vec(),
            100,
            vec![change(&["cache_size=256M"], [1.0; 3])],
        );
        assert_eq!(
            replaced.mount_option().unwrap(),
            "cache_size=1M,cache_size=256M"
        );
        let none = Recommendation::new(current.clone(), 100, Vec::new());
        assert!(none.keeps_current() && none.saved_ns.value.abs() < f64::EPSILON);
    }

    #[test]
    fn saving_is_worth_it_from_one_percent_and_above_noise() {
        let saved = |low, value| Interval {
            value,
            low,
            high: Some(1e9),
        };
        assert!(is_worth_it(saved(Some(1.0), 10.0), 1000));
        assert!(!is_worth_it(saved(Some(1.0), 9.9), 1000), "below 1%");
        assert!(!is_worth_it(saved(Some(0.0), 100.0), 1000), "noise");
        assert!(
            !is_worth_it(saved(None, 100.0), 1000),
            "an unknown interval"
        );
    }
}
