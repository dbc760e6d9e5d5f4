//! The options of the recorded mount.

use larder_cache::tables::{Tables, UnknownTables};
use larder_readahead::PolicyName;

/// The options of a mount that the recommendation may change, and the text of all its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// The options as in `-o`, each in the form `key` or `key=value`.
    pub options: Vec<String>,
    /// `cache_size`, in bytes.
    pub cache_size_bytes: u64,
    /// `readahead`.
    pub readahead: PolicyName,
    /// `readahead_max`, in bytes.
    pub readahead_max_bytes: u64,
    /// `tables`.
    pub tables: Tables,
}

/// The default options.
impl Default for Current {
    fn default() -> Self {
        let defaults = larder::OpenOptions::new();
        Self {
            options: Vec::new(),
            cache_size_bytes: defaults.cache_size_bytes,
            readahead: defaults.readahead,
            readahead_max_bytes: defaults.readahead_max_bytes,
            tables: Tables::LARDER,
        }
    }
}

/// The current options cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value of {key}: {reason}")]
pub struct InvalidOption {
    /// The option.
    pub key: String,
    /// The reason.
    pub reason: String,
}

impl Current {
    /// Parses the value of `-o`. `size` parses a size such as `64M`. Options other than `cache_size`,
    /// `readahead`, `readahead_max` and `tables` are kept as they are.
    ///
    /// # Errors
    /// Returns an error if one of these options has an invalid value.
    pub fn parse(
        text: &str,
        size: impl Fn(&str) -> Result<u64, String>,
    ) -> Result<Self, InvalidOption> {
        let mut current = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            current.options.push(option.to_owned());
            let Some((key, value)) = option.split_once('=') else {
                continue;
            };
            let invalid = |reason: String| InvalidOption {
                key: key.to_owned(),
                reason,
            };
            match key {
                "cache_size" => current.cache_size_bytes = size(value).map_err(invalid)?,
                "readahead_max" => current.readahead_max_bytes = size(value).map_err(invalid)?,
                "readahead" => {
                    let policy = value.parse::<PolicyName>();
                    current.readahead = policy.map_err(|error| invalid(error.to_string()))?;
                }
                "tables" => {
                    let tables = value.parse();
                    current.tables =
                        tables.map_err(|error: UnknownTables| invalid(error.to_string()))?;
                }
                _ => {}
            }
        }
        Ok(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Current, InvalidOption> {
        Current::parse(text, |size| {
            size.parse().map_err(|_| format!("{size} is not a size"))
        })
    }

    #[test]
    fn options_are_parsed_and_the_others_are_kept() {
        let current = parse("ro,cache_size=1000000,readahead=modern,fsname=x").unwrap();
        assert_eq!(
            current.options.join(","),
            "ro,cache_size=1000000,readahead=modern,fsname=x"
        );
        assert_eq!(
            (current.cache_size_bytes, current.readahead),
            (1_000_000, PolicyName::Modern)
        );
        assert_eq!(parse("").unwrap(), Current::default());
        let tables = parse("tables=A+iget=all").unwrap().tables;
        assert_eq!(tables.to_string(), "A+iget=all");
        for text in [
            "cache_size=much",
            "readahead=psychic",
            "readahead_max=-1",
            "tables=fast",
        ] {
            let error = parse(text).unwrap_err();
            assert!(text.starts_with(&error.key), "{error}");
        }
    }
}
