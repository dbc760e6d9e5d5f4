//! The command `larder lab constant`: derives and measures the multiplier of a hash function.

use super::hash::failure;
use super::reading::tolerance;
use clap::Args;
use larder_console::{Failure, Result, count, write_json};
use larder_lab::hash::constant::{KeySet, MEASURED_BITS, Study, TABLE_BITS, WORD_BITS};
use larder_lab::hash::{Error, TraceFile};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Derive and measure the multiplier of a hash function
///
/// A multiplicative hash function multiplies a key by a constant, and the upper bits of the product
/// select the bucket. As in section 5.1 of C. Lever, "Linux Kernel Hash Table Behavior" (2000), the
/// command takes as multiplier the prime nearest to the golden ratio of the word size. For comparison,
/// the command also measures three others: the published 2654435761; the odd number nearest to the golden
/// ratio; and the constant of Linux.
///
/// Each multiplier is rated by the spectral test, by the largest gap between the products of consecutive
/// keys and, for words of at least 32 bits, by the links that a lookup follows. A link is an entry of a
/// hash chain that a lookup compares with its key. For words of 64 bits, the results answer a question
/// that the paper left open: whether another constant is needed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab constant                  for words of 64 bits
  larder lab constant --bits 32        is 2654435761 the nearest prime?
  larder lab constant --trace keys.parquet --table-bits 16
  larder lab constant --json | jq -r .multiplier_hex

JSON: bits, golden_ratio, multiplier, multiplier_hex, nearest_primes [{prime, difference (from the
golden ratio)}], multiplications [{name, about, multiplier, shift, quality {prime, difference,
spectral, worst_gap}}], table_bits, key_sets [{keys, objects, chance_links (links of a lookup if the
keys were distributed at random), measured [{multiplication, links, longest_chain, empty (buckets),
chi_square, degrees_of_freedom}]}], answer [sentences]")]
pub(crate) struct ConstantArgs {
    /// Size of the word in bits: 8 to 64
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = count::within(WORD_BITS))]
    pub bits: u32,
    /// Measure tables of 2^N buckets and keys (4 to 24)
    #[arg(long, value_name = "N", default_value_t = 14)]
    #[arg(value_parser = count::within(TABLE_BITS))]
    pub table_bits: u32,
    /// Measure with the first keys of each cache in FILE
    ///
    /// By default, keys are generated.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Accept a trace that was cut short or damaged
    ///
    /// The trace is read up to its first missing or damaged row group.
    #[arg(long, requires = "trace")]
    pub salvage: bool,
    /// Write one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(args: &ConstantArgs) -> Result<ExitCode> {
    if args.trace.is_some() && args.bits < MEASURED_BITS {
        return Err(Failure::usage_with_hint(
            format!(
                "words of {} bits are too small for the keys of a trace",
                args.bits
            ),
            format!("use --bits {MEASURED_BITS} or more, or omit --trace"),
        ));
    }
    let keys = match &args.trace {
        Some(path) => recorded(path, args),
        None => KeySet::generated(args.table_bits),
    };
    let keys = keys.map_err(|error| failure(&error))?;
    let study = Study::new(args.bits, args.table_bits, &keys);
    if args.json {
        write_json(&study)?;
    } else {
        let mut out = io::stdout().lock();
        write!(out, "{study}")?;
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn recorded(path: &Path, args: &ConstantArgs) -> std::result::Result<Vec<KeySet>, Error> {
    let trace = TraceFile::open(path, tolerance(args.salvage))?;
    KeySet::read(&trace, args.table_bits)
}
