//! The settings of a mount that its trace stores.

use super::Options;
use crate::failure::Access;
use crate::recording::RecordRequest;
use larder::OpenOptions;
use larder_fuse::{Transport, WriteBack};

impl Options {
    /// Returns the parameters of the recording, if one was requested.
    pub(crate) fn record_request(&self) -> Option<RecordRequest> {
        let path = self.record.clone()?;
        Some(RecordRequest {
            path,
            with_paths: self.record_paths,
            options: self.performance_options(),
        })
    }

    /// Returns the options, as for `-o`, that affect what is mounted, or how fast it is. Omits those with default values,
    /// and those that contain names of files.
    fn performance_options(&self) -> Vec<String> {
        let (volume, mount) = (&self.volume, &self.mount);
        let default = OpenOptions::default();
        let mut options = Vec::new();
        let mut add = |is_set: bool, option: String| {
            if is_set {
                options.push(option);
            }
        };
        let switch = |name: &str| name.to_owned();
        add(self.access == Some(Access::Read), switch("ro"));
        add(volume.noload, switch("noload"));
        add(
            volume.offset_bytes > 0,
            format!("offset={}", volume.offset_bytes),
        );
        if let Some(partition) = self.partition {
            add(true, format!("partition={partition}"));
        }
        let cache_bytes = volume.cache_size_bytes;
        add(
            cache_bytes != default.cache_size_bytes,
            format!("cache_size={cache_bytes}"),
        );
        let policy = volume.readahead;
        add(policy != default.readahead, format!("readahead={policy}"));
        if let Some(bytes) = self.readahead_max {
            add(true, format!("readahead_max={bytes}"));
        }
        add(volume.readahead_exact, switch("readahead_exact"));
        add(
            volume.tables != default.tables,
            format!("tables={}", volume.tables),
        );
        add(
            volume.mbcache != default.mbcache,
            format!("mbcache={}", volume.mbcache),
        );
        add(volume.direct_device, switch("direct_device"));
        add(mount.direct_io, switch("direct_io"));
        add(mount.sync, switch("sync"));
        if let Some(threads) = mount.threads {
            add(true, format!("threads={threads}"));
        }
        add(mount.write_back == WriteBack::On, switch("writeback_cache"));
        add(
            mount.write_back == WriteBack::Off,
            switch("nowriteback_cache"),
        );
        add(
            mount.transport == Transport::Uring,
            switch("transport=uring"),
        );
        add(
            mount.transport == Transport::Device,
            switch("transport=dev"),
        );
        options
    }
}
