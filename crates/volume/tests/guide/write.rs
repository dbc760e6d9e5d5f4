use larder::{FileOptions, OpenOptions};
use std::io::{self, Write};

pub fn write() -> io::Result<()> {
    let fs = OpenOptions::new().read_write(true).open("disk.img")?;
    fs.create_dir_all("/etc/app")?;

    let mut file = fs.create("/etc/app/config.new")?;
    file.write_all(b"key = value\n")?;
    file.sync_all()?;
    fs.rename("/etc/app/config.new", "/etc/app/config")?;
    fs.set_permissions("/etc/app/config", 0o600)?;

    let mut log = fs.open_with("/log", FileOptions::new().append(true).create(true))?;
    log.write_all(b"configured\n")?;

    fs.close()
}
