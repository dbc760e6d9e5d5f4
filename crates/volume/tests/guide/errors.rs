use larder::{Errno, Error, Fs};
use std::io::{self, ErrorKind};

pub fn read_if_present(fs: &Fs, path: &str) -> io::Result<Option<Vec<u8>>> {
    match fs.read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            let errno = inner.map(Error::errno);
            if errno == Some(Errno::UCLEAN) {
                eprintln!("the image is damaged: {error}");
            }
            Err(error)
        }
    }
}
