//! Other programs that make an image at a URL a local file.
//!
//! Each has options for its best known rate over a link with a delay, and a new cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use larder_testkit::http::OBJECT_NAME;
use larder_testkit::tool;

use crate::child;
use crate::remote::measure::Side;
use crate::remote::network::Network;
use crate::remote::s3::Blocks;
use crate::remote::setup::Setup;
use crate::remote::store::Store;
use crate::server::Server;
use crate::user::User;

/// A local file that another program provides.
#[derive(Debug)]
pub(super) struct Provided {
    /// The mount with the file.
    pub server: Server,
    /// The file.
    pub file: PathBuf,
    /// The server with the image.
    pub store: Store,
}

/// Returns the reason why `side` cannot be measured here, if there is one.
pub(super) fn missing(side: Side) -> Option<String> {
    let needed: &[&str] = match side {
        Side::Nbdkit => &["nbdkit", "nbdfuse"],
        Side::Rclone => &["rclone"],
        Side::Httpdirfs => &["httpdirfs"],
        Side::S3backer => &["s3backer", "nginx"],
        _ => &[],
    };
    let absent = needed.iter().find(|name| find(name).is_err())?;
    Some(format!(
        "{absent} is not installed: run scripts/remote-tools"
    ))
}

/// Returns the path of a program that `scripts/remote-tools` installs.
fn find(name: &str) -> Result<PathBuf> {
    let own = tool::of_project(name).or_else(|| tool::find(name));
    own.with_context(|| format!("{name} is not installed"))
}

impl Provided {
    /// Starts `side`, which must be one of [`Side::PEERS`]. Its mount point, its cache and its log are in `folder`.
    pub(super) fn new(setup: &Setup, network: Network, side: Side, folder: &Path) -> Result<Self> {
        if side == Side::S3backer {
            let blocks = setup.blocks.as_ref().context("the image has no blocks")?;
            let store = Store::before(blocks.address(), network);
            let server = blocks.mount(store.address(), folder)?;
            return Ok(Self {
                file: Blocks::file(&server),
                server,
                store,
            });
        }
        let store = Store::of_file(&setup.image.path, network)?;
        let mountpoint = folder.join(side.name());
        fs::create_dir_all(&mountpoint)?;
        let file = mountpoint.join(OBJECT_NAME);
        let cache = folder.join("cache");
        let mut command = Command::new(find(match side {
            Side::Nbdkit => "nbdfuse",
            _ => side.name(),
        })?);
        match side {
            Side::Nbdkit => command
                .arg("-r")
                .arg(&file)
                .arg("[")
                .arg(find("nbdkit")?)
                .args(["--exit-with-parent", "--threads=64"])
                .args(["--filter=readahead", "--filter=cache", "curl"])
                .args([
                    format!("url={}", store.url()),
                    "cache-on-read=true".to_owned(),
                ])
                .arg("]"),
            Side::Rclone => command
                .args(["mount", ":http:"])
                .arg(&mountpoint)
                .args(["--http-url", &store.folder_url(), "--config", "/dev/null"])
                .args(["--read-only", "--vfs-cache-mode", "full", "--cache-dir"])
                .arg(&cache)
                .args(["--vfs-read-chunk-streams", "16"])
                .args(["--vfs-read-chunk-size", "4M", "--buffer-size", "64M"]),
            Side::Httpdirfs => command
                .args(["-f", "--no-range-check", "--cache", "--cache-location"])
                .arg(&cache)
                .args(["--dl-seg-size", "1", "--max-conns", "64"])
                .arg(store.folder_url())
                .arg(&mountpoint),
            _ => bail!("{} does not provide a file", side.name()),
        };
        fs::create_dir_all(&cache)?;
        let unmount = vec![child::find("fusermount3")?, "-u".into()];
        let log = folder.join(format!("{}.log", side.name()));
        let server = Server::start(command, mountpoint, unmount, User::Own, &log)?;
        Ok(Self {
            server,
            file,
            store,
        })
    }
}
