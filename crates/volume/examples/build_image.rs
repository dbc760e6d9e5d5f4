//! Builds an image from a tree. The crate does not create file systems, so mke2fs (package
//! e2fsprogs) creates an empty one:
//!
//! ```console
//! $ cargo run -p larder --example build_image -- disk.img 64M ./tree
//! ```

use larder::OpenOptions;
use std::io;
use std::process::Command;

fn main() -> io::Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [image, size, tree] = arguments.as_slice() else {
        return Err(io::Error::other("usage: build_image IMAGE SIZE TREE"));
    };
    let mut mke2fs = Command::new("mke2fs");
    // On Debian, the directories of administrators are not in the PATH of ordinary users.
    let path = std::env::var("PATH").unwrap_or_default();
    mke2fs.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let made = mke2fs
        .args(["-q", "-t", "ext4"])
        .arg(image)
        .arg(size)
        .status()?;
    if !made.success() {
        return Err(io::Error::other("mke2fs failed"));
    }
    let fs = OpenOptions::new().read_write(true).open(image)?;
    fs.copy_in(tree, "/")?;
    // An error of the last writes is returned here.
    fs.close()
}
