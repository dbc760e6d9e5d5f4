//! The results of a verification, for people and programs.

use super::config::{Temperature, VerifyConfig, listed};
use super::sample::Sample;
use crate::output::{BarPlot, Report, ReportFile, Series, Table, csv_text};
use crate::run_report::ratio;
use crate::statistics::{Figures, Interval, mean};
use serde::Serialize;
use std::fmt::Write as _;
use std::io;

const PLOT_NAME: &str = "verification.svg";

/// The runs with the same options.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The mount options.
    pub options: Vec<String>,
    /// The runs, in the order of the pairs.
    pub samples: Vec<Sample>,
}

/// The measured effect of the recommended options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The command is faster with the recommended options.
    Faster,
    /// The command is slower with the recommended options.
    Slower,
    /// The interval of the difference contains 0.
    NoDifference,
}

/// A measurement whose interval is wider than this multiple of the predicted saving does not confirm the prediction.
const MAX_WIDTH: f64 = 2.0;

/// What the measurement says about the prediction.
///
/// The share of hits is computed over hits and misses only. Misses are [`TooOptimistic`](Self::TooOptimistic) and
/// [`TooPessimistic`](Self::TooPessimistic).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The advice is to keep the current options, so there is nothing to verify.
    Keep,
    /// One of the intervals is unknown. Or they overlap, but the measured interval would agree with nearly any
    /// prediction: it contains both 0 and the predicted interval, or is wider than twice the predicted saving.
    Inconclusive,
    /// The intervals overlap, and the measurement is not inconclusive.
    Hit,
    /// The command was slower than predicted, relative to the current options.
    TooOptimistic,
    /// The command was faster than predicted, relative to the current options.
    TooPessimistic,
}

/// The results of a verification.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verified {
    /// The image.
    pub image: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Whether the pages of the image were evicted before each run.
    pub is_cold: bool,
    /// The runs with the current options.
    pub current: Side,
    /// The runs with the recommended options.
    pub recommended: Side,
    /// The mean difference of the times of the command in seconds; positive if the recommended options save time.
    pub saved_s: Interval,
    /// The saved share of the time with the current options.
    pub saved_share: Interval,
    /// The effect.
    pub verdict: Verdict,
    /// The predicted saving in seconds, if there is a prediction.
    pub predicted_s: Option<Interval>,
    /// The predicted saving as a share of the recording, if there is a prediction.
    pub predicted_share: Option<Interval>,
    /// Whether the prediction holds, if there is one.
    pub outcome: Option<Outcome>,
}

impl Outcome {
    /// Compares a predicted with a measured saving.
    fn of(predicted: Interval, measured: Interval) -> Self {
        let ends = |interval: Interval| interval.low.zip(interval.high);
        let (Some((predicted_low, predicted_high)), Some((low, high))) =
            (ends(predicted), ends(measured))
        else {
            return Self::Inconclusive;
        };
        let contains = |from: f64, to: f64| low <= from && to <= high;
        if high < predicted_low {
            Self::TooOptimistic
        } else if low > predicted_high {
            Self::TooPessimistic
        } else if contains(0.0, 0.0) && contains(predicted_low, predicted_high)
            || high - low > MAX_WIDTH * predicted.value.abs()
        {
            Self::Inconclusive
        } else {
            Self::Hit
        }
    }

    /// Returns the outcome as a clause.
    fn as_text(self) -> &'static str {
        match self {
            Self::Keep => "the options are the same, so there is nothing to verify",
            Self::Inconclusive => {
                "the measurement is inconclusive: an interval is unknown, or the measured one is too wide to confirm or \
                 refute the prediction (more pairs make it narrower)"
            }
            Self::Hit => "the prediction agrees with the measurement",
            Self::TooOptimistic => "the prediction was too optimistic",
            Self::TooPessimistic => "the prediction was too pessimistic",
        }
    }
}

