//! Lists a directory of an image, or prints a file:
//!
//! ```console
//! $ cargo run -p larder --example list_and_read -- disk.img /etc
//! ```

use std::io::{self, Write};

fn main() -> io::Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [image, path] = arguments.as_slice() else {
        return Err(io::Error::other("usage: list_and_read IMAGE PATH"));
    };
    let fs = larder::open(image)?;
    if !fs.metadata(path)?.is_dir() {
        return io::stdout().write_all(&fs.read(path)?);
    }
    for entry in fs.read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        println!(
            "{:o} {:>10} {}",
            metadata.permissions,
            metadata.size_bytes,
            entry.path().display()
        );
    }
    Ok(())
}
