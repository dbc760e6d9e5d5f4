//! The command line of `larder lab constant`.

use clap::Args;
use larder_console::count;
use larder_lab::hash::constant::{TABLE_BITS, WORD_BITS};
use std::path::PathBuf;

/// Derive the multiplier of a multiplicative hash function, and measure it
///
/// As Lever 2000 does in its section 5.1: the prime nearest the golden ratio of the word, of which
/// the upper bits of a product are the bucket. Beside it stand the published 2654435761, the nearest odd
/// number and Linux's, each with what it is worth by itself (the spectral test, the largest gap between
/// neighbours) and, for words of 32 bits and more, with the links that keys walk. For 64 bits
/// this answers what the paper left open: whether another constant needs to be chosen there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab constant                  for words of 64 bits
  larder lab constant --bits 32        is 2654435761 the nearest prime?
  larder lab constant --trace keys.parquet --table-bits 16
  larder lab constant --json | jq -r .multiplier_hex

JSON: bits, golden_ratio, multiplier, multiplier_hex, nearest_primes [{prime, difference}],
multiplications [{name, about, multiplier, shift, quality {prime, difference, spectral, worst_gap}}],
table_bits, key_sets [{keys, objects, chance_links, measured [{multiplication, links, longest_chain,
empty, chi_square, degrees_of_freedom}]}], answer [sentences]")]
pub(crate) struct ConstantArgs {
    /// Bits of the word: 8 to 64
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = count::within(WORD_BITS))]
    pub bits: u32,
    /// Bits of the tables that keys are put into, as many keys as buckets: 4 to 24
    #[arg(long, value_name = "N", default_value_t = 14)]
    #[arg(value_parser = count::within(TABLE_BITS))]
    pub table_bits: u32,
    /// Measure the first keys of each cache in this trace, not keys made up
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Read a trace that was cut short up to its last whole row group
    #[arg(long, requires = "trace")]
    pub salvage: bool,
    /// Write JSON, one object, instead of the tables
    #[arg(long)]
    pub json: bool,
}
