//! Lists of names, separated by commas, or `all`.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};
use larder::{MbCacheVariant, PolicyName};
use std::ffi::OsStr;
use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

/// Selects every name in a list.
const ALL_NAMES: &str = "all";

/// Returns each of `items` once, in the given order.
pub(crate) fn deduplicated<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for item in items {
        if !once.contains(&item) {
            once.push(item);
        }
    }
    once
}

/// A type whose values have names.
pub(crate) trait Named:
    FromStr<Err: Display> + Clone + PartialEq + Send + Sync + 'static
{
    /// All values.
    const ALL: &'static [Self];

    /// Returns the name.
    fn name(&self) -> &'static str;
}

impl Named for PolicyName {
    const ALL: &'static [Self] = Self::ALL;

    fn name(&self) -> &'static str {
        self.as_str()
    }
}

impl Named for MbCacheVariant {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(&self) -> &'static str {
        self.as_str()
    }
}

/// The selected values, each once, in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names<T>(pub Vec<T>);

impl<T: Named> Names<T> {
    pub(crate) fn all() -> Self {
        Self(T::ALL.to_vec())
    }
}

impl<T: Named> FromStr for Names<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut list = Vec::new();
        for name in text.split(',').map(str::trim) {
            if name == ALL_NAMES {
                list.extend_from_slice(T::ALL);
            } else {
                let one = name.parse();
                list.push(one.map_err(|error| format!("{error}, {ALL_NAMES}"))?);
            }
        }
        Ok(Self(deduplicated(list)))
    }
}

/// Parses [`Names`], and reports the possible names to help and completions.
#[derive(Clone, Debug)]
pub(crate) struct NamesParser<T>(PhantomData<T>);

impl<T> NamesParser<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Named> TypedValueParser for NamesParser<T> {
    type Value = Names<T>;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Names<T>, clap::Error> {
        Names::from_str.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = T::ALL.iter().map(Named::name);
        Some(Box::new(names.chain([ALL_NAMES]).map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_in_order_without_duplicates() {
        let named = |text: &str| text.parse::<Names<PolicyName>>().map(|names| names.0);
        assert_eq!(named("all").unwrap(), PolicyName::ALL);
        assert_eq!(named("all,legacy").unwrap(), PolicyName::ALL);
        let first = named("modern,all").unwrap();
        assert_eq!(
            (first[0], first.len()),
            (PolicyName::Modern, PolicyName::ALL.len())
        );
        assert!(named("all,").is_err() && named("").is_err());
        assert_eq!(
            named("legacy, ondemand,legacy").unwrap(),
            [PolicyName::Legacy, PolicyName::OnDemand]
        );
        let error = named("legacy,psychic").unwrap_err();
        assert!(
            error.contains("psychic") && error.contains("ondemand"),
            "{error}"
        );
    }
}
