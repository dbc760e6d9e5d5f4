//! Parses the functions and table sizes that the user selects for a comparison.

use super::survey::Survey;
use larder_cache::hash::Function;
use larder_cache::tables::Finder;
use larder_cache::tape::CacheKind;
use std::str::FromStr;

/// Names that are accepted in addition to the names of functions, as text for an error message.
const OTHERS: &str =
    "larder, the built-in function; rbtree, for pages; or a group: published, today, all";

/// The largest table that can be selected has 2^28 buckets.
const MAX_BITS: u32 = 28;

/// The functions that the user selected: names, and groups of functions. The name `larder` selects the
/// function that a mount uses by default (for dentries, a mixer that represents it), and `rbtree` selects
/// red-black trees instead of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Functions(Vec<Choice>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    All,
    Published,
    Today,
    /// One name. The prefix with the cache's name is optional.
    Named(String),
}

impl Functions {
    /// Selects all functions of a cache.
    #[must_use]
    pub fn all() -> Self {
        Self(vec![Choice::All])
    }

    /// Returns the selected functions for `cache`, each once. A function that was designed for another cache
    /// is included only if its full name was given.
    #[must_use]
    pub fn of(&self, cache: CacheKind) -> Vec<Finder> {
        let mut finders = Vec::new();
        for choice in &self.0 {
            let chosen: Vec<Finder> = match choice {
                Choice::All => fitting(cache, |_| true),
                Choice::Published => fitting(cache, is_published),
                Choice::Today => fitting(cache, |finder| !is_published(finder)),
                Choice::Named(name) => named(cache, name).into_iter().collect(),
            };
            for finder in chosen {
                if !finders.contains(&finder) {
                    finders.push(finder);
                }
            }
        }
        finders
    }
}

fn fitting(cache: CacheKind, wanted: impl Fn(Finder) -> bool) -> Vec<Finder> {
    let functions = Function::ALL.iter().copied();
    let of_cache = functions.filter(|function| function.caches().contains(&cache));
    let trees = (cache == CacheKind::Page).then_some(Finder::RedBlackTrees);
    let all = [Finder::Larder].into_iter().chain(trees);
    all.chain(of_cache.map(Finder::from))
        .filter(|finder| wanted(*finder))
        .collect()
}

/// Returns the function that `name` denotes for `cache`: a full name, or a name without the prefix of the
/// cache.
fn named(cache: CacheKind, name: &str) -> Option<Finder> {
    match name.parse() {
        Ok(Finder::RedBlackTrees) if cache != CacheKind::Page => None,
        Ok(finder) => Some(finder),
        Err(_) => Function::of_cache(cache, name).ok().map(Finder::from),
    }
}

/// Returns whether `finder` is in the group `published`: functions that were designed for a particular cache,
/// and red-black trees.
fn is_published(finder: Finder) -> bool {
    match finder {
        Finder::Larder => false,
        Finder::RedBlackTrees => true,
        Finder::Function(function) => function.caches().len() < CacheKind::ALL.len(),
    }
}

/// Returns the function that a replay uses for Larder's own function of a cache. For all caches but the
/// dentry cache, this is the same function. Larder's function for names uses a secret seed, which is not in
/// a trace. A replay uses a mixer in its place, which distributes keys as evenly and also costs one
/// multiplication.
pub fn own_function(cache: CacheKind) -> Function {
    match cache {
        CacheKind::Page | CacheKind::Buffer | CacheKind::Inode => Function::Golden,
        CacheKind::Dentry => Function::Xxh3Avalanche,
    }
}

impl FromStr for Functions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let choices = text.split(',').map(|name| match name.trim() {
            "all" => Ok(Choice::All),
            "published" => Ok(Choice::Published),
            "today" => Ok(Choice::Today),
            name => {
                let mut caches = CacheKind::ALL.into_iter();
                if !caches.any(|cache| named(cache, name).is_some()) {
                    let full = name.parse::<Function>();
                    full.map_err(|error| format!("{error}\n  or     {OTHERS}"))?;
                }
                Ok(Choice::Named(name.to_owned()))
            }
        });
        choices.collect::<Result<_, _>>().map(Self)
    }
}

