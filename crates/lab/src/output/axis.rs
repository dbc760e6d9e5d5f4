//! An axis of a forest plot: maps values to pixels, and selects ticks.

use super::plot::Scale;

/// Maximum number of intervals between ticks, on an axis whose ticks are multiples of a step.
const MOST_STEPS: f64 = 6.0;

/// A logarithmic axis has ticks at powers of ten (and perhaps at multiples of them) if the ratio of the axis's
/// ends is at least this.
const DECADE: f64 = 10.0;

/// A horizontal axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    scale: Scale,
    /// The ends: values, or their logarithms.
    ends: [f64; 2],
    /// Positions of the ends, in pixels.
    pixels: [i32; 2],
}

impl Axis {
    /// Creates an axis that contains all `values` that can be drawn, with room at both ends.
    pub fn of(scale: Scale, values: impl Iterator<Item = f64>, pixels: [i32; 2]) -> Self {
        let drawn = values.filter(|value| Self::is_drawn(scale, *value));
        let scaled = drawn.map(|value| scaled(scale, value));
        let ends = scaled.fold(
            [f64::INFINITY, f64::NEG_INFINITY],
            |[least, most], value| [least.min(value), most.max(value)],
        );
        let [least, most] = if ends[0].is_finite() { ends } else { [0.0; 2] };
        // A shorter axis has no readable labels.
        let span = (most - least).max(match scale {
            Scale::Linear => 1.0,
            _ => 0.04,
        });
        let excess = span - (most - least);
        // If no value is negative, as with shares, only the upper end is extended.
        let below = if scale == Scale::Linear && least >= 0.0 {
            0.0
        } else {
            excess / 2.0
        };
        let margin = 0.06 * span;
        Self {
            scale,
            ends: [least - below - margin, most + excess - below + margin],
            pixels,
        }
    }

    fn is_drawn(scale: Scale, value: f64) -> bool {
        value.is_finite() && (scale == Scale::Linear || value > 0.0)
    }

    /// Returns the position of a value. Values beyond an end of the axis, such as an unlimited end of an
    /// interval, are at that end.
    pub fn x(&self, value: f64) -> i32 {
        let [from, to] = self.ends;
        let part = ((scaled(self.scale, value) - from) / (to - from)).clamp(0.0, 1.0);
        let [left, right] = self.pixels.map(f64::from);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the position is within the picture"
        )]
        let x = (left + part * (right - left)).round() as i32;
        x
    }

    /// Returns whether a value is within the ends.
    pub fn contains(&self, value: f64) -> bool {
        let [from, to] = self.ends;
        Self::is_drawn(self.scale, value) && (from..=to).contains(&scaled(self.scale, value))
    }

    /// Returns the values of the ticks.
    pub fn ticks(&self) -> Vec<f64> {
        let [from, to] = match self.scale {
            Scale::Linear => self.ends,
            _ => self.ends.map(f64::exp),
        };
        if self.scale == Scale::Linear || to / from < DECADE {
            even_ticks(from, to)
        } else {
            decade_ticks(from, to)
        }
    }
}

/// Formats a tick with as few decimals as it needs.
pub(super) fn tick_label(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    (if text == "-0" { "0" } else { text }).to_owned()
}

/// Returns the place of a value on the axis: the value itself on a linear axis, its logarithm on a logarithmic
/// axis. On a logarithmic axis, values up to 0 precede all others.
fn scaled(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear => value,
        _ if value <= 0.0 => f64::NEG_INFINITY,
        _ => value.ln(),
    }
}

/// Returns the multiples of a round step between both ends.
fn even_ticks(from: f64, to: f64) -> Vec<f64> {
    let least = (to - from) / MOST_STEPS;
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|multiple| multiple * power);
    let step = step
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(least);
    let ticks = std::iter::successors(Some((from / step).ceil()), |count| Some(count + 1.0));
    ticks
        .map(|count| count * step)
        .take_while(|tick| *tick <= to)
        .collect()
}

/// Returns powers of ten. If there are few, also returns their double and their fivefold.
fn decade_ticks(from: f64, to: f64) -> Vec<f64> {
    let multiples: &[f64] = if to / from < 2000.0 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let powers = std::iter::successors(Some(from.log10().floor()), |power| Some(power + 1.0));
    let powers = powers
        .map(|power| 10_f64.powf(power))
        .take_while(|power| *power <= to);
    let ticks = powers.flat_map(|power| multiples.iter().map(move |multiple| multiple * power));
    ticks.filter(|tick| (from..=to).contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXELS: [i32; 2] = [300, 600];

    fn axis(scale: Scale, values: &[f64]) -> Axis {
        Axis::of(scale, values.iter().copied(), PIXELS)
    }

    #[test]
    fn axis_contains_all_values_in_order() {
        for (scale, values) in [
            (Scale::Linear, &[-7.1, 0.0, 200.0][..]),
            (Scale::Linear, &[0.0]),
            (Scale::Logarithmic, &[0.02, 1.0, 61.0]),
            (Scale::Logarithmic, &[1.0, 1.001]),
        ] {
            let axis = axis(scale, values);
            for value in values {
                assert!(axis.contains(*value), "{value}: {axis:?}");
                let x = axis.x(*value);
                assert!(PIXELS[0] < x && x < PIXELS[1], "{value}: {x}");
            }
            assert!(values.is_sorted_by_key(|value| axis.x(*value)), "{axis:?}");
            assert!(!axis.contains(1e9));
        }
    }

    #[test]
    fn values_that_cannot_be_drawn_are_at_an_end() {
        let axis = axis(
            Scale::Logarithmic,
            &[0.5, 2.0, 0.0, f64::INFINITY, f64::NAN],
        );
        assert!(axis.contains(0.5) && axis.contains(2.0) && !axis.contains(3.0));
        for (value, end) in [
            (f64::NEG_INFINITY, 300),
            (-1.0, 300),
            (0.0, 300),
            (f64::INFINITY, 600),
        ] {
            assert_eq!(axis.x(value), end, "{value}");
            assert!(!axis.contains(value), "{value}");
        }
        let empty = self::axis(Scale::Linear, &[]);
        assert!(empty.contains(0.0));
    }

    #[test]
    fn axis_of_shares_begins_at_zero() {
        let shares = axis(Scale::Linear, &[0.0, 0.3]);
        let labels: Vec<_> = shares.ticks().into_iter().map(tick_label).collect();
        assert_eq!(labels, ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert!(axis(Scale::Linear, &[-0.1, 0.3]).contains(-0.3));
    }

    #[test]
    fn ticks_are_round_and_distinct_and_within_the_axis() {
        for (scale, values, expected) in [
            (
                Scale::Linear,
                &[-1.0, 3.5][..],
                &["-1", "0", "1", "2", "3"][..],
            ),
            (
                Scale::Linear,
                &[0.0, 200.0],
                &["0", "50", "100", "150", "200"],
            ),
            (
                Scale::Logarithmic,
                &[0.98, 1.04],
                &["0.98", "1", "1.02", "1.04"],
            ),
            (Scale::Logarithmic, &[1.0, 13.0], &["1", "2", "5", "10"]),
            (
                Scale::Logarithmic,
                &[0.01, 5000.0],
                &["0.01", "0.1", "1", "10", "100", "1000", "10000"],
            ),
        ] {
            let axis = axis(scale, values);
            let ticks = axis.ticks();
            assert!(ticks.iter().all(|tick| axis.contains(*tick)), "{ticks:?}");
            let labels: Vec<_> = ticks.iter().map(|tick| tick_label(*tick)).collect();
            assert_eq!(labels, expected);
        }
    }
}
