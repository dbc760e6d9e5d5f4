use larder::block::{BlockDevice, FileDevice, FileRange, PartDevice};
use larder::{Fs, OpenOptions, Volume};
use larder_image::{Medium, device_memory_bytes};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

pub fn open_any(path: &Path) -> Result<Fs, Box<dyn Error>> {
    let options = OpenOptions::new();
    let file = Arc::new(FileDevice::open(path, FileRange::default())?);
    let memory_bytes = device_memory_bytes(options.cache_size_bytes);
    let medium = Medium::open(file, None, None, memory_bytes).map_err(|(_, error)| error)?;
    let device: Arc<dyn BlockDevice> = match medium.contents.place(None)? {
        Some(partition) => {
            let range = FileRange {
                offset_bytes: partition.offset_bytes,
                size_bytes: Some(partition.size_bytes),
            };
            Arc::new(PartDevice::new(medium.device, range)?)
        }
        None => medium.device,
    };
    Ok(Fs::new(Volume::open_device(device, &options)?))
}
