use larder::{Fs, OpenOptions, PolicyName};
use std::io;

pub fn open() -> io::Result<Fs> {
    let fs = OpenOptions::new()
        .cache_size_bytes(64 << 20)
        .readahead(PolicyName::Modern)
        .open("disk.img")?;
    let info = fs.volume().info();
    println!("{} {}", info.kind, info.uuid);
    Ok(fs)
}
