//! Parameters of workloads: their definitions, and their values from `name=value` text.

use std::fmt;

use super::WorkloadError;
use crate::simulator::PAGE_BYTES;

/// The definition of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// The name of the parameter, as in `NAME:name=value`.
    pub name: &'static str,
    /// The unit of the value.
    pub unit: Unit,
    /// The default value.
    pub default: u64,
    /// The minimum and the maximum.
    pub range: (u64, u64),
    /// The parameter that counts the sharers of these bytes, each of which needs at least one page.
    pub page_for_each: Option<&'static str>,
    /// The description of the parameter, in one line.
    pub about: &'static str,
}

/// The syntax of a value. All values are stored as integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number.
    Count,
    /// Bytes, with K, M, G or T for powers of 1024.
    Bytes,
    /// A time, with ns, us, ms or s; stored in nanoseconds.
    Time,
}

impl Unit {
    /// Returns the suffixes and their factors. A suffix that ends in another suffix precedes it:
    /// `ms` precedes `s`.
    const fn suffixes(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Count => &[],
            Self::Bytes => &[
                ("T", 1 << 40),
                ("G", 1 << 30),
                ("M", 1 << 20),
                ("K", 1 << 10),
            ],
            Self::Time => &[
                ("ms", 1_000_000),
                ("us", 1000),
                ("ns", 1),
                ("s", 1_000_000_000),
            ],
        }
    }

    /// Parses a value.
    fn parse(self, text: &str) -> Option<u64> {
        let (digits, factor) = self
            .suffixes()
            .iter()
            .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)))
            .unwrap_or((text, 1));
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse::<u64>().ok()?.checked_mul(factor)
    }

    /// Formats a value, with the largest suffix that keeps it an integer.
    fn format(self, value: u64) -> String {
        self.suffixes()
            .iter()
            .filter(|(_, factor)| value > 0 && value.is_multiple_of(*factor))
            .max_by_key(|(_, factor)| *factor)
            .map_or_else(
                || value.to_string(),
                |(suffix, factor)| format!("{}{suffix}", value / factor),
            )
    }

    /// Returns an example value for error messages.
    const fn example(self) -> &'static str {
        match self {
            Self::Count => "a number such as 64",
            Self::Bytes => "a size such as 64K or 1G",
            Self::Time => "a time such as 500us or 1s",
        }
    }
}

impl ParameterInfo {
    /// Returns the formatted default.
    #[must_use]
    pub fn default_text(&self) -> String {
        self.unit.format(self.default)
    }

    /// Parses and checks a value.
    fn value(&self, workload: &'static str, text: &str) -> Result<u64, WorkloadError> {
        let value = self
            .unit
            .parse(text)
            .ok_or_else(|| WorkloadError::NotAValue {
                workload,
                parameter: self.name,
                value: text.to_owned(),
                expected: self.unit.example(),
            })?;
        let (least, most) = self.range;
        if value < least || value > most {
            return Err(WorkloadError::OutOfRange {
                workload,
                parameter: self.name,
                value: text.to_owned(),
                least: self.unit.format(least),
                most: self.unit.format(most),
            });
        }
        Ok(value)
    }
}

/// The values of a workload's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    infos: &'static [ParameterInfo],
    values: Vec<u64>,
}

impl Parameters {
    /// Returns the default values.
    pub(super) fn defaults(infos: &'static [ParameterInfo]) -> Self {
        Self {
            infos,
            values: infos.iter().map(|info| info.default).collect(),
        }
    }

    /// Parses values, as in `streams=64,request=64K`, with defaults for omitted parameters.
    pub(super) fn parse(
        workload: &'static str,
        infos: &'static [ParameterInfo],
        text: &str,
    ) -> Result<Self, WorkloadError> {
        let known = || {
            let names: Vec<&str> = infos.iter().map(|info| info.name).collect();
            names.join(", ")
        };
        let mut parameters = Self::defaults(infos);
        let mut is_given = vec![false; infos.len()];
        for item in text.split(',') {
            if item.is_empty() {
                let known = known();
                return Err(WorkloadError::EmptyParameter { workload, known });
            }
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            let Some(at) = infos.iter().position(|info| info.name == name) else {
                return Err(WorkloadError::UnknownParameter {
                    workload,
                    parameter: name.to_owned(),
                    known: known(),
                });
            };
            if std::mem::replace(&mut is_given[at], true) {
                return Err(WorkloadError::RepeatedParameter {
                    workload,
                    parameter: infos[at].name,
                });
            }
            parameters.values[at] = infos[at].value(workload, value)?;
        }
        parameters.check_pages(workload)?;
        Ok(parameters)
    }

    /// Rejects a file that is too small to have a page for each sharer.
    fn check_pages(&self, workload: &'static str) -> Result<(), WorkloadError> {
        for info in self.infos {
            let Some(sharers) = info.page_for_each else {
                continue;
            };
            let (value, count) = (self.get(info.name), self.get(sharers));
            let least = count.saturating_mul(PAGE_BYTES);
            if value < least {
                return Err(WorkloadError::NoPageForEach {
                    workload,
                    parameter: info.name,
                    value: info.unit.format(value),
                    sharers,
                    count,
                    least: info.unit.format(least),
                });
            }
        }
        Ok(())
    }

    /// Returns the value of a parameter.
    pub(super) fn get(&self, name: &str) -> u64 {
        let at = self.infos.iter().position(|info| info.name == name);
        self.values[at.expect("a workload reads only its own parameters")]
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (info, value)) in self.infos.iter().zip(&self.values).enumerate() {
            let between = if number == 0 { "" } else { "," };
            write!(f, "{between}{}={}", info.name, info.unit.format(*value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_value_of_each_unit_parses_to_itself() {
        let table = [
            (Unit::Count, "64", 64),
            (Unit::Count, "0", 0),
            (Unit::Bytes, "64K", 64 << 10),
            (Unit::Bytes, "3G", 3 << 30),
            (Unit::Bytes, "100", 100),
            (Unit::Time, "1s", 1_000_000_000),
            (Unit::Time, "1500us", 1_500_000),
            (Unit::Time, "7ns", 7),
        ];
        for (unit, text, value) in table {
            assert_eq!(unit.parse(text), Some(value), "{text}");
            assert_eq!(unit.format(value), text);
        }
    }

    #[test]
    fn invalid_value_is_refused() {
        for text in [
            "",
            "K",
            "-1",
            "+1",
            "1.5K",
            "99999999999999999999",
            "20000000T",
            "1 K",
        ] {
            assert_eq!(Unit::Bytes.parse(text), None, "{text:?}");
        }
        assert_eq!(Unit::Count.parse("1K"), None);
        assert_eq!(Unit::Time.parse("1m"), None);
    }
}
