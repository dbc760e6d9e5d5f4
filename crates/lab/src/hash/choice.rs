//! Which functions and sizes are compared, as users name them.

use super::survey::Survey;
use larder_cache::hash::Function;
use larder_cache::tape::CacheKind;
use std::str::FromStr;

/// The most bits of a table.
const MAX_BITS: u32 = 28;

/// Functions: names, groups of them, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Functions(Vec<Choice>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    All,
    Published,
    Today,
    /// One name, which may leave out the cache's.
    Named(String),
}

impl Functions {
    /// All that there are for a cache.
    #[must_use]
    pub fn all() -> Self {
        Self(vec![Choice::All])
    }

    /// The functions for `cache`, each once. A function of another cache is one if it is named in full.
    #[must_use]
    pub fn of(&self, cache: CacheKind) -> Vec<Function> {
        let mut functions = Vec::new();
        for choice in &self.0 {
            let chosen: Vec<Function> = match choice {
                Choice::All => fitting(cache, |_| true),
                Choice::Published => fitting(cache, is_published),
                Choice::Today => fitting(cache, |function| !is_published(function)),
                Choice::Named(name) => {
                    let short = Function::of_cache(cache, name);
                    short.or_else(|_| name.parse()).into_iter().collect()
                }
            };
            for function in chosen {
                if !functions.contains(&function) {
                    functions.push(function);
                }
            }
        }
        functions
    }
}

fn fitting(cache: CacheKind, wanted: impl Fn(Function) -> bool) -> Vec<Function> {
    let all = Function::ALL.iter().copied();
    all.filter(|function| function.caches().contains(&cache) && wanted(*function))
        .collect()
}

/// Whether it was made for one cache, as all published ones were.
fn is_published(function: Function) -> bool {
    function.caches().len() < CacheKind::ALL.len()
}

impl FromStr for Functions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let choices = text.split(',').map(|name| match name.trim() {
            "all" => Ok(Choice::All),
            "published" => Ok(Choice::Published),
            "today" => Ok(Choice::Today),
            name => {
                let mut caches = CacheKind::ALL.iter();
                let is_short = caches.any(|cache| Function::of_cache(*cache, name).is_ok());
                if !is_short {
                    let full = name.parse::<Function>();
                    full.map_err(|error| format!("{error}, published, today, all"))?;
                }
                Ok(Choice::Named(name.to_owned()))
            }
        });
        choices.collect::<Result<_, _>>().map(Self)
    }
}

/// Sizes of tables: bits, and whether the one that fits is among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    bits: Vec<u32>,
    has_fitting: bool,
}

impl Sizes {
    /// The sizes for a table of which `survey` tells, ascending.
    #[must_use]
    pub fn of(&self, survey: &Survey) -> Vec<u32> {
        let mut bits = self.bits.clone();
        if self.has_fitting {
            bits.push(survey.fitting_bits().clamp(1, MAX_BITS));
        }
        bits.sort_unstable();
        bits.dedup();
        bits
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
                _ => return Err(format!("`{part}` is no range: write the fewer bits first")),
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
                "`{text}` is no number of bits: write 1 to {MAX_BITS}, or a range as in 11..14, or \
                 auto"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_those_of_the_cache_that_names_and_groups_stand_for() {
        let of = |text: &str, cache| text.parse::<Functions>().unwrap().of(cache);
        assert_eq!(
            of("mult,golden,mult", CacheKind::Page),
            [Function::PageMult, Function::Golden]
        );
        assert_eq!(of("mult", CacheKind::Inode), [Function::InodeMult]);
        assert_eq!(of("mult", CacheKind::Buffer), []);
        assert_eq!(
            of("buffer-reference", CacheKind::Page),
            [Function::BufferReference]
        );
        let (published, today) = (
            of("published", CacheKind::Buffer),
            of("today", CacheKind::Buffer),
        );
        assert!(published.contains(&Function::BufferSteiner));
        assert!(today.contains(&Function::Golden) && !today.contains(&Function::BufferSteiner));
        let all = of("all", CacheKind::Buffer);
        assert_eq!(all.len(), published.len() + today.len());
        let error = "golden,nonsense".parse::<Functions>().unwrap_err();
        assert!(
            error.starts_with("`nonsense` is no hash function"),
            "{error}"
        );
    }

    #[test]
    fn sizes_are_bits_ranges_and_the_one_that_fits() {
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