impl Verified {
    pub(super) fn new(config: &VerifyConfig, pairs: &[(Sample, Sample)]) -> Self {
        let walls: Vec<(f64, f64)> = pairs
            .iter()
            .map(|(current, recommended)| (current.wall_s, recommended.wall_s))
            .collect();
        let saved_s = Interval::of_paired_difference(&walls);
        let current: Vec<f64> = walls.iter().map(|(current, _)| *current).collect();
        let current_s = mean(&current);
        // A separately computed interval of the share could contradict the interval of the difference.
        let saved_share = saved_s.map(|saved| saved / current_s);
        let verdict = match saved_s {
            saved if saved.may_be_zero() => Verdict::NoDifference,
            saved if saved.value > 0.0 => Verdict::Faster,
            _ => Verdict::Slower,
        };
        let side = |options: &[String], sample: fn(&(Sample, Sample)) -> Sample| Side {
            options: options.to_vec(),
            samples: pairs.iter().map(sample).collect(),
        };
        let text = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
        Self {
            image: config.image.display().to_string(),
            command: config.command.iter().map(text).collect(),
            is_cold: config.temperature == Temperature::Cold,
            current: side(&config.current, |pair| pair.0),
            recommended: side(&config.recommended, |pair| pair.1),
            saved_s,
            saved_share,
            verdict,
            predicted_s: None,
            predicted_share: None,
            outcome: None,
        }
    }

    /// Adds a prediction of the time that is saved, for a recording of `recording_s` seconds.
    ///
    /// The seconds are compared, because the shares have different denominators: the recording also contains the time
    /// before and after the command, and may have run on a slower mount.
    #[must_use]
    pub fn with_prediction(self, predicted_s: Interval, recording_s: f64) -> Self {
        let keeps_current = self.recommended.options == self.current.options;
        let outcome = if keeps_current {
            Outcome::Keep
        } else {
            Outcome::of(predicted_s, self.saved_s)
        };
        Self {
            predicted_s: Some(predicted_s),
            predicted_share: Some(predicted_s.map(|saved| ratio(saved, recording_s))),
            outcome: Some(outcome),
            ..self
        }
    }

    /// Returns the result as sentences.
    #[must_use]
    pub fn summary(&self) -> String {
        let saved = format!(
            "{}; {} of the time of the command",
            seconds(self.saved_s),
            percent(self.saved_share)
        );
        let mut text = match self.verdict {
            Verdict::NoDifference => format!(
                "No measurable difference: the recommended options save {saved}, and the interval contains 0.\n"
            ),
            Verdict::Faster => format!("The recommended options save {saved}.\n"),
            Verdict::Slower => {
                format!("The recommended options are slower: they save {saved}.\n")
            }
        };
        if let (Some(predicted), Some(share), Some(outcome)) =
            (self.predicted_s, self.predicted_share, self.outcome)
        {
            let (saved, share, outcome) = (seconds(predicted), percent(share), outcome.as_text());
            let _ = writeln!(
                text,
                "Predicted: {saved}; {share} of the recording; {outcome}."
            );
        }
        text
    }

    /// Returns a table with the times of both sides.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(
            "options | command (s): | deviation: | processor (s): | server (s): | unmount (s):",
        );
        for (name, side) in [
            ("current", &self.current),
            ("recommended", &self.recommended),
        ] {
            let figures = |value: fn(&Sample) -> f64| {
                let values: Vec<f64> = side.samples.iter().map(value).collect();
                Figures::of(&values)
            };
            let wall = figures(|sample| sample.wall_s);
            let mean = |value: fn(&Sample) -> f64| format!("{:.3}", figures(value).mean);
            table.push([
                format!("{name}: {}", listed(&side.options)),
                format!("{:.3}", wall.mean),
                wall.s.map_or_else(String::new, |s| format!("{s:.3}")),
                mean(|sample| sample.command_processor_s),
                mean(|sample| sample.server_processor_s),
                mean(|sample| sample.unmount_s),
            ]);
        }
        table
    }

    /// Returns a line that describes the measurement.
    #[must_use]
    pub fn title(&self) -> String {
        format!(
            "{} on {}: {} pairs, {}",
            self.command.join(" "),
            self.image,
            self.current.samples.len(),
            if self.is_cold { "cold" } else { "warm" },
        )
    }
}

