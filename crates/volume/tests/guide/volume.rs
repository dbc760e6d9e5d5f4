use larder::{Ino, NewFile, OpenOptions, RenameFlags, Volume};
use std::ops::ControlFlow;

pub fn by_inode() -> larder::Result<()> {
    let volume = Volume::open("disk.img", &OpenOptions::new().read_write(true))?;
    let etc = volume.resolve(b"/etc")?;
    volume.read_dir(etc, 0, &mut |entry| {
        println!("{} {}", entry.ino, String::from_utf8_lossy(entry.name));
        ControlFlow::Continue(())
    })?;
    let hostname: Ino = volume.lookup(etc, b"hostname")?;
    let file = volume.open_file(hostname)?;
    let mut buf = [0; 4096];
    let len = file.read_at(&mut buf, 0)?;
    println!("{}", String::from_utf8_lossy(&buf[..len]));

    let new = NewFile::new().permissions(0o600).owner(1000, 1000);
    let created = volume.create(Ino::ROOT, b"new", &new)?.ino;
    volume.write_all_at(created, b"key = value\n", 0)?;
    volume.sync_file(created, false)?;
    volume.rename(Ino::ROOT, b"new", Ino::ROOT, b"final", RenameFlags::empty())?;
    volume.close()
}
