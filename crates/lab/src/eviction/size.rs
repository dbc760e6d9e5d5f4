//! The sizes of the caches that are compared.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheSize {
    /// A share of the objects of the workload.
    Share(f64),
    /// A number of objects.
    Objects(u32),
}

impl CacheSize {
    /// Returns the number of objects that the cache can contain, for a workload of `objects`. `None` if it is
    /// less than [`Sizes::LEAST`].
    #[must_use]
    pub fn objects(self, objects: u32) -> Option<u32> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is between 0 and 1"
        )]
        let objects = match self {
            Self::Share(share) => (f64::from(objects) * share).round() as u32,
            Self::Objects(objects) => objects,
        };
        (objects >= Sizes::LEAST).then_some(objects)
    }
}

impl fmt::Display for CacheSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Rounding removes the error of the multiplication.
            Self::Share(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Self::Objects(objects) => write!(f, "{objects}"),
        }
    }
}

/// A list of sizes, separated by commas: numbers of objects, or percentages.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(pub Vec<CacheSize>);

impl Sizes {
    /// The smallest cache. In smaller caches, some queues of some policies would have no room for an object.
    pub const LEAST: u32 = 32;

    /// The sizes that are compared by default.
    pub const DEFAULT: &str = "0.1%,0.3%,1%,3%,5%,10%,20%,40%";
}

/// A text that is not a list of sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a size: use a number of objects from {least} on, or a percentage such as 1%",
    least = Sizes::LEAST
)]
pub struct InvalidSize(String);

impl FromStr for Sizes {
    type Err = InvalidSize;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let size = |text: &str| {
            let size = match text.strip_suffix('%') {
                Some(percent) => percent
                    .parse()
                    .ok()
                    .filter(|percent| *percent > 0.0 && *percent <= 100.0)
                    .map(|percent: f64| CacheSize::Share(percent / 100.0)),
                None => text
                    .parse()
                    .ok()
                    .filter(|objects| *objects >= Self::LEAST)
                    .map(CacheSize::Objects),
            };
            size.ok_or_else(|| InvalidSize(text.to_owned()))
        };
        text.split(',')
            .map(|part| size(part.trim()))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shares_or_numbers_of_objects() {
        let sizes: Sizes = "0.1%, 40%,1000".parse().unwrap();
        let texts: Vec<_> = sizes.0.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["0.1%", "40%", "1000"]);
        let objects: Vec<_> = sizes.0.iter().map(|size| size.objects(70_000)).collect();
        assert_eq!(objects, [Some(70), Some(28_000), Some(1000)]);
        assert_eq!(sizes.0[0].objects(31_000), None);
        assert!(Sizes::DEFAULT.parse::<Sizes>().is_ok());
    }

    #[test]
    fn invalid_size_is_rejected_with_its_text() {
        for text in ["", "0%", "101%", "31", "-5", "1e", "NaN%", "5,,6"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
        let error = "50,12".parse::<Sizes>().unwrap_err().to_string();
        assert!(
            error.starts_with("`12` is not a size: use a number of objects from 32"),
            "{error}"
        );
    }
}
