//! An image that one side has opened and mounted, with the server that sends it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use crate::remote::measure::Side;
use crate::remote::mount::Mount;
use crate::remote::network::Network;
use crate::remote::peers::Provided;
use crate::remote::setup::Setup;
use crate::remote::store::Store;
use crate::server::Server;

/// A mounted image. It is unmounted when this is dropped.
#[derive(Debug)]
pub(super) struct Opened {
    // Fields drop in this order: the mount ends before what it reads.
    mounted: Server,
    _provider: Option<Server>,
    pub store: Store,
    folder: TempDir,
}

impl Opened {
    /// Mounts the image with `side`, with a new cache.
    pub(super) fn new(setup: &Setup, network: Network, side: Side) -> Result<Self> {
        Self::with(setup, (network, side), Mount::default())
    }

    /// Mounts the image with `side`, with a new cache and the options of `mount`.
    pub(super) fn with(
        setup: &Setup,
        (network, side): (Network, Side),
        mut mount: Mount,
    ) -> Result<Self> {
        let folder = setup.new_folder()?;
        let (image, provider, store) = if Side::PEERS.contains(&side) {
            let provided = Provided::new(setup, network, side, folder.path())?;
            let file = provided.file.to_string_lossy().into_owned();
            (file, Some(provided.server), provided.store)
        } else {
            let store = Store::of_file(&setup.image.path, network)?;
            (store.url(), None, store)
        };
        if side == Side::LarderDisk {
            mount = mount.with("--cache-dir", folder.path().join("cache"));
        }
        if side == Side::LarderAdaptive {
            mount = mount.with("--readahead", "adaptive");
        }
        if side == Side::LarderOff {
            mount = mount.with("--readahead", "off");
        }
        let mounted = mount.start(&setup.larder, &image, folder.path())?;
        Ok(Self {
            mounted,
            _provider: provider,
            store,
            folder,
        })
    }

    /// Returns the root of the mounted image.
    pub(super) fn root(&self) -> &Path {
        self.mounted.mountpoint()
    }

    /// Returns the folder of logs.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of a log.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