impl Report for Verified {
    const NAME: &'static str = "verification";
    const TITLE: &'static str = "Mount options measured";

    fn body(&self) -> String {
        format!(
            "{}\n\n{}\n{}\n![Times of the command]({PLOT_NAME})\n",
            self.title(),
            self.table().to_markdown(),
            self.summary()
        )
    }

    /// Returns one line for each run.
    fn to_csv(&self) -> io::Result<String> {
        let sides = [
            ("current", &self.current),
            ("recommended", &self.recommended),
        ];
        let lines = sides.into_iter().flat_map(|(name, side)| {
            (1..)
                .zip(&side.samples)
                .map(move |(pair, sample): (u32, _)| {
                    [
                        name.to_owned(),
                        listed(&side.options),
                        pair.to_string(),
                        sample.wall_s.to_string(),
                        sample.command_processor_s.to_string(),
                        sample.server_processor_s.to_string(),
                        sample.unmount_s.to_string(),
                    ]
                })
        });
        let head = "side,options,pair,wall_s,command_processor_s,server_processor_s,unmount_s";
        csv_text(head, lines)
    }

    fn plots(&self) -> Vec<ReportFile> {
        let walls = |side: &Side| {
            side.samples
                .iter()
                .map(|sample| sample.wall_s)
                .collect::<Vec<_>>()
        };
        let plot = BarPlot {
            title: "Time of the command in each pair".to_owned(),
            value: "seconds".to_owned(),
            groups: (1..=self.current.samples.len())
                .map(|pair| pair.to_string())
                .collect(),
            series: vec![
                Series::new("current", walls(&self.current)),
                Series::new("recommended", walls(&self.recommended)),
            ],
        };
        vec![ReportFile::new(PLOT_NAME, plot.to_svg())]
    }
}

/// Formats an interval of seconds.
fn seconds(interval: Interval) -> String {
    with_ends(interval, |value| format!("{value:.3}"), " s")
}

/// Formats an interval of shares as percent.
fn percent(interval: Interval) -> String {
    with_ends(interval, |value| format!("{:.1}", value * 100.0), "%")
}

