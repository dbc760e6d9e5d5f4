//! Assigns colours to the series of a plot, by name. A policy or a variant of mbcache has the same colour in
//! every plot. The series of its published results has a paler shade. Other names get the remaining colours
//! in order.

use larder::MbCacheVariant;
use larder_readahead::PolicyName;
use plotters::style::RGBColor;

/// Colours that remain distinct with colour blindness (Okabe and Ito). The first colours belong to the
/// policies, oldest first. `off` is the name of a policy and of a variant of mbcache; the other variants
/// follow it.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x00, 0x00),
];

/// Prefix of the names of published series.
const PUBLISHED: &str = "published ";

/// Returns a colour for each of the named series.
pub(super) fn colours<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<RGBColor> {
    let published = |name: &'a str| name.strip_prefix(PUBLISHED);
    let own = |name| named_colour(published(name).unwrap_or(name));
    let taken: Vec<_> = names.clone().filter_map(own).collect();
    let rest = COLOURS.iter().skip(PolicyName::ALL.len());
    let mut free = rest.filter(|colour| !taken.contains(colour)).cycle();
    names
        .map(|name| match (own(name), published(name)) {
            (Some(colour), None) => colour,
            (Some(colour), Some(_)) => paler(colour),
            (None, _) => *free.next().unwrap_or(&COLOURS[0]),
        })
        .collect()
}

fn named_colour(name: &str) -> Option<RGBColor> {
    let policy = PolicyName::ALL
        .iter()
        .position(|policy| policy.as_str() == name);
    let variant = || {
        let mut variants = MbCacheVariant::ALL.iter();
        Some(variants.position(|variant| variant.as_str() == name)? + 1)
    };
    COLOURS.get(policy.or_else(variant)?).copied()
}

/// Returns the colour halfway to white.
fn paler(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let half = |part: u8| part / 2 + 128;
    RGBColor(half(red), half(green), half(blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_has_the_same_colour_among_any_series() {
        let alone = colours(["ondemand"].into_iter());
        let among = colours(["published legacy", "larder", "legacy", "ondemand"].into_iter());
        assert_eq!(alone[0], among[3]);
        assert_eq!(among[0], paler(among[2]));
    }

    #[test]
    fn each_series_has_a_different_colour() {
        let policies = PolicyName::ALL.iter().map(|policy| policy.as_str());
        let names = policies.chain(["published legacy", "published ondemand", "a", "b"]);
        let mut colours = colours(names);
        let count = colours.len();
        colours.sort_unstable_by_key(|colour| (colour.0, colour.1, colour.2));
        colours.dedup();
        assert_eq!(colours.len(), count);
    }

    #[test]
    fn each_variant_and_another_name_have_different_colours() {
        let variants = MbCacheVariant::ALL.iter().map(|variant| variant.as_str());
        let mut colours = colours(variants.chain(["ext4"]));
        let count = colours.len();
        colours.sort_unstable_by_key(|colour| (colour.0, colour.1, colour.2));
        colours.dedup();
        assert_eq!(colours.len(), count);
    }
}
