//! Copies a file or a tree out of an image:
//!
//! ```console
//! $ cargo run -p larder --example copy_tree -- disk.img /etc ./etc
//! ```

use std::io;

fn main() -> io::Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [image, from, to] = arguments.as_slice() else {
        return Err(io::Error::other("usage: copy_tree IMAGE FROM TO"));
    };
    larder::open(image)?.copy_out(from, to)
}
