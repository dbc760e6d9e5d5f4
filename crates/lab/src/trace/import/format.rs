//! The formats that can be imported, with their names and descriptions.

use std::fmt;
use std::str::FromStr;

/// A format that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The default output of blkparse(1).
    Blkparse,
    /// The output of fio's `write_iolog`, version 2 or 3.
    Fio,
    /// The output of strace(1).
    Strace,
    /// The comma-separated values of the traces of Microsoft Research, Cambridge.
    Msr,
    /// libCacheSim's `oracleGeneral`.
    OracleGeneral,
    /// The traces that were published with ARC.
    Arc,
    /// Keys, one on each line: a number, two numbers, or a name.
    Keys,
}

/// An unknown format name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format '{0}'; available: blkparse, fio, strace, msr, oracle-general, arc, keys")]
pub struct UnknownFormat(String);

impl Format {
    /// All formats.
    pub const ALL: [Self; 7] = [
        Self::Blkparse,
        Self::Fio,
        Self::Strace,
        Self::Msr,
        Self::OracleGeneral,
        Self::Arc,
        Self::Keys,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blkparse => "blkparse",
            Self::Fio => "fio",
            Self::Strace => "strace",
            Self::Msr => "msr",
            Self::OracleGeneral => "oracle-general",
            Self::Arc => "arc",
            Self::Keys => "keys",
        }
    }
}

impl Format {
    /// Returns a description of files of this format, with an example line.
    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::Blkparse => "lines such as `8,16 1 42 0.000123456 697 Q RM 223490 + 8 [ls]`",
            Self::Fio => "`fio version 2 iolog`, then lines such as `/data/f read 45056 4096`",
            Self::Strace => "lines such as `7 1700000000.000005 read(3, \"\"..., 832) = 832`",
            Self::Msr => "lines such as `128166372003061629,hm,1,Read,383496192,32768,413`",
            Self::OracleGeneral => {
                "binary records of 24 bytes: seconds, object, size, number of the next request"
            }
            Self::Arc => {
                "lines such as `1284 8 0 17`: first block, number of blocks, 0, number of the request"
            }
            Self::Keys => "one key on each line, such as `1234`, `1234 7` or `name`",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|format| format.as_str() == text)
            .ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}
