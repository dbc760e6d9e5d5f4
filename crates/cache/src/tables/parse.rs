//! Conversion of tables to text and back. The [module](super) describes the syntax.

use super::{Finder, InodeLookups, Pages, Shrinking, TableChoice, TableSize, Tables};
use crate::hash::{Function, UnknownFunction};
use crate::tape::CacheKind;
use std::fmt;
use std::str::FromStr;

/// An error: the text does not describe tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownTables {
    /// No set of tables has this name.
    #[error("unknown tables '{0}'; available: {names}", names = choice(&Tables::NAMED))]
    Base(String),
    /// The text after a `+` is not a valid setting.
    #[error(
        "invalid setting '{0}' of tables; use page=, buffer=, dentry= or inode=FUNCTION[/SIZE], \
         sizes=RULE, iget=LOOKUPS, or shrink=MODE"
    )]
    Part(String),
    /// No function of this cache has this name.
    #[error("{cache}: {1}\n  or     larder, the default{more}", cache = .0.as_str(), more = more_functions(*.0))]
    Function(CacheKind, UnknownFunction),
    /// The size of a table is invalid.
    #[error(
        "invalid table size '{0}'; use 0 to {most} (the log2 of the number of buckets), or one of {names}",
        most = TableSize::MAX_BITS,
        names = choice(&TableSize::RULES)
    )]
    Size(String),
    /// No rule for sizes has this name.
    #[error("unknown size rule '{0}'; available: {names}", names = choice(&TableSize::RULES))]
    Rule(String),
    /// No choice of lookups of inodes has this name.
    #[error("unknown iget value '{0}'; available: {names}", names = choice(&InodeLookups::NAMED))]
    InodeLookups(String),
    /// No mode of shrinking dentries has this name.
    #[error("unknown shrink mode '{0}'; available: {names}", names = choice(&Shrinking::NAMED))]
    Shrinking(String),
    /// The text has a size for red-black trees, which have no buckets.
    #[error("rbtree accepts no size, because trees have no buckets")]
    TreesHaveNoSize,
}

fn choice<T>(all: &[(&'static str, T)]) -> String {
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Returns the part of an error message that lists search structures of `cache` other than hash
/// tables.
fn more_functions(cache: CacheKind) -> &'static str {
    match cache {
        CacheKind::Page => "; rbtree, a red-black tree for each inode",
        _ => "",
    }
}

const LARDER: &str = "larder";
const TREES: &str = "rbtree";

impl InodeLookups {
    const NAMED: [(&str, Self); 2] = [("misses", Self::AfterDentryMisses), ("all", Self::All)];
}

impl Shrinking {
    const NAMED: [(&str, Self); 2] = [("normal", Self::Normal), ("eager", Self::Eager)];
}

/// Returns the value of `name`.
fn named<T: Copy>(all: &[(&str, T)], name: &str) -> Option<T> {
    let (_, value) = all.iter().find(|(one, _)| *one == name)?;
    Some(*value)
}

/// Returns the name of `value`.
fn name_of<'a, T: PartialEq>(all: &[(&'a str, T)], value: &T) -> Option<&'a str> {
    let (name, _) = all.iter().find(|(_, one)| one == value)?;
    Some(name)
}

impl FromStr for TableSize {
    type Err = UnknownTables;

    fn from_str(text: &str) -> Result<Self, UnknownTables> {
        let bits = text.parse().ok().filter(|bits| *bits <= Self::MAX_BITS);
        bits.map(Self::Bits)
            .or_else(|| named(&Self::RULES, text))
            .ok_or_else(|| UnknownTables::Size(text.to_owned()))
    }
}

impl FromStr for Tables {
    type Err = UnknownTables;

    fn from_str(text: &str) -> Result<Self, UnknownTables> {
        // A text that changes the default tables may begin with `+`.
        let text = text.strip_prefix('+').unwrap_or(text);
        let mut parts = text.split('+').peekable();
        let base = parts.next_if(|first| !first.contains('='));
        let mut tables = match base {
            None => Self::LARDER,
            Some(name) => {
                named(&Self::NAMED, name).ok_or_else(|| UnknownTables::Base(name.to_owned()))?
            }
        };
        parts.try_for_each(|part| tables.change(part))?;
        Ok(tables)
    }
}

