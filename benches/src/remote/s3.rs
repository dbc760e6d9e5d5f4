//! The image in the layout of s3backer: an object for each block that is not zero.
//!
//! nginx serves the objects. It ignores the credentials of the requests, and is faster than a server that checks them.

use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::child;
use crate::remote::nginx;
use crate::remote::service::Service;
use crate::server::Server;
use crate::user::User;

const BUCKET: &str = "images";
/// The length of a block: that of a unit of larder's disk cache.
const BLOCK_BYTES: usize = 64 << 10;
/// The name of the local file.
const FILE: &str = "file";

/// A server with the blocks of the image.
#[derive(Debug)]
pub(super) struct Blocks {
    service: Service,
    image_bytes: u64,
}

impl Blocks {
    /// Copies the image to objects in `folder`, and starts a server.
    pub(super) fn copy(image: &Path, folder: &Path) -> Result<Self> {
        let root = folder.join("s3");
        let objects = root.join(BUCKET);
        fs::create_dir_all(&objects)?;
        let mut from = File::open(image)?;
        let image_bytes = from.metadata()?.len();
        let mut number = 0_u32;
        loop {
            let mut block = Vec::with_capacity(BLOCK_BYTES);
            from.by_ref()
                .take(BLOCK_BYTES as u64)
                .read_to_end(&mut block)?;
            if block.is_empty() {
                break;
            }
            if block.iter().any(|&byte| byte != 0) {
                block.resize(BLOCK_BYTES, 0);
                fs::write(objects.join(format!("{number:08x}")), block)?;
            }
            number += 1;
        }
        let location = format!("location / {{ alias {}/; }}", root.display());
        Ok(Self {
            service: nginx::start(&root, &location)?,
            image_bytes,
        })
    }

    /// Returns the address of the server.
    pub(super) const fn address(&self) -> SocketAddr {
        self.service.address
    }

    /// Mounts the blocks for reading. Requests are sent to `address`.
    pub(super) fn mount(&self, address: SocketAddr, folder: &Path) -> Result<Server> {
        let mountpoint = folder.join("s3backer");
        fs::create_dir_all(&mountpoint)?;
        let mut command = Command::new(child::find("s3backer")?);
        command
            .args(["-f", "--quiet", "--force", "--readOnly"])
            .arg(format!("--baseURL=http://{address}/"))
            .args(["--accessId=larder", "--accessKey=larder"])
            .arg(format!("--blockSize={BLOCK_BYTES}"))
            .arg(format!("--size={}", self.image_bytes))
            // s3backer reads ahead and caches as much as a mount of larder with its defaults.
            .args(["--readAhead=128", "--readAheadTrigger=2"])
            .args(["--blockCacheThreads=128", "--blockCacheSize=4096"])
            .arg(BUCKET)
            .arg(&mountpoint);
        let unmount = vec![child::find("fusermount3")?, "-u".into()];
        let log = folder.join("s3backer.log");
        Server::start(command, mountpoint, unmount, User::Own, &log)
    }

    /// Returns the path of the local file.
    pub(super) fn file(server: &Server) -> PathBuf {
        server.mountpoint().join(FILE)
    }
}
