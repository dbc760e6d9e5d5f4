use larder::Fs;
use std::io;

pub fn list(fs: &Fs) -> io::Result<()> {
    for entry in fs.read_dir("/etc")? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        println!("{} {}", metadata.size_bytes, entry.path().display());
    }
    for entry in fs.walk("/")? {
        println!("{}", entry?.path().display());
    }
    Ok(())
}
