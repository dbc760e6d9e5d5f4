use larder::Fs;
use std::io;
use std::thread;

pub fn read_in_parallel(fs: &Fs, paths: &[&str]) {
    thread::scope(|scope| {
        for path in paths {
            scope.spawn(move || -> io::Result<usize> {
                let file = fs.open(path)?;
                file.read_at(&mut [0; 4096], 0)
            });
        }
    });
}