/// The table sizes that the user selected, as the log2 of the number of buckets. `auto` selects the fitting
/// size: the smallest table with at least as many buckets as objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    bits: Vec<u32>,
    has_fitting: bool,
}

impl Sizes {
    /// Returns the selected sizes for the cache that `survey` describes, in ascending order.
    #[must_use]
    pub fn of(&self, survey: &Survey) -> Vec<u32> {
        let mut bits = self.bits.clone();
        if self.has_fitting {
            bits.push(Self::fitting(survey));
        }
        bits.sort_unstable();
        bits.dedup();
        bits
    }

    /// Returns the log2 of the number of buckets of the fitting size.
    #[must_use]
    pub fn fitting(survey: &Survey) -> u32 {
        survey.fitting_bits().clamp(1, MAX_BITS)
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut sizes = Self::default();
        for part in text.split(',').map(str::trim) {
            if part == "auto" {
                sizes.has_fitting = true;
                continue;
            }
            let (first, last) = part.split_once("..").unwrap_or((part, part));
            match (bits(first)?, bits(last)?) {
                (first, last) if first <= last => sizes.bits.extend(first..=last),
                _ => {
                    return Err(format!(
                        "`{part}` is not a range: write the smaller number first"
                    ));
                }
            }
        }
        Ok(sizes)
    }
}

fn bits(text: &str) -> Result<u32, String> {
    let bits = text.parse().ok();
    bits.filter(|bits| (1..=MAX_BITS).contains(bits))
        .ok_or_else(|| {
            format!(
                "`{text}` is not a number of bits: use 1 to {MAX_BITS}, a range such as 11..14, or \
                 auto"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_groups_select_functions_of_the_cache() {
        let of = |text: &str, cache| text.parse::<Functions>().unwrap().of(cache);
        assert_eq!(
            of("mult,golden,mult", CacheKind::Page),
            [Function::PageMult, Function::Golden].map(Finder::from)
        );
        assert_eq!(of("mult", CacheKind::Inode), [Function::InodeMult.into()]);
        assert_eq!(of("mult", CacheKind::Buffer), []);
        assert_eq!(
            of("buffer-reference", CacheKind::Page),
            [Function::BufferReference.into()]
        );
        assert_eq!(
            of("larder,rbtree", CacheKind::Page),
            [Finder::Larder, Finder::RedBlackTrees]
        );
        assert_eq!(of("larder,rbtree", CacheKind::Inode), [Finder::Larder]);
        assert!(of("published", CacheKind::Page).contains(&Finder::RedBlackTrees));
        let (published, today) = (
            of("published", CacheKind::Buffer),
            of("today", CacheKind::Buffer),
        );
        let steiner = Finder::from(Function::BufferSteiner);
        assert!(published.contains(&steiner));
        assert!(today.contains(&Function::Golden.into()) && !today.contains(&steiner));
        let all = of("all", CacheKind::Buffer);
        assert_eq!(all.len(), published.len() + today.len());
        let error = "golden,nonsense".parse::<Functions>().unwrap_err();
        assert!(
            error.starts_with("unknown hash function 'nonsense'"),
            "{error}"
        );
    }

    #[test]
    fn sizes_are_numbers_ranges_or_the_fitting_size() {
        let survey = Survey {
            peak_objects: 1000,
            ..Survey::default()
        };
        let of = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.of(&survey));
        assert_eq!(of("14,11..13").unwrap(), [11, 12, 13, 14]);
        assert_eq!(of("auto,10,8").unwrap(), [8, 10]);
        for nonsense in ["", "0", "29", "13..11", "11..", "x"] {
            assert!(of(nonsense).is_err(), "{nonsense}");
        }
    }
}
