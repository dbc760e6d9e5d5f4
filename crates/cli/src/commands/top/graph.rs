//! Draws a series of figures as a graph of one or more rows (a sparkline).

use super::glyphs::Glyphs;

/// Returns the rows of a graph, top row first. The newest value is at the right edge. A missing value is blank.
///
/// `largest` is the value that fills the height. If it is 0, all values are 0.
pub(super) fn rows(
    values: &[Option<f32>],
    (width, height): (usize, usize),
    largest: f32,
    glyphs: &Glyphs,
) -> Vec<String> {
    let shown = &values[values.len().saturating_sub(width)..];
    let blank = width - shown.len();
    let row = |row: usize| {
        let cells = shown
            .iter()
            .map(|value| value.map_or(' ', |value| cell(value, largest, height, row, glyphs)));
        std::iter::repeat_n(' ', blank).chain(cells).collect()
    };
    (0..height).rev().map(row).collect()
}

/// Returns the cell of `value` in a row, where row 0 is the lowest. A value of 0 has one level of its own, so that it
/// differs from the smallest other value.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a few hundred levels"
)]
fn cell(value: f32, largest: f32, height: usize, row: usize, glyphs: &Glyphs) -> char {
    let per_row = glyphs.levels.len();
    let most = height * per_row;
    let level = if value > 0.0 && largest > 0.0 {
        let above = (value / largest * (most - 1) as f32).round() as usize;
        (1 + above).clamp(2, most)
    } else {
        1
    };
    match level.saturating_sub(row * per_row) {
        0 => ' ',
        within => glyphs.levels[within.min(per_row) - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_value_is_at_the_right_and_zero_differs_from_small() {
        let values = [
            Some(9.0),
            None,
            Some(0.0),
            Some(0.001),
            Some(5.0),
            Some(10.0),
        ];
        assert_eq!(rows(&values, (5, 1), 10.0, Glyphs::BLOCKS), [" ▁▂▅█"]);
        assert_eq!(rows(&values, (5, 1), 10.0, Glyphs::ASCII), [" _.=#"]);
        assert_eq!(rows(&values[3..], (5, 1), 10.0, Glyphs::BLOCKS), ["  ▂▅█"]);
    }

    #[test]
    fn high_graph_fills_rows_from_below() {
        let values = [Some(0.0), Some(2.5), Some(5.0), Some(7.5), Some(10.0)];
        assert_eq!(
            rows(&values, (5, 2), 10.0, Glyphs::BLOCKS),
            ["  ▁▄█", "▁▅███"]
        );
    }

    #[test]
    fn constant_zero_is_a_base_line() {
        assert_eq!(rows(&[Some(0.0); 3], (3, 1), 0.0, Glyphs::BLOCKS), ["▁▁▁"]);
        assert!(rows(&[], (0, 0), 0.0, Glyphs::BLOCKS).is_empty());
    }
}
