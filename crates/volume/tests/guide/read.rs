use larder::{Advice, Fs};
use std::io::{self, Read, Seek, SeekFrom};

pub fn read(fs: &Fs) -> io::Result<()> {
    let hostname = fs.read_to_string("/etc/hostname")?;
    println!("{}", hostname.trim());

    let mut file = fs.open("/data/shard-0.tar")?;
    file.advise(0..u64::MAX, Advice::Sequential);
    let mut header = [0; 512];
    file.read_exact(&mut header)?;
    file.seek(SeekFrom::Start(1 << 20))?;
    io::copy(&mut file, &mut io::sink())?;

    let mut block = vec![0; 4096];
    let len = file.read_at(&mut block, 8192)?;
    println!("{len} bytes");
    Ok(())
}
