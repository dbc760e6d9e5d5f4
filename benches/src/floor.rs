//! The FUSE floor: a server with one file whose content is a constant.
//!
//! It uses the same transport as `larder mount`, with the same options (threads, cloned descriptors, no
//! round trip for open, requests of 1 MiB), and does nothing else. It shows the cost of a FUSE mount
//! without a file system.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEntry, ReplyOpen, Request, Session,
};

use larder_fuse::MountOptions;

use crate::tree::BIG_FILE;

const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
const FILE: INodeNo = INodeNo(2);
const REQUEST_BYTES: u32 = 1 << 20;
const MAX_BACKGROUND: u16 = 128;
const CONGESTION_THRESHOLD: u16 = 96;

/// Mounts the floor at `mountpoint` with a file of `size_bytes`, and serves it until unmounted.
pub fn serve(mountpoint: &Path, size_bytes: u64) -> Result<()> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::DefaultPermissions,
        MountOption::FSName("floor".to_owned()),
    ];
    config.n_threads = Some(MountOptions::default().thread_count());
    config.clone_fd = true;
    let floor = Floor {
        size_bytes,
        answer: vec![0x5a; REQUEST_BYTES as usize],
    };
    let session = Session::new(floor, mountpoint, &config).context("cannot mount the floor")?;
    session.run().context("cannot serve the floor")
}

struct Floor {
    size_bytes: u64,
    answer: Vec<u8>,
}

impl Floor {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let is_file = ino == FILE;
        FileAttr {
            ino,
            size: if is_file { self.size_bytes } else { 4096 },
            blocks: self.size_bytes / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: if is_file { 0o644 } else { 0o755 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Floor {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Capabilities that the kernel lacks are omitted: the floor is then that much slower.
        for flag in [
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
        ] {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(REQUEST_BYTES);
        if let Err(most) = config.set_max_readahead(REQUEST_BYTES) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.set_congestion_threshold(CONGESTION_THRESHOLD);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == BIG_FILE {
            reply.entry(&FOREVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if offset == 0 {
            let _full = reply.add(FILE, 1, FileType::RegularFile, BIG_FILE);
        }
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.size_bytes.saturating_sub(offset);
        let len = u64::from(size).min(left).min(u64::from(REQUEST_BYTES));
        let len = usize::try_from(len).unwrap_or(self.answer.len());
        reply.data(&self.answer[..len]);
    }
}
