//! Assigns styles to the series of a plot, by name.
//!
//! A style is a colour and a variant. There are [`STYLES`] styles, so up to this number of series are distinct.
//! A second variant is used only after all colours. A policy or a variant of mbcache has the same colour in
//! every plot; its published series has the same colour in another variant. Other names get the remaining
//! styles in order.

use larder::MbCacheVariant;
use larder_readahead::PolicyName;
use plotters::style::{Color, RGBColor, ShapeStyle};

/// Colours that remain distinct with colour blindness (Okabe and Ito). The first colours belong to the
/// policies, oldest first. The name of the first policy, `off`, is also the name of a variant of mbcache. The
/// other variants of mbcache have the colours after the colour of `off`.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x00, 0x00),
];

/// Lengths of a dash and of the gap after it, for each variant; `None` for an unbroken line.
const DASHES: [Option<(i32, i32)>; 3] = [None, Some((8, 5)), Some((2, 4))];

/// Outlines of the markers, as positions relative to the point. Each colour has its own marker.
const MARKERS: [&[(i32, i32)]; COLOURS.len()] = [
    // Circle, as an octagon.
    &[
        (-2, -4),
        (2, -4),
        (4, -2),
        (4, 2),
        (2, 4),
        (-2, 4),
        (-4, 2),
        (-4, -2),
    ],
    // Square.
    &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
    // Triangle upwards.
    &[(0, -5), (5, 4), (-5, 4)],
    // Diamond.
    &[(0, -6), (5, 0), (0, 6), (-5, 0)],
    // Triangle downwards.
    &[(-5, -4), (5, -4), (0, 5)],
    // Plus sign.
    &[
        (-2, -5),
        (2, -5),
        (2, -2),
        (5, -2),
        (5, 2),
        (2, 2),
        (2, 5),
        (-2, 5),
        (-2, 2),
        (-5, 2),
        (-5, -2),
        (-2, -2),
    ],
    // Hourglass.
    &[(-4, -5), (4, -5), (-4, 5), (4, 5)],
];

/// Number of distinct styles.
pub(super) const STYLES: usize = COLOURS.len() * DASHES.len();

/// Prefix of the names of published series.
const PUBLISHED: &str = "published ";

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// Index in [`COLOURS`] and in [`MARKERS`].
    colour: usize,
    /// Index in [`DASHES`]: solid, dashed or dotted lines; full, pale or empty bars and markers.
    variant: usize,
}

impl Style {
    /// The style of published figures that are compared with ours.
    pub const PUBLISHED: Self = Self {
        colour: 0,
        variant: 2,
    };

    /// Returns the style of the figures in our table number `at` (from 0), beside published figures.
    pub fn ours(at: usize) -> Self {
        let colour = (at + 1) % COLOURS.len();
        Self { colour, variant: 0 }
    }

    /// Returns all styles, beginning with all colours of the first variant.
    fn all() -> impl Iterator<Item = Self> + Clone {
        (0..STYLES).map(|at| Self {
            colour: at % COLOURS.len(),
            variant: at / COLOURS.len(),
        })
    }

    pub fn colour(self) -> RGBColor {
        COLOURS[self.colour]
    }

    /// Returns the dash of a line and the gap after it, in pixels; `None` if the line is unbroken.
    pub fn dash(self) -> Option<(i32, i32)> {
        DASHES[self.variant]
    }

    /// Returns the outline of a marker, relative to its point.
    pub fn marker(self) -> &'static [(i32, i32)] {
        MARKERS[self.colour]
    }

    /// Returns the area style of a bar or a marker. Its outline has the full colour.
    pub fn fill(self) -> ShapeStyle {
        let RGBColor(red, green, blue) = self.colour();
        let paler = |part: u8| part / 4 + 191;
        let area = match self.variant {
            0 => self.colour(),
            1 => RGBColor(paler(red), paler(green), paler(blue)),
            _ => plotters::style::colors::WHITE,
        };
        area.filled()
    }

    /// Returns the style of outlines and lines.
    pub fn stroke(self, width: u32) -> ShapeStyle {
        self.colour().stroke_width(width)
    }
}

/// Returns a style for each of the named series. The styles are distinct if there are at most [`STYLES`] series.
pub(super) fn styles<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<Style> {
    let taken: Vec<Style> = names.clone().filter_map(named_style).collect();
    let mut free = Style::all().filter(|style| !taken.contains(style)).cycle();
    let mut styles: Vec<Style> = Vec::new();
    for name in names {
        let style = named_style(name).filter(|style| !styles.contains(style));
        styles.push(style.or_else(|| free.next()).unwrap_or(Style::PUBLISHED));
    }
    styles
}

/// Returns the style of a policy or a variant of mbcache, or of its published series.
fn named_style(name: &str) -> Option<Style> {
    let published = name.strip_prefix(PUBLISHED);
    let own = published.unwrap_or(name);
    let mut policies = PolicyName::ALL.iter();
    let policy = policies.position(|policy| policy.as_str() == own);
    let variant = || {
        let mut variants = MbCacheVariant::ALL.iter();
        Some(variants.position(|variant| variant.as_str() == own)? + 1)
    };
    let colour = policy.or_else(variant)?;
    let variant = usize::from(published.is_some());
    (colour < COLOURS.len()).then_some(Style { colour, variant })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_distinct(styles: &[Style]) {
        for (at, style) in styles.iter().enumerate() {
            assert!(!styles[at + 1..].contains(style), "{at}: {styles:?}");
        }
    }

    #[test]
    fn policy_has_the_same_colour_among_any_series() {
        let alone = styles(["ondemand"].into_iter());
        let among = styles(["published legacy", "larder", "legacy", "ondemand"].into_iter());
        assert_eq!(alone[0], among[3]);
        assert_eq!(among[0].colour(), among[2].colour());
        assert_distinct(&among);
    }

    #[test]
    fn each_series_has_a_different_style() {
        let policies = PolicyName::ALL.iter().map(|policy| policy.as_str());
        let names = policies.chain(["published legacy", "published ondemand", "a", "b", "c", "d"]);
        assert_distinct(&styles(names));
        let variants = MbCacheVariant::ALL.iter().map(|variant| variant.as_str());
        assert_distinct(&styles(variants.chain(["ext4", "xfs"])));
        // Both have the second colour.
        assert_distinct(&styles(["legacy", "old", "a"].into_iter()));
        assert_distinct(&styles(["a", "ext4", "legacy", "legacy"].into_iter()));
        let many: Vec<String> = (0..STYLES).map(|n| n.to_string()).collect();
        assert_distinct(&styles(many.iter().map(String::as_str)));
    }

    #[test]
    fn unnamed_series_use_every_colour_before_a_second_variant() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let variants: Vec<_> = styles(names.into_iter())
            .iter()
            .map(|style| style.variant)
            .collect();
        assert_eq!(variants, [0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn styles_differ_in_what_is_drawn() {
        let drawn = |style: Style| {
            let RGBColor(red, green, blue) = style.colour();
            (
                red,
                green,
                blue,
                style.dash(),
                format!("{:?}", style.fill().color),
            )
        };
        let drawn: Vec<_> = Style::all().map(drawn).collect();
        for (at, one) in drawn.iter().enumerate() {
            assert!(!drawn[at + 1..].contains(one), "{at}: {one:?}");
        }
    }
}