impl Tables {
    /// Applies one `part` of the text, such as `page=mult/13`.
    fn change(&mut self, part: &str) -> Result<(), UnknownTables> {
        let unknown = || UnknownTables::Part(part.to_owned());
        let (key, value) = part.split_once('=').ok_or_else(unknown)?;
        match key {
            "sizes" => {
                let rule = named(&TableSize::RULES, value)
                    .ok_or_else(|| UnknownTables::Rule(value.to_owned()))?;
                for cache in CacheKind::ALL {
                    if let Some(table) = self.table_mut(cache) {
                        table.size = rule;
                    }
                }
            }
            "iget" => {
                self.inode_lookups = named(&InodeLookups::NAMED, value)
                    .ok_or_else(|| UnknownTables::InodeLookups(value.to_owned()))?;
            }
            "shrink" => {
                self.shrinking = named(&Shrinking::NAMED, value)
                    .ok_or_else(|| UnknownTables::Shrinking(value.to_owned()))?;
            }
            _ => {
                let cache = CacheKind::ALL.into_iter().find(|one| one.as_str() == key);
                self.change_cache(cache.ok_or_else(unknown)?, value)?;
            }
        }
        Ok(())
    }

    fn change_cache(&mut self, cache: CacheKind, value: &str) -> Result<(), UnknownTables> {
        let (name, size) = match value.split_once('/') {
            Some((name, size)) => (name, Some(size)),
            None => (value, None),
        };
        if cache == CacheKind::Page && name == TREES {
            self.page = Pages::RedBlackTrees;
            return size.map_or(Ok(()), |_| Err(UnknownTables::TreesHaveNoSize));
        }
        let function = match name {
            LARDER => None,
            name => Some(
                Function::of_cache(cache, name)
                    .map_err(|unknown| UnknownTables::Function(cache, unknown))?,
            ),
        };
        if cache == CacheKind::Page && self.page == Pages::RedBlackTrees {
            self.page = Pages::default();
        }
        if let Some(table) = self.table_mut(cache) {
            table.function = function;
            if let Some(size) = size {
                table.size = size.parse()?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for TableSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, name_of(&Self::RULES, self)) {
            (Self::Bits(bits), _) => write!(f, "{bits}"),
            (_, name) => f.write_str(name.unwrap_or(LARDER)),
        }
    }
}

impl fmt::Display for Tables {
    /// Writes the name of the base, and the tables that differ from the base.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_base = |(_, tables): &&(_, Self)| tables.base == self.base;
        let (name, base) = Self::NAMED.iter().find(is_base).ok_or(fmt::Error)?;
        f.write_str(name)?;
        for cache in CacheKind::ALL {
            let name = cache.as_str();
            match (self.table(cache), base.table(cache)) {
                (now, of_base) if now == of_base => {}
                (None, _) => write!(f, "+{name}={TREES}")?,
                (Some(TableChoice { function, size }), _) => {
                    write!(f, "+{name}={}/{size}", Finder::from(function))?;
                }
            }
        }
        if self.inode_lookups != base.inode_lookups {
            let name = name_of(&InodeLookups::NAMED, &self.inode_lookups);
            write!(f, "+iget={}", name.unwrap_or_default())?;
        }
        if self.shrinking != base.shrinking {
            let name = name_of(&Shrinking::NAMED, &self.shrinking);
            write!(f, "+shrink={}", name.unwrap_or_default())?;
        }
        Ok(())
    }
}

impl fmt::Display for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Larder => LARDER,
            Self::Function(function) => function.as_str(),
            Self::RedBlackTrees => TREES,
        })
    }
}

impl FromStr for Finder {
    type Err = UnknownFunction;

    fn from_str(name: &str) -> Result<Self, UnknownFunction> {
        match name {
            LARDER => Ok(Self::Larder),
            TREES => Ok(Self::RedBlackTrees),
            name => name.parse().map(Self::Function),
        }
    }
}

/// Implements the conversions with which serde stores a type as a string.
macro_rules! as_text {
    ($type:ty, $error:ty) => {
        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $type {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        }
    };
}

as_text!(Tables, UnknownTables);
as_text!(Finder, UnknownFunction);
