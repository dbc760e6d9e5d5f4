use larder::OpenOptions;
use std::io;

pub fn copy() -> io::Result<()> {
    let fs = OpenOptions::new().read_write(true).open("disk.img")?;
    fs.copy_out("/etc", "etc")?;
    fs.copy_in("etc", "/backup")?;
    fs.close()
}
