use larder::Fs;
use std::io;
use std::thread;

pub fn read_in_parallel(fs: &Fs, paths: &[&str]) -> io::Result<usize> {
    thread::scope(|scope| {
        let read = |path| fs.open(path)?.read_at(&mut [0; 4096], 0);
        let threads: Vec<_> = paths
            .iter()
            .map(|path| scope.spawn(move || read(path)))
            .collect();
        let lens = threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread panicked"));
        lens.sum()
    })
}
