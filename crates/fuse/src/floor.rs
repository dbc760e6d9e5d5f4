//! The FUSE floor, for benches: a read-only mount with one file, whose requests are answered without a volume.
//!
//! It has the transports and the defaults of a mount by [`Server`](crate::Server), and does nothing else. It
//! shows what a FUSE mount costs without a file system.

use crate::mount::attach::{Attached, attach};
use crate::node::NodeId;
use crate::operations::{Answer, FOREVER};
use crate::protocol::abi::{Attr, AttrOut, EntryOut};
use crate::protocol::{Body, Header, Malformed, Operation, Request, type_bits};
use crate::server::{Unmounter, Unserved, abort, raise_kernel_readahead};
use crate::transport::{self, Handler, Outcome, Waiting};
use crate::{MountOptions, Result, Transport};
use larder::FileKind;
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;

/// The node of the file.
const FILE: NodeId = NodeId(3);

/// Mounts the floor at `mountpoint` over `transport`, and serves it until it is unmounted. Each name in its
/// root denotes the same file of `size_bytes`, whose content is unspecified.
///
/// # Errors
/// Returns the errors of [`Server::mount`](crate::Server::mount), and [`Error::Session`](crate::Error::Session)
/// if the connection to the kernel failed.
pub fn serve(mountpoint: &Path, size_bytes: u64, transport: Transport) -> Result<()> {
    let options = MountOptions {
        fs_name: "floor".into(),
        subtype: Some("floor".to_owned()),
        transport,
        ..MountOptions::default()
    };
    let Attached {
        device,
        entry,
        is_inherited,
    } = attach(mountpoint, &options)?;
    let mut guard = Unserved(Some(Unmounter {
        entry: entry.clone(),
        is_inherited,
    }));
    let session = transport::start_with(Arc::new(Floor { size_bytes }), device, &options)?;
    raise_kernel_readahead(&entry, options.kernel_readahead_bytes);
    session.run(|| abort(&entry))?;
    guard.0 = None;
    Ok(())
}

#[derive(Debug)]
struct Floor {
    size_bytes: u64,
}

impl Handler for Floor {
    fn answer(
        &self,
        _: &Header,
        request: Result<Request<'_>, Malformed>,
        _: Waiting,
        body: &mut Body<'_>,
    ) -> Outcome {
        let Ok(request) = request else {
            return Outcome::Reply(Err(Errno::INVAL));
        };
        match request.operation {
            Operation::Forget(_) | Operation::BatchForget(_) => Outcome::NoReply,
            operation => Outcome::Reply(self.reply(request.header.node, &operation, body)),
        }
    }
}

impl Floor {
    fn reply(&self, node: NodeId, operation: &Operation<'_>, body: &mut Body<'_>) -> Answer<()> {
        match operation {
            Operation::Lookup(_) => body.add_structure(&EntryOut {
                node: FILE.0,
                name_ttl: FOREVER.as_secs(),
                attr_ttl: FOREVER.as_secs(),
                attr: self.attr(FILE),
                ..EntryOut::default()
            }),
            Operation::GetAttr => body.add_structure(&AttrOut {
                ttl: FOREVER.as_secs(),
                attr: self.attr(node),
                ..AttrOut::default()
            }),
            Operation::Read(read) => {
                let left_bytes = self.size_bytes.saturating_sub(read.offset_bytes);
                let left_bytes = usize::try_from(left_bytes).unwrap_or(usize::MAX);
                // The content of the file is whatever the memory contains.
                body.fill(read.size_bytes as usize, |memory| {
                    Ok(memory.len().min(left_bytes))
                })
            }
            // After this reply to `OPEN`, the kernel opens files without requests.
            _ => Err(Errno::NOSYS),
        }
    }

    fn attr(&self, node: NodeId) -> Attr {
        let (kind, permissions) = match node {
            FILE => (FileKind::Regular, 0o644),
            _ => (FileKind::Directory, 0o755),
        };
        Attr {
            ino: node.0,
            size_bytes: self.size_bytes,
            blocks_512: self.size_bytes / 512,
            mode: type_bits(kind) | permissions,
            links: 1,
            block_size_bytes: 4096,
            ..Attr::default()
        }
    }
}
