//! The extended headers of pax archives: records of a length, a key and a value, as in `30 mtime=1350244992.023960108`.

use crate::commands::tar_attributes;
use larder::Timestamp;
use larder_console::name;
use std::collections::BTreeMap;

/// A run of data of a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub offset_bytes: u64,
    pub len_bytes: u64,
}

/// The content of the extended headers before an entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub path: Option<Vec<u8>>,
    /// The real path of a sparse file. `path` is then another one, for programs that do not know such files.
    pub sparse_path: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size_bytes: Option<u64>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub mtime: Option<Timestamp>,
    pub atime: Option<Timestamp>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The names of access control lists, and their texts.
    pub access_lists: BTreeMap<&'static [u8], Vec<u8>>,
    /// The size of a sparse file.
    pub sparse_bytes: Option<u64>,
    /// The runs of a sparse file.
    pub runs: Vec<Run>,
    /// Whether the runs are stored before the content (version 1.0), and not in the headers.
    pub has_map_in_content: bool,
}

impl Pax {
    /// Adds the records in `bytes`.
    ///
    /// # Errors
    /// If a record is malformed.
    pub(super) fn add(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let record = record(bytes);
            let (key, value, rest) = record.ok_or("a record of a pax header is malformed")?;
            let added = self.set(key, value);
            added.ok_or_else(|| format!("the value of {} is invalid", name::escaped(key)))?;
            bytes = rest;
        }
        Ok(())
    }

    /// Applies a record; `None` if its value is invalid. Unknown keys are ignored, as pax requires.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"path" => self.path = Some(text(value)?),
            b"GNU.sparse.name" => self.sparse_path = Some(text(value)?),
            b"linkpath" => self.link = Some(text(value)?),
            b"size" => self.size_bytes = Some(number(value)?),
            b"uid" => self.uid = Some(u32::try_from(number(value)?).ok()?),
            b"gid" => self.gid = Some(u32::try_from(number(value)?).ok()?),
            b"mtime" => self.mtime = Some(time(value)?),
            b"atime" => self.atime = Some(time(value)?),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse_bytes = Some(number(value)?),
            b"GNU.sparse.major" => self.has_map_in_content = number(value)? == 1,
            b"GNU.sparse.offset" => self.runs.push(Run {
                offset_bytes: number(value)?,
                len_bytes: 0,
            }),
            b"GNU.sparse.numbytes" => self.runs.last_mut()?.len_bytes = number(value)?,
            b"GNU.sparse.map" => self.runs = map(value)?,
            // The kernel's values of this attribute end with a NUL byte, which the record lacks.
            b"RHT.security.selinux" => {
                let value = [value.strip_suffix(b"\0").unwrap_or(value), b"\0"].concat();
                self.xattrs.insert(b"security.selinux".to_vec(), value);
            }
            _ => {
                if let Some(list) = tar_attributes::list_of(key) {
                    self.access_lists.insert(list, value.to_vec());
                } else if let Some(name) = tar_attributes::name_of(key) {
                    self.xattrs.insert(name, value.to_vec());
                }
            }
        }
        Some(())
    }
}

/// Splits the first record from `bytes`. Returns its key, its value, and the bytes after it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|&byte| byte == b' ')?;
    let len = usize::try_from(number(bytes.get(..space)?)?).ok()?;
    let (record, rest) = bytes.split_at_checked(len)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|&byte| byte == b'=')?;
    Some((record.get(..equals)?, record.get(equals + 1..)?, rest))
}

/// Returns a path, which must not contain NUL bytes.
fn text(value: &[u8]) -> Option<Vec<u8>> {
    (!value.contains(&0)).then(|| value.to_vec())
}

fn number(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value)
        .ok()?
        .parse()
        .ok()
        .filter(|_| is_number)
}

/// Returns a time in seconds, with or without a fraction. Digits after those of nanoseconds are ignored.
fn time(value: &[u8]) -> Option<Timestamp> {
    let (is_negative, value) = match value.strip_prefix(b"-") {
        Some(value) => (true, value),
        None => (false, value),
    };
    let mut parts = value.splitn(2, |&byte| byte == b'.');
    let seconds = i64::try_from(number(parts.next()?)?).ok()?;
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().chain(std::iter::repeat(&b'0')).take(9);
    let nanoseconds = digits.fold(0, |sum, &digit| sum * 10 + u32::from(digit - b'0'));
    Some(match (is_negative, nanoseconds) {
        (false, _) => Timestamp {
            seconds,
            nanoseconds,
        },
        (true, 0) => Timestamp {
            seconds: -seconds,
            nanoseconds,
        },
        (true, _) => Timestamp {
            seconds: -seconds - 1,
            nanoseconds: 1_000_000_000 - nanoseconds,
        },
    })
}

/// Returns the runs of a sparse file of version 0.1: offsets and lengths, separated by commas.
fn map(value: &[u8]) -> Option<Vec<Run>> {
    if value.is_empty() {
        return Some(Vec::new());
    }
    let mut numbers = value.split(|&byte| byte == b',').map(number);
    let mut runs = Vec::new();
    while let Some(offset_bytes) = numbers.next() {
        runs.push(Run {
            offset_bytes: offset_bytes?,
            len_bytes: numbers.next()??,
        });
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_with_newlines_and_equals_signs_in_values_are_read() {
        let mut pax = Pax::default();
        let records = b"25 SCHILY.xattr.user.%3D=a=\nb\n";
        let len = records.len();
        let records = [format!("{len} ").as_bytes(), &records[3..]].concat();
        pax.add(&records).unwrap();
        let expected = BTreeMap::from([(b"user.=".to_vec(), b"a=\nb".to_vec())]);
        assert_eq!(pax.xattrs, expected);
        for malformed in [
            "5 a=b",
            "4 a=\n",
            "x a=b\n",
            "10 size=-1\n",
            "99 a=b\n",
            " a=b\n",
        ] {
            assert!(pax.add(malformed.as_bytes()).is_err(), "{malformed:?}");
        }
    }

    #[test]
    fn times_have_nanoseconds_and_can_precede_1970() {
        for (text, seconds, nanoseconds) in [
            ("1350244992", 1_350_244_992, 0),
            ("1350244992.023960108", 1_350_244_992, 23_960_108),
            ("1.5", 1, 500_000_000),
            ("1.1234567899", 1, 123_456_789),
            ("-1", -1, 0),
            ("-1.25", -2, 750_000_000),
        ] {
            let expected = Timestamp {
                seconds,
                nanoseconds,
            };
            assert_eq!(time(text.as_bytes()), Some(expected), "{text}");
        }
        for text in ["", "a", "1.x", "--1", "99999999999999999999"] {
            assert_eq!(time(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn map_has_pairs_of_numbers() {
        let run = |offset_bytes, len_bytes| Run {
            offset_bytes,
            len_bytes,
        };
        assert_eq!(map(b"0,512,4096,1"), Some(vec![run(0, 512), run(4096, 1)]));
        assert_eq!(map(b""), Some(Vec::new()));
        assert_eq!(map(b"0,512,4096"), None);
        assert_eq!(map(b"0,-1"), None);
    }
}
