use larder::{CacheKind, Fs};

pub fn report(fs: &Fs) {
    let stats = fs.volume().counts();
    let page = &stats.page;
    println!("page cache: {} hits in {} lookups", page.hits, page.lookups);
    println!("device: {} reads", stats.device.reads);
    println!("{}", fs.volume().histogram(CacheKind::Dentry));
}
