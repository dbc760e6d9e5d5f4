//! Reads all files of an image twice, and prints the hit rates of the caches:
//!
//! ```console
//! $ cargo run -p larder --example hit_rates -- disk.img
//! ```

use larder::{Fs, OpenOptions};
use std::io;

fn main() -> io::Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [image] = arguments.as_slice() else {
        return Err(io::Error::other("usage: hit_rates IMAGE"));
    };
    let fs = OpenOptions::new().cache_size_bytes(64 << 20).open(image)?;
    for pass in 1..=2 {
        let bytes = read_all(&fs)?;
        println!("after pass {pass} over {bytes} bytes:");
        for (kind, cache) in fs.volume().stats().caches() {
            let (hits, lookups) = (cache.hits, cache.lookups);
            let permille = hits * 1000 / lookups.max(1);
            println!(
                "  {kind:?}: {}.{}% of {lookups} lookups",
                permille / 10,
                permille % 10
            );
        }
    }
    Ok(())
}

/// Reads all regular files, and returns the number of bytes.
fn read_all(fs: &Fs) -> io::Result<usize> {
    let mut bytes = 0;
    for entry in fs.walk("/")? {
        let entry = entry?;
        if entry.metadata()?.is_file() {
            bytes += fs.read(entry.path())?.len();
        }
    }
    Ok(bytes)
}
