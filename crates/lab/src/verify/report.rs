//! The results of a verification, for people and programs.

use super::config::{Temperature, VerifyConfig, listed};
use super::sample::Sample;
use crate::output::{BarPlot, Report, ReportFile, Series, Table, csv_text};
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

/// What the prediction says about the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The intervals overlap.
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
    /// The predicted share of the time that is saved, if there is a prediction.
    pub predicted_share: Option<Interval>,
    /// Whether the prediction holds, if there is one.
    pub outcome: Option<Outcome>,
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
        // Not a ratio with an interval of its own, which could contradict that of the difference.
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
            predicted_share: None,
            outcome: None,
        }
    }

    /// Adds a prediction of the share of the time that is saved.
    #[must_use]
    pub fn with_prediction(self, predicted: Interval) -> Self {
        let ends = |interval: Interval| {
            (
                interval.low.unwrap_or(interval.value),
                interval.high.unwrap_or(interval.value),
            )
        };
        let (low, high) = ends(self.saved_share);
        let (predicted_low, predicted_high) = ends(predicted);
        let outcome = if high < predicted_low {
            Outcome::TooOptimistic
        } else if low > predicted_high {
            Outcome::TooPessimistic
        } else {
            Outcome::Hit
        };
        Self {
            predicted_share: Some(predicted),
            outcome: Some(outcome),
            ..self
        }
    }

    /// Returns the result as sentences.
    #[must_use]
    pub fn summary(&self) -> String {
        let saved = format!("{}; {}", seconds(self.saved_s), percent(self.saved_share));
        let mut text = match self.verdict {
            Verdict::NoDifference => format!(
                "No measurable difference: the recommended options save {saved}, and the interval contains 0.\n"
            ),
            Verdict::Faster => format!("The recommended options save {saved}.\n"),
            Verdict::Slower => {
                format!("The recommended options are slower: they save {saved}.\n")
            }
        };
        if let Some(predicted) = self.predicted_share {
            let outcome = match self.outcome {
                Some(Outcome::TooOptimistic) => "the prediction was too optimistic",
                Some(Outcome::TooPessimistic) => "the prediction was too pessimistic",
                Some(Outcome::Hit) | None => "the prediction agrees with the measurement",
            };
            let _ = writeln!(text, "Predicted: {}; {outcome}.", percent(predicted));
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
    fn prediction_is_a_hit_if_the_intervals_overlap() {
        let outcome = |low, value, high| {
            let predicted = Interval {
                value,
                low: Some(low),
                high: Some(high),
            };
            verified(FASTER).with_prediction(predicted).outcome
        };
        assert_eq!(outcome(0.4, 0.45, 0.5), Some(Outcome::Hit));
        assert_eq!(outcome(0.7, 0.8, 0.9), Some(Outcome::TooOptimistic));
        assert_eq!(outcome(0.0, 0.1, 0.2), Some(Outcome::TooPessimistic));
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
