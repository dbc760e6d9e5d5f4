//! Heat maps: a table of ratios, with a colour for each. Blue cells are above 1, red cells below 1.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{Failure, Head, Sample, WIDTH, draw, label_style, text_width};

const ROW_HEIGHT: i32 = 26;
const MARGIN: i32 = 16;

/// The colours of gains and losses (Okabe and Ito), which remain distinct with colour blindness.
const GAIN: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const LOSS: RGBColor = RGBColor(0xd5, 0x5e, 0x00);

/// Ratios that differ from 1 by less than this are white.
const NEUTRAL: f64 = 0.02;

/// The ratio that has the full colour of a gain, and the inverse of the ratio that has the full colour of a loss.
const FULL_GAIN: f64 = 16.0;
const FULL_LOSS: f64 = 1.25;

/// A table of ratios.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// The title above the plot.
    pub title: String,
    /// The titles of the columns.
    pub columns: Vec<String>,
    /// The rows: a title, and a ratio for each column.
    pub rows: Vec<(String, Vec<f64>)>,
}

impl HeatMap {
    /// Returns the plot as an SVG document.
    pub fn to_svg(&self) -> String {
        let head = Head::new(&self.title, [], Sample::Bar);
        let rows = i32::try_from(self.rows.len()).unwrap_or(i32::MAX / ROW_HEIGHT - 2);
        let height = (rows + 1) * ROW_HEIGHT + 2 * MARGIN;
        draw(head.height() + height.unsigned_abs(), |root| {
            let area = head.draw(root)?;
            let longest = self.rows.iter().map(|(title, _)| text_width(title)).max();
            let left = MARGIN + longest.unwrap_or(0) + 12;
            let columns = i32::try_from(self.columns.len().max(1)).unwrap_or(i32::MAX);
            let width = (WIDTH.cast_signed() - MARGIN - left) / columns;
            for (title, at) in self.columns.iter().zip(0..) {
                let centre = left + at * width + width / 2;
                area.draw_text(title, &label_style(HPos::Center), (centre, ROW_HEIGHT / 2))?;
            }
            for ((title, ratios), row) in self.rows.iter().zip(1..) {
                let top = row * ROW_HEIGHT;
                let middle = top + ROW_HEIGHT / 2;
                area.draw_text(title, &label_style(HPos::Right), (left - 10, middle))?;
                for (ratio, at) in ratios.iter().zip(0..) {
                    let x = left + at * width;
                    let corners = [(x + 1, top + 1), (x + width - 1, top + ROW_HEIGHT - 1)];
                    draw_cell(&area, corners, *ratio)?;
                }
            }
            Ok(())
        })
    }
}

fn draw_cell(
    area: &super::canvas::Area<'_>,
    corners: [(i32, i32); 2],
    ratio: f64,
) -> Result<(), Failure> {
    let (colour, strength) = shade(ratio);
    area.draw(&Rectangle::new(corners, mixed(colour, strength).filled()))?;
    area.draw(&Rectangle::new(corners, mixed(BLACK, 0.15).stroke_width(1)))?;
    let text_colour = if strength > 0.6 { &WHITE } else { &BLACK };
    let style = label_style(HPos::Center).color(text_colour);
    let [(left, top), (right, bottom)] = corners;
    let at = (left.midpoint(right), top.midpoint(bottom));
    area.draw_text(&text(ratio), &style, at)
}

/// Formats a ratio with three digits.
fn text(ratio: f64) -> String {
    let decimals = match ratio {
        ratio if ratio < 10.0 => 2,
        ratio if ratio < 100.0 => 1,
        _ => 0,
    };
    format!("{ratio:.decimals$}")
}

/// Returns the colour of a ratio, and its strength from 0 to 1.
fn shade(ratio: f64) -> (RGBColor, f64) {
    if (1.0 - NEUTRAL..=1.0 + NEUTRAL).contains(&ratio) || ratio <= 0.0 {
        return (WHITE, 0.0);
    }
    let (colour, full) = if ratio > 1.0 {
        (GAIN, FULL_GAIN)
    } else {
        (LOSS, FULL_LOSS)
    };
    let strength = ratio.ln().abs() / f64::ln(full);
    (colour, (0.08 + 0.92 * strength).min(1.0))
}

/// Mixes a colour with white.
fn mixed(RGBColor(red, green, blue): RGBColor, strength: f64) -> RGBColor {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the result is between the value and 255"
    )]
    let mix = |value: u8| (255.0 - (255.0 - f64::from(value)) * strength).round() as u8;
    RGBColor(mix(red), mix(green), mix(blue))
}

#[cfg(test)]
mod tests {
    use super::super::picture::{expect_texts_inside, texts};
    use super::*;

    #[test]
    fn heat_map_has_all_titles_and_ratios_inside() {
        let map = HeatMap {
            title: "Ratios".to_owned(),
            columns: vec!["disk".to_owned(), "object store".to_owned()],
            rows: vec![
                ("sequential".to_owned(), vec![0.5, 1.0]),
                (
                    "a workload with a long name".to_owned(),
                    vec![12.345, 1234.5],
                ),
            ],
        };
        let svg = map.to_svg();
        expect_texts_inside(&svg);
        let texts = texts(&svg);
        for text in ["disk", "sequential", "0.50", "1.00", "12.3", "1234"] {
            assert!(texts.contains(&text), "{text}: {texts:?}");
        }
    }

    #[test]
    fn colours_of_gains_and_losses_differ_and_become_stronger() {
        assert_eq!(shade(1.01), (WHITE, 0.0));
        let (gain, strength) = shade(2.0);
        assert!(gain == GAIN && strength < shade(4.0).1);
        let (loss, strength) = shade(0.95);
        assert!(loss == LOSS && strength < shade(0.9).1);
        assert!(shade(1e9).1 <= 1.0 && shade(1e-9).1 <= 1.0);
    }
}
