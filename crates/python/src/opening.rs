//! Opens images: files, disk images of other formats, and objects on servers.

use crate::error;
use larder::{Errno, Fs, OpenOptions, Volume};
use larder_block::{BlockDevice, FileDevice, FileRange, PartDevice};
use larder_image::{DiskError, Format, ImageFormat, Medium, NotFound, device_memory_bytes};
use larder_remote::{CacheOptions, ContentDigest, Error as RemoteError, ImageUrl};
use larder_remote::{RemoteDevice, RemoteOptions};
use pyo3::exceptions::{PyRuntimeWarning, PyValueError};
use pyo3::prelude::*;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns whether `image` is a URL, and not the path of a file.
#[pyfunction]
pub(crate) fn is_url(image: &str) -> bool {
    ImageUrl::is_url(image)
}

/// The arguments of `larder.open`. The class `Options` of the package documents those that are optional.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
#[expect(clippy::struct_excessive_bools, reason = "the options are independent")]
pub(crate) struct Settings {
    image: PathBuf,
    #[pyo3(default)]
    read_write: bool,
    #[pyo3(default)]
    partition: Option<u32>,
    #[pyo3(default)]
    offset: u64,
    #[pyo3(default)]
    format: Option<String>,
    #[pyo3(default)]
    cache_size: Option<u64>,
    #[pyo3(default)]
    noload: bool,
    #[pyo3(default)]
    endpoint: Option<String>,
    #[pyo3(default)]
    anonymous: bool,
    #[pyo3(default)]
    allow_unversioned: bool,
    #[pyo3(default)]
    offline: bool,
    #[pyo3(default)]
    cache_dir: Option<PathBuf>,
    #[pyo3(default)]
    cache_disk_size: Option<u64>,
    #[pyo3(default)]
    sha256: Option<String>,
}

/// An image, and how it is opened.
#[derive(Debug)]
pub(crate) struct Opening {
    image: Image,
    settings: Settings,
    format: Option<ImageFormat>,
    sha256: Option<ContentDigest>,
}

/// Where an image is.
#[derive(Debug)]
enum Image {
    File(PathBuf),
    Url(ImageUrl),
}

/// Why an image cannot be opened.
enum Failure {
    Volume(larder::Error),
    Disk(DiskError),
    /// The image does not have the format that the program specified.
    OtherFormat(Format),
    NotFound(NotFound),
    Remote(RemoteError),
    ReadOnly(&'static str),
}

impl From<larder::Error> for Failure {
    fn from(error: larder::Error) -> Self {
        Self::Volume(error)
    }
}

impl From<larder_block::Error> for Failure {
    fn from(error: larder_block::Error) -> Self {
        Self::Volume(error.into())
    }
}

impl From<(Format, DiskError)> for Failure {
    fn from((format, error): (Format, DiskError)) -> Self {
        match error {
            DiskError::OtherFormat => Self::OtherFormat(format),
            error => Self::Disk(error),
        }
    }
}

impl Failure {
    fn described(&self) -> (Errno, String) {
        match self {
            Self::Volume(error) => (error.errno(), error.to_string()),
            Self::Disk(error @ (DiskError::Device(_) | DiskError::Corrupt(_))) => {
                (Errno::IO, error.to_string())
            }
            Self::Disk(error) => (Errno::OPNOTSUPP, error.to_string()),
            Self::OtherFormat(format) => {
                (Errno::INVAL, format!("it is not {}", format.description()))
            }
            Self::NotFound(error @ NotFound::Unreadable(_)) => (Errno::IO, error.to_string()),
            Self::NotFound(error) => (Errno::INVAL, error.to_string()),
            Self::Remote(error) => (error::errno_of(&error.errno()), error.to_string()),
            Self::ReadOnly(what) => (Errno::ROFS, format!("{what} cannot be opened for writing")),
        }
    }
}

impl Opening {
    /// # Errors
    /// `ValueError` if the URL, the format or the SHA-256 is invalid, or if the options cannot be combined.
    pub(crate) fn new(settings: Settings) -> PyResult<Self> {
        let invalid = |what: String| PyValueError::new_err(what);
        let format = settings.format.as_deref();
        let format = format.map(str::parse::<ImageFormat>).transpose();
        let sha256 = settings.sha256.as_deref().map(str::parse).transpose();
        if settings.offset > 0 && settings.partition.is_some() {
            let what = "offset and partition cannot be used together";
            return Err(invalid(what.to_owned()));
        }
        let image = match settings
            .image
            .to_str()
            .filter(|text| ImageUrl::is_url(text))
        {
            Some(url) => {
                Image::Url(ImageUrl::parse(url).map_err(|error| invalid(error.to_string()))?)
            }
            None => Image::File(settings.image.clone()),
        };
        Ok(Self {
            image,
            format: format.map_err(|error| invalid(error.to_string()))?,
            sha256: sha256.map_err(|error| invalid(format!("sha256: {error}")))?,
            settings,
        })
    }

