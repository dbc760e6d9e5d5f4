pub fn main() -> std::io::Result<()> {
    let fs = larder::open("disk.img")?;
    for entry in fs.walk("/etc")? {
        println!("{}", entry?.path().display());
    }
    let hostname = fs.read_to_string("/etc/hostname")?;
    println!("{hostname}");
    Ok(())
}
