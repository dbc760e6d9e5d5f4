//! Lookup of functions by name. For an unknown name, the error lists the alternatives and the most
//! similar name.

use super::Function;
use crate::tape::CacheKind;
use std::fmt;
use std::str::FromStr;

/// An error: no hash function has this name. The message lists the functions of each cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFunction {
    name: String,
    choice: Vec<Function>,
}

/// The suffix of the name of a published function that computes in words of 64 bits.
const IN_64: &str = "-64";

/// The least similarity of a name that is suggested. Equal names have a similarity of 1.
const SIMILAR: f64 = 0.8;

/// The largest number of columns in a line of the message.
const COLUMNS: usize = 78;

impl UnknownFunction {
    /// Creates the error for `name`, which is not the name of a function in `choice`.
    fn new(name: &str, choice: impl IntoIterator<Item = Function>) -> Self {
        Self {
            name: name.to_owned(),
            choice: choice.into_iter().collect(),
        }
    }

    /// Returns the most similar name, if one is similar enough.
    fn nearest(&self) -> Option<&'static str> {
        let similarity = |function: &Function| {
            let names = [function.as_str(), function.short_name()];
            let similar = names.map(|name| strsim::jaro_winkler(&self.name, name));
            similar[0].max(similar[1])
        };
        let rated = self.choice.iter().map(|one| (similarity(one), one));
        // If several names are equally similar, the first is suggested.
        let best = rated.rev().max_by(|a, b| a.0.total_cmp(&b.0));
        best.filter(|(similarity, _)| *similarity >= SIMILAR)
            .map(|(_, function)| function.as_str())
    }

    /// Writes the functions whose [`Function::caches`] are `caches`, with a label for the group.
    fn write_group(&self, f: &mut fmt::Formatter<'_>, caches: &[CacheKind]) -> fmt::Result {
        let of_group = self.choice.iter().filter(|one| one.caches() == caches);
        let names: Vec<&str> = of_group.map(|one| one.as_str()).collect();
        let in_64_of = |name: &str| {
            names
                .iter()
                .any(|one| one.strip_suffix(IN_64) == Some(name))
        };
        let shown = names
            .iter()
            .filter(|name| {
                !name
                    .strip_suffix(IN_64)
                    .is_some_and(|of| names.contains(&of))
            })
            .map(|name| format!("{name}{}", if in_64_of(name) { "[-64]" } else { "" }));
        let label = match caches {
            [cache] => cache.as_str(),
            _ => "any",
        };
        let mut column = COLUMNS;
        for (at, name) in shown.enumerate() {
            if at > 0 {
                write!(f, ",")?;
            }
            if column + name.len() + 2 > COLUMNS {
                let label = if at == 0 { label } else { "" };
                write!(f, "\n  {label:<6}")?;
                column = 8;
            }
            write!(f, " {name}")?;
            column += name.len() + 2;
        }
        Ok(())
    }
}

impl fmt::Display for UnknownFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown hash function '{}'", self.name)?;
        match self.nearest() {
            Some(nearest) => write!(f, "; did you mean {nearest}? Available:")?,
            None => write!(f, "; available:")?,
        }
        for cache in CacheKind::ALL {
            self.write_group(f, &[cache])?;
        }
        self.write_group(f, &CacheKind::ALL)
    }
}

impl std::error::Error for UnknownFunction {}

impl Function {
    /// Returns the function of `cache` whose name is `name`. The name of the cache may be omitted: `mult` is
    /// `page-mult` for the page cache.
    ///
    /// # Errors
    /// Returns an error if no function has this name, or if it was published for another cache.
    pub fn of_cache(cache: CacheKind, name: &str) -> Result<Self, UnknownFunction> {
        let of_cache = Self::ALL.iter().filter(|one| one.caches().contains(&cache));
        let found = of_cache
            .clone()
            .find(|one| one.as_str() == name || one.short_name() == name);
        let unknown = || UnknownFunction::new(name, of_cache.copied());
        found.copied().ok_or_else(unknown)
    }
}

impl TryFrom<String> for Function {
    type Error = UnknownFunction;

    fn try_from(name: String) -> Result<Self, UnknownFunction> {
        name.parse()
    }
}

impl FromStr for Function {
    type Err = UnknownFunction;

    fn from_str(name: &str) -> Result<Self, UnknownFunction> {
        let found = Self::ALL.iter().find(|one| one.as_str() == name);
        let unknown = || UnknownFunction::new(name, Self::ALL.iter().copied());
        found.copied().ok_or_else(unknown)
    }
}