    /// Returns the path, or the URL without its secrets.
    pub(crate) fn label(&self) -> String {
        match &self.image {
            Image::File(path) => path.to_string_lossy().into_owned(),
            Image::Url(url) => url.to_string(),
        }
    }

    pub(crate) fn is_read_write(&self) -> bool {
        self.settings.read_write
    }

    /// Opens the image. Releases the GIL meanwhile.
    ///
    /// # Errors
    /// `OSError` with the name of the image.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<Fs> {
        let mut warning = None;
        let opened = py.detach(|| match &self.image {
            Image::File(path) => self.open_file(path),
            Image::Url(url) => self.open_url(url, &mut warning),
        });
        if let Some(warning) = warning {
            let category = py.get_type::<PyRuntimeWarning>();
            PyErr::warn(py, &category, &warning, 1)?;
        }
        match opened {
            Ok(volume) => Ok(Fs::new(volume)),
            Err(failure) => {
                let (errno, text) = failure.described();
                Err(error::of_image(errno, text, &self.label()))
            }
        }
    }

    fn options(&self) -> OpenOptions {
        let Settings {
            offset,
            cache_size,
            noload,
            read_write,
            ..
        } = self.settings;
        let options = OpenOptions::new()
            .offset_bytes(offset)
            .noload(noload)
            .read_write(read_write);
        match cache_size {
            Some(bytes) => options.cache_size_bytes(bytes),
            None => options,
        }
    }

    fn open_file(&self, path: &Path) -> Result<Volume, Failure> {
        let file = Arc::new(FileDevice::open(path, FileRange::default())?);
        let options = self.options();
        let memory_bytes = device_memory_bytes(options.cache_size_bytes);
        let medium = Medium::open(file, self.format, self.settings.partition, memory_bytes)?;
        if medium.disk.is_some() {
            return self.open_medium(medium, options, memory_bytes);
        }
        let options = self.placed(&medium, options)?;
        // The device holds a lock on the file, which can prevent the open.
        drop(medium);
        Ok(Volume::open(path, &options)?)
    }

    fn open_url(&self, url: &ImageUrl, warning: &mut Option<CString>) -> Result<Volume, Failure> {
        let mut options = self.options().for_server();
        let memory_bytes = device_memory_bytes(options.cache_size_bytes);
        options.cache_size_bytes -= memory_bytes;
        let device = self.remote_device(url, memory_bytes, warning);
        let device = Arc::new(device.map_err(Failure::Remote)?);
        let medium = Medium::open(device, self.format, self.settings.partition, memory_bytes)?;
        self.open_medium(medium, options, memory_bytes)
    }

    /// Opens the object at `url`. If the default directory of the disk cache cannot be used, opens the object without
    /// a disk cache.
    fn remote_device(
        &self,
        url: &ImageUrl,
        memory_bytes: u64,
        warning: &mut Option<CString>,
    ) -> Result<RemoteDevice, RemoteError> {
        let settings = &self.settings;
        let mut options = RemoteOptions::default();
        options.endpoint.clone_from(&settings.endpoint);
        options.anonymous = settings.anonymous;
        options.allow_unversioned = settings.allow_unversioned;
        options.offline = settings.offline;
        options.memory_bytes = memory_bytes;
        options.cache = CacheOptions::new(settings.cache_dir.clone(), settings.cache_disk_size);
        options.sha256 = self.sha256;
        match RemoteDevice::open(url, &options) {
            Err(RemoteError::Cache(why)) if settings.cache_dir.is_none() && !settings.offline => {
                let text = format!("nothing is cached on disk: {why}");
                *warning = CString::new(text).ok();
                options.cache = None;
                RemoteDevice::open(url, &options)
            }
            opened => opened,
        }
    }

    /// Opens the file system on `medium`, which cannot be written.
    fn open_medium(
        &self,
        medium: Medium,
        mut options: OpenOptions,
        memory_bytes: u64,
    ) -> Result<Volume, Failure> {
        if options.read_write {
            let why = match medium.disk {
                Some(disk) => disk.format.description(),
                None => "an object on a server",
            };
            return Err(Failure::ReadOnly(why));
        }
        if medium.disk.is_some() {
            options.cache_size_bytes -= memory_bytes;
        }
        let options = self.placed(&medium, options)?;
        let range = FileRange {
            offset_bytes: options.offset_bytes,
            size_bytes: options.size_bytes,
        };
        let device: Arc<dyn BlockDevice> = if range == FileRange::default() {
            medium.device
        } else {
            Arc::new(PartDevice::new(medium.device, range)?)
        };
        Ok(Volume::open_device(device, &options)?)
    }

    /// Returns `options` for the file system on `medium`.
    fn placed(&self, medium: &Medium, options: OpenOptions) -> Result<OpenOptions, Failure> {
        let number = self.settings.partition;
        if number == Some(0) || options.offset_bytes > 0 {
            return Ok(options);
        }
        let place = medium.contents.place(number).map_err(Failure::NotFound)?;
        Ok(match place {
            Some(partition) => options
                .offset_bytes(partition.offset_bytes)
                .size_bytes(Some(partition.size_bytes)),
            None => options,
        })
    }
}