fn with_ends(interval: Interval, text: impl Fn(f64) -> String, unit: &str) -> String {
    let value = text(interval.value);
    match (interval.low, interval.high) {
        (Some(low), Some(high)) => format!("{value}{unit} ({} to {}{unit})", text(low), text(high)),
        _ => format!("{value}{unit} (interval unknown)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn config() -> VerifyConfig {
        VerifyConfig {
            larder: PathBuf::from("larder"),
            image: PathBuf::from("disk.img"),
            command: vec!["find".into(), ".".into()],
            current: Vec::new(),
            recommended: vec!["cache_size=256M".to_owned()],
            pairs: 5,
            temperature: Temperature::Cold,
            scratch: PathBuf::from("/tmp"),
        }
    }

    fn verified(walls: [(f64, f64); 5]) -> Verified {
        let sample = |wall_s| Sample {
            wall_s,
            command_processor_s: 0.5,
            server_processor_s: 0.25,
            unmount_s: 0.0,
        };
        let pairs = walls.map(|(one, other)| (sample(one), sample(other)));
        Verified::new(&config(), &pairs)
    }

    const FASTER: [(f64, f64); 5] = [(2.0, 1.0), (2.1, 1.1), (1.9, 0.9), (2.0, 1.05), (2.0, 1.0)];

    #[test]
    fn clear_difference_has_an_interval_without_zero() {
        let verified = verified(FASTER);
        assert_eq!(verified.verdict, Verdict::Faster);
        assert!((verified.saved_s.value - 0.99).abs() < 1e-9);
        let share = verified.saved_share;
        assert!((0.48..0.52).contains(&share.value), "{share:?}");
        assert!(share.low.unwrap() < share.value && share.value < share.high.unwrap());
        let summary = verified.summary();
        assert!(
            summary.starts_with("The recommended options save 0.990 s ("),
            "{summary}"
        );
        let swapped = FASTER.map(|(one, other)| (other, one));
        let slower = super::tests::verified(swapped);
        assert_eq!(slower.verdict, Verdict::Slower);
        assert!(slower.saved_share.value < 0.0);
    }

    #[test]
    fn noise_is_no_measurable_difference() {
        let noise = [(1.0, 1.1), (1.2, 1.0), (1.0, 1.05), (1.1, 1.0), (1.0, 1.02)];
        let verified = verified(noise);
        assert_eq!(verified.verdict, Verdict::NoDifference);
        let summary = verified.summary();
        assert!(summary.contains("No measurable difference"), "{summary}");
    }

    #[test]
    fn prediction_is_a_hit_if_the_intervals_of_the_seconds_overlap() {
        let outcome = |low, value, high| {
            let predicted = Interval::new(value, [low, high]);
            verified(FASTER).with_prediction(predicted, 100.0).outcome
        };
        assert_eq!(outcome(0.8, 0.9, 1.0), Some(Outcome::Hit));
        assert_eq!(outcome(1.4, 1.6, 1.8), Some(Outcome::TooOptimistic));
        assert_eq!(outcome(0.0, 0.2, 0.4), Some(Outcome::TooPessimistic));
    }

    #[test]
    fn shares_have_different_denominators() {
        // The recording took ten times as long as the command.
        let predicted = Interval::new(0.9, [0.8, 1.0]);
        let verified = verified(FASTER).with_prediction(predicted, 20.0);
        assert_eq!(verified.outcome, Some(Outcome::Hit));
        let summary = verified.summary();
        for part in [
            "of the time of the command",
            "Predicted: 0.900 s (0.800 to 1.000 s); 4.5% (4.0 to 5.0%) of the recording",
        ] {
            assert!(summary.contains(part), "{part}: {summary}");
        }
    }

    #[test]
    fn same_options_are_nothing_to_verify() {
        let mut same = verified(FASTER);
        same.recommended.options.clone_from(&same.current.options);
        let same = same.with_prediction(Interval::exact(0.0), 10.0);
        assert_eq!(same.outcome, Some(Outcome::Keep));
        let summary = same.summary();
        assert!(summary.contains("nothing to verify"), "{summary}");
    }

    #[test]
    fn measurement_that_agrees_with_any_prediction_is_inconclusive() {
        let interval = |value, ends| Interval::new(value, ends);
        let predicted = interval(1.0, [0.8, 1.2]);
        for (predicted, measured, outcome) in [
            // Contains 0 and the prediction.
            (predicted, interval(0.6, [-0.2, 1.4]), Outcome::Inconclusive),
            // Too wide, without 0.
            (predicted, interval(1.2, [0.1, 2.3]), Outcome::Inconclusive),
            // Contains 0, but not all of the prediction.
            (predicted, interval(0.4, [-0.2, 1.0]), Outcome::Hit),
            (predicted, interval(1.1, [0.7, 1.5]), Outcome::Hit),
            // A wide interval can refute a prediction.
            (
                predicted,
                interval(-5.0, [-9.0, -1.0]),
                Outcome::TooOptimistic,
            ),
            (predicted, Interval::unknown(1.0), Outcome::Inconclusive),
            (
                Interval::unknown(1.0),
                interval(1.1, [0.7, 1.5]),
                Outcome::Inconclusive,
            ),
            (
                interval(0.0, [0.0, 0.0]),
                interval(0.0, [-0.1, 0.1]),
                Outcome::Inconclusive,
            ),
        ] {
            assert_eq!(
                Outcome::of(predicted, measured),
                outcome,
                "{predicted:?} {measured:?}"
            );
        }
    }

    #[test]
    fn table_and_csv_have_both_sides() {
        let verified = verified(FASTER);
        let table = verified.table().to_text();
        assert!(table.contains("current: defaults"), "{table}");
        assert!(table.contains("recommended: cache_size=256M"), "{table}");
        assert_eq!(verified.to_csv().unwrap().lines().count(), 11);
        assert_eq!(verified.title(), "find . on disk.img: 5 pairs, cold");
    }
}
