//! The settings of a mount, from `-o` options in the style of mount(8), and from command-line flags.

mod recorded;

use crate::args::{MountArgs, VolumeArgs};
use crate::failure::Access;
use crate::option_list::split;
use crate::remote::{self, RemoteArgs};
use crate::{metrics, threads};
use larder::{DataMode, ErrorsMode, MbCacheVariant, OpenOptions};
use larder_console::{Failure, Result, name, print_note, size};
use larder_fuse::{MountOptions, WriteBack};
use larder_image::ImageFormat;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Options of mount(8), fstab(5) and libfuse that are accepted and have no effect. Some concern access
/// times, which reads never change. Others request the normal behaviour of larder, or are handled by
/// mount(8) and similar programs. The rest are hints that larder may ignore.
const IGNORED: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "loop",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "iversion",
    "noiversion",
    "mand",
    "nomand",
    "silent",
    "loud",
    "default_permissions",
    "kernel_cache",
    "acl",
    "user_xattr",
    "delalloc",
    "nodelalloc",
    "discard",
    "nodiscard",
    "auto_da_alloc",
    "barrier",
    "barrier=1",
    "journal_checksum",
];

/// Options that require a value.
pub(crate) const VALUED: &[&str] = &[
    "fsname",
    "subtype",
    "offset",
    "partition",
    "format",
    "overlay",
    "cache_size",
    "readahead",
    "readahead_max",
    "threads",
    "transport",
    "commit",
    "device_timeout",
    "data",
    "errors",
    "mbcache",
    "metrics",
    "tables",
    "endpoint",
    "cache_dir",
    "cache_disk_size",
    "profile",
    "profile_record",
    "sha256",
    remote::URL_FILE_OPTION,
];

/// Options without a value that have an effect.
pub(crate) const SWITCHES: &[&str] = &[
    "ro",
    "rw",
    "sync",
    "dirsync",
    "async",
    "fakeroot",
    "allow_other",
    "allow_root",
    "nonempty",
    "direct_io",
    "writeback_cache",
    "nowriteback_cache",
    "direct_device",
    "readahead_exact",
    "noload",
    "norecovery",
    "no_mbcache",
    "nombcache",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "anonymous",
    "offline",
    "allow_unversioned",
];

/// The note for `nobarrier` and `barrier=0`. In the kernel, these options make syncs faster but less safe.
const NO_BARRIER: &str =
    "nobarrier and barrier=0 have no effect: synced data is always flushed to the device";

/// The default of `threads` for an image at a URL. A thread waits for a reply most of the time, so there must be
/// as many threads as programs that wait. The kernel passes at most 128 reads of its page cache at once.
const REMOTE_THREADS: Option<NonZeroUsize> = NonZeroUsize::new(128);

/// The maximum time between two commits, in seconds.
const MAX_COMMIT_SECONDS: u32 = 24 * 3600;

/// Options that begin with one of these prefixes are accepted, and have no effect.
const IGNORED_PREFIXES: &[&str] = &[
    "x-",
    "X-",
    "comment=",
    "user=",
    "loop=",
    // Earlier versions had threads for readahead.
    "readahead_threads=",
];

/// All settings of a mount.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// How the image is opened.
    pub volume: OpenOptions,
    /// How the volume is mounted.
    pub mount: MountOptions,
    /// The maximum window of readahead, if it was given.
    readahead_max: Option<u64>,
    /// The address where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// The file to which the trace of the cache operations is written.
    pub record: Option<PathBuf>,
    /// Whether the paths of files are recorded, too.
    pub record_paths: bool,
    /// The access that `ro` or `rw` requests.
    pub access: Option<Access>,
    /// The number of the partition that is mounted, if it was given.
    pub partition: Option<u32>,
    /// The format of the image, if it was given.
    pub format: Option<ImageFormat>,
    /// The file with the changes of the image, if they are not in the image.
    pub overlay: Option<PathBuf>,
    /// How an image at a URL is accessed.
    pub remote: RemoteArgs,
}

impl Options {
    /// Returns the settings from the `-o` options and from the flags. Flags take precedence.
    pub(crate) fn of(args: &MountArgs) -> Result<Self> {
        let mut options = Self::of_volume(&args.options, &args.volume)?;
        replace(&mut options.volume.readahead, args.readahead);
        options.readahead_max = args.readahead_max.or(options.readahead_max);
        options.volume.direct_device |= args.direct_device;
        options.metrics = args.metrics.or(options.metrics);
        options.record.clone_from(&args.record);
        options.record_paths = args.record_paths;
        let mount = &mut options.mount;
        mount.threads = args.threads.or(mount.threads);
        replace(&mut mount.transport, args.transport);
        mount.allow_other |= args.allow_other;
        mount.allow_root |= args.allow_root;
        mount.nonempty |= args.nonempty;
        mount.direct_io |= args.direct_io;
        replace(&mut mount.fs_name, args.fsname.clone());
        if let Some(subtype) = &args.subtype {
            mount.subtype = checked_subtype(subtype)?;
        }
        options.resolve_dependent();
        Ok(options)
    }

    /// Returns the settings from lists of `-o` options, and from the flags that say how the image is opened. Flags take
    /// precedence.
    pub(crate) fn of_volume(lists: &[OsString], flags: &VolumeArgs) -> Result<Self> {
        let mut options = Self::default();
        for list in lists {
            options.add_list(list, false)?;
        }
        apply_volume(&mut options.volume, flags);
        // Each of these two flags also replaces the mount option that corresponds to the other one.
        if flags.offset.is_some() {
            options.partition = None;
        }
        if flags.partition.is_some() {
            options.partition = flags.partition;
            options.volume.offset_bytes = 0;
        }
        options.format = flags.format.or(options.format);
        if flags.overlay.is_some() {
            options.overlay.clone_from(&flags.overlay);
        }
        apply_remote(&mut options.remote, &flags.remote);
        options.resolve_dependent();
        Ok(options)
    }

    /// Sets the options that follow from other options. `ro` makes the mount read-only. So does `noload`,
    /// because a mount that ignores the journal must not write.
    fn resolve_dependent(&mut self) {
        let read_write = self.access != Some(Access::Read) && !self.volume.noload;
        self.volume.read_write = read_write;
        self.mount.read_write = read_write;
        replace(&mut self.volume.readahead_max_bytes, self.readahead_max);
        self.mount.kernel_readahead_bytes = self.volume.readahead_max_bytes;
    }

    /// Sets the defaults for an image at a URL, where no option was given.
    pub(crate) fn set_remote_defaults(&mut self) {
        self.volume = self.volume.clone().for_server();
        replace(&mut self.volume.readahead_max_bytes, self.readahead_max);
        // Larder reads further ahead than the kernel can.
        self.mount.kernel_readahead_bytes = MountOptions::KERNEL_READAHEAD_BYTES;
        self.mount.reads_ahead_for_all = true;
        self.mount.threads = self.mount.threads.or(REMOTE_THREADS);
    }

    /// Adds a list of options in the format of `-o`. If `is_sloppy`, unknown options are ignored. Options that cannot
    /// be combined are refused, also if they are in different lists.
    pub(crate) fn add_list(&mut self, list: &OsStr, is_sloppy: bool) -> Result<()> {
        for option in split(list) {
            if option.is_empty() {
                continue;
            }
            if !self.add(&option)? && !is_sloppy {
                return Err(unknown(&option));
            }
        }
        if self.partition.is_some() && self.volume.offset_bytes > 0 {
            return Err(refused(
                "options offset and partition cannot be used together",
            ));
        }
        self.resolve_dependent();
        Ok(())
    }

    /// Adds one option. Returns false if it is unknown.
    fn add(&mut self, option: &OsStr) -> Result<bool> {
        let bytes = option.as_bytes();
        if let Some(at) = bytes.iter().position(|&byte| byte == b'=') {
            let value = OsStr::from_bytes(&bytes[at + 1..]);
            let known = std::str::from_utf8(&bytes[..at]).is_ok_and(|key| !key.is_empty());
            if known && self.add_value(&String::from_utf8_lossy(&bytes[..at]), value)? {
                return Ok(true);
            }
        } else if option == "remount" {
            return Err(refused(
                "remounting is not supported: unmount the image and mount it again",
            ));
        } else if let Some(key) = option.to_str().filter(|key| VALUED.contains(key)) {
            return Err(refused(format!("option {key} needs a value")));
        } else if option
            .to_str()
            .is_some_and(|switch| self.add_switch(switch))
        {
            return Ok(true);
        }
        let is_ignored = |option| is_among(option, IGNORED, IGNORED_PREFIXES);
        Ok(option.to_str().is_some_and(is_ignored))
    }

    fn add_switch(&mut self, switch: &str) -> bool {
        match switch {
            "ro" => self.access = Some(Access::Read),
            "rw" => self.access = Some(Access::Write),
            "sync" | "dirsync" => self.mount.sync = true,
            "async" => self.mount.sync = false,
            "fakeroot" => self.mount.fakeroot = true,
            "allow_other" => self.mount.allow_other = true,
            "allow_root" => self.mount.allow_root = true,
            "nonempty" => self.mount.nonempty = true,
            "direct_io" => self.mount.direct_io = true,
            "writeback_cache" => self.mount.write_back = WriteBack::On,
            "nowriteback_cache" => self.mount.write_back = WriteBack::Off,
            "direct_device" => self.volume.direct_device = true,
            "readahead_exact" => self.volume.readahead_exact = true,
            "noload" | "norecovery" => self.volume.noload = true,
            "nobarrier" => print_note(NO_BARRIER),
            // These are ext4's names for `mbcache=off`.
            "no_mbcache" | "nombcache" => self.volume.mbcache = MbCacheVariant::Off,
            "suid" => self.mount.suid = true,
            "nosuid" => self.mount.suid = false,
            "dev" => self.mount.dev = true,
            "nodev" => self.mount.dev = false,
            "exec" => self.mount.noexec = false,
            "noexec" => self.mount.noexec = true,
            "anonymous" => self.remote.anonymous = true,
            "offline" => self.remote.offline = true,
            "allow_unversioned" => self.remote.allow_unversioned = true,
            _ => return false,
        }
        true
    }

    /// Adds an option with a value. Returns false if it is unknown.
    fn add_value(&mut self, key: &str, value: &OsStr) -> Result<bool> {
        match key {
            "fsname" => value.clone_into(&mut self.mount.fs_name),
            "subtype" => self.mount.subtype = checked_subtype(text(key, value)?)?,
            "offset" => self.volume.offset_bytes = bytes(key, value)?,
            "partition" => self.partition = Some(named(key, value)?),
            "format" => self.format = Some(named(key, value)?),
            "overlay" => self.overlay = Some(value.into()),
            "cache_size" => self.volume.cache_size_bytes = parsed(key, value, size::parse_cache)?,
            "readahead" => self.volume.readahead = named(key, value)?,
            "readahead_max" => self.readahead_max = Some(bytes(key, value)?),
            "threads" => self.mount.threads = Some(parsed(key, value, threads::parse)?),
            "transport" => self.mount.transport = named(key, value)?,
            "commit" => self.volume.commit_seconds = commit_seconds(value)?,
            "device_timeout" => self.volume.device_timeout = device_timeout(value)?,
            "data" => self.volume.data = data_mode(value)?,
            "errors" => self.volume.errors = Some(errors_mode(value)?),
            "mbcache" => self.volume.mbcache = named(key, value)?,
            "tables" => self.volume.tables = named(key, value)?,
            "endpoint" => self.remote.endpoint = Some(text(key, value)?.to_owned()),
            "sha256" => self.remote.sha256 = Some(text(key, value)?.to_owned()),
            "cache_dir" => self.remote.cache_dir = Some(value.into()),
            "profile" => self.remote.profile = Some(value.into()),
            "profile_record" => self.remote.profile_record = Some(value.into()),
            "cache_disk_size" => self.remote.cache_disk_size = Some(bytes(key, value)?),
            // `remote::prepare` has replaced this option, unless it has no effect.
            remote::URL_FILE_OPTION => {
                return Err(refused(format!("option {key} cannot be used here")));
            }
            "metrics" => self.metrics = Some(parsed(key, value, metrics::parse)?),
            "barrier" if value == "0" => print_note(NO_BARRIER),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Returns the options to open an image, for the commands that do not mount.
pub(crate) fn open_options(args: &VolumeArgs) -> OpenOptions {
    let mut options = OpenOptions::default();
    apply_volume(&mut options, args);
    options
}

fn apply_volume(options: &mut OpenOptions, args: &VolumeArgs) {
    replace(&mut options.offset_bytes, args.offset);
    replace(&mut options.cache_size_bytes, args.cache_size);
    options.noload |= args.noload;
}

fn apply_remote(remote: &mut RemoteArgs, args: &RemoteArgs) {
    if args.endpoint.is_some() {
        remote.endpoint.clone_from(&args.endpoint);
    }
    if args.sha256.is_some() {
        remote.sha256.clone_from(&args.sha256);
    }
    if args.cache_dir.is_some() {
        remote.cache_dir.clone_from(&args.cache_dir);
    }
    for (option, flag) in [
        (&mut remote.profile, &args.profile),
        (&mut remote.profile_record, &args.profile_record),
    ] {
        if flag.is_some() {
            option.clone_from(flag);
        }
    }
    remote.cache_disk_size = args.cache_disk_size.or(remote.cache_disk_size);
    remote.offline |= args.offline;
    remote.anonymous |= args.anonymous;
    remote.allow_unversioned |= args.allow_unversioned;
}

/// Sets `option` to the value of `flag`, if the flag was given.
fn replace<T>(option: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *option = value;
    }
}

/// Returns whether `option` is one of `names`, or begins with one of `prefixes`.
pub(crate) fn is_among(option: &str, names: &[&str], prefixes: &[&str]) -> bool {
    names.contains(&option) || prefixes.iter().any(|prefix| option.starts_with(prefix))
}

fn bytes(key: &str, value: &OsStr) -> Result<u64> {
    parsed(key, value, size::parse)
}

fn parsed<T>(key: &str, value: &OsStr, parse: fn(&str) -> Result<T, String>) -> Result<T> {
    parse(text(key, value)?).map_err(|error| refused(format!("option {key}: {error}")))
}

/// Parses the value of the option `key` as a `T`.
fn named<T: FromStr<Err: Display>>(key: &str, value: &OsStr) -> Result<T> {
    text(key, value)?
        .parse()
        .map_err(|error| refused(format!("option {key}: {error}")))
}

/// Parses the interval between commits, in seconds. As in the kernel, 0 stands for the default.
fn commit_seconds(value: &OsStr) -> Result<u32> {
    let seconds = text("commit", value)?
        .parse()
        .map_err(|_| bad_value("commit", "a number of seconds"))?;
    Ok(match seconds {
        0 => OpenOptions::default().commit_seconds,
        seconds if seconds > MAX_COMMIT_SECONDS => {
            return Err(bad_value("commit", "at most 86400 seconds (one day)"));
        }
        seconds => seconds,
    })
}

/// Parses the time after which a thread stops waiting for the device, in seconds. Returns `None`, which
/// means no limit, for 0.
fn device_timeout(value: &OsStr) -> Result<Option<Duration>> {
    let seconds: u32 = text("device_timeout", value)?
        .parse()
        .map_err(|_| bad_value("device_timeout", "a number of seconds"))?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds.into())))
}

fn data_mode(value: &OsStr) -> Result<DataMode> {
    match value.to_str() {
        Some("ordered") => Ok(DataMode::Ordered),
        Some("writeback") => Ok(DataMode::Writeback),
        Some("journal") => Ok(DataMode::Journal),
        _ => Err(bad_value("data", "ordered, writeback or journal")),
    }
}

/// Parses the value of `errors=`. The value `panic`, which stops the machine on a mount of the kernel, is
/// treated as `abort`.
fn errors_mode(value: &OsStr) -> Result<ErrorsMode> {
    match value.to_str() {
        Some("continue") => Ok(ErrorsMode::Continue),
        Some("remount-ro") => Ok(ErrorsMode::RemountReadOnly),
        Some("abort" | "panic") => Ok(ErrorsMode::Abort),
        _ => Err(bad_value("errors", "continue, remount-ro, abort or panic")),
    }
}

fn text<'a>(key: &str, value: &'a OsStr) -> Result<&'a str> {
    value.to_str().ok_or_else(|| bad_value(key, "valid UTF-8"))
}

fn bad_value(key: &str, wanted: &str) -> Failure {
    refused(format!("option {key} must be {wanted}"))
}

/// Returns the failure for an invalid option. Its hint says where the options are listed.
fn refused(message: impl Into<String>) -> Failure {
    Failure::Usage {
        message: message.into(),
        hint: Some("larder mount --help lists the options of -o".to_owned()),
    }
}

fn unknown(option: &OsStr) -> Failure {
    /// The minimum similarity between an unknown name and the name that is suggested instead. Equal names
    /// have a similarity of 1.
    const SIMILAR: f64 = 0.8;
    let option = option.to_string_lossy();
    let name = option.split('=').next().unwrap_or_default();
    let rated = VALUED
        .iter()
        .map(|known| (strsim::jaro_winkler(name, known), known));
    let nearest = rated.max_by(|a, b| a.0.total_cmp(&b.0));
    let suggestion = match nearest {
        Some((similarity, known)) if similarity >= SIMILAR => format!("; did you mean {known}=?"),
        _ => String::new(),
    };
    refused(format!(
        "unknown mount option '{}'{suggestion}",
        name::escaped(option.as_bytes())
    ))
}

/// Checks the subtype, and returns `None` if it is empty. The kernel lists the mount with the type
/// `fuse.SUBTYPE`. Blanks and dots are rejected, because they would confuse programs that parse the list of
/// mounts.
fn checked_subtype(subtype: &str) -> Result<Option<String>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match subtype {
        "" => Ok(None),
        name if name.chars().all(is_plain) => Ok(Some(name.to_owned())),
        _ => Err(bad_value("subtype", "letters, digits, - and _ only")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use larder::{PolicyName, Tables};
    use larder_fuse::Transport;

    fn parsed(list: &str) -> Result<Options> {
        let mut options = Options::default();
        options.add_list(OsStr::new(list), false)?;
        Ok(options)
    }

    #[test]
    fn last_option_decides_whether_the_kernel_collects_writes() {
        for (list, expected) in [
            ("rw", WriteBack::Auto),
            ("nowriteback_cache,writeback_cache", WriteBack::On),
            ("writeback_cache,nowriteback_cache", WriteBack::Off),
        ] {
            assert_eq!(parsed(list).unwrap().mount.write_back, expected, "{list}");
        }
    }

    #[test]
    fn options_with_values_are_read() {
        let options = parsed(
            "ro,offset=1M,cache_size=64m,readahead=off,readahead_max=128K,readahead_exact,\
             threads=3,transport=dev,fsname=a\\,b,metrics=9520",
        )
        .unwrap();
        assert_eq!(options.volume.offset_bytes, 1 << 20);
        assert_eq!(options.volume.cache_size_bytes, 64 << 20);
        assert_eq!(options.volume.readahead, PolicyName::Off);
        assert_eq!(options.volume.readahead_max_bytes, 128 << 10);
        assert!(options.volume.readahead_exact && !Options::default().volume.readahead_exact);
        assert_eq!(options.mount.kernel_readahead_bytes, 128 << 10);
        assert_eq!(options.mount.threads, NonZeroUsize::new(3));
        assert_eq!(options.mount.transport, Transport::Device);
        assert_eq!(options.mount.fs_name, "a,b");
        assert_eq!(options.metrics, Some("127.0.0.1:9520".parse().unwrap()));
        assert!(!options.volume.read_write && !options.mount.read_write);
    }

    #[test]
    fn offset_with_partition_is_refused() {
        for lists in [
            &["offset=1M,partition=2"][..],
            &["partition=2,offset=1M"],
            &["partition=0", "ro,offset=1M"],
        ] {
            let mut options = Options::default();
            let failure = lists
                .iter()
                .find_map(|list| options.add_list(OsStr::new(list), false).err());
            let failure = failure.expect("the last option is refused").to_string();
            assert_eq!(
                failure,
                "options offset and partition cannot be used together"
            );
        }
        let options = parsed("offset=0,partition=2").unwrap();
        assert_eq!(options.partition, Some(2));
    }

    #[test]
    fn flag_of_offset_or_partition_replaces_mount_option_of_the_other() {
        for (option, flag, value, offset_bytes, partition) in [
            ("offset=1M", "--partition", "2", 0, Some(2)),
            ("partition=2", "--offset", "1M", 1 << 20, None),
        ] {
            let args = ["larder", "mount", "-o", option, flag, value, "x", "y"];
            let Command::Mount(args) = Cli::try_parse_from(args).unwrap().command else {
                panic!("not a mount");
            };
            let options = Options::of(&args).unwrap();
            assert_eq!(options.volume.offset_bytes, offset_bytes, "{flag}");
            assert_eq!(options.partition, partition, "{flag}");
        }
    }

    #[test]
    fn every_format_of_images_has_a_name_and_the_flag_wins() {
        for format in ImageFormat::ALL {
            let options = parsed(&format!("format={format}")).unwrap();
            assert_eq!(options.format, Some(format));
        }
        let args = ["larder", "mount", "-o", "format=raw", "--format", "vmdk"];
        let args = args.into_iter().chain(["x", "y"]);
        let Command::Mount(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("not a mount");
        };
        assert_eq!(Options::of(&args).unwrap().format, Some(ImageFormat::Vmdk));
    }

    #[test]
    fn image_at_a_url_has_more_threads_unless_a_number_is_given() {
        for (list, expected) in [("", REMOTE_THREADS), ("threads=3", NonZeroUsize::new(3))] {
            let mut options = parsed(list).unwrap();
            options.set_remote_defaults();
            assert_eq!(options.mount.threads, expected, "{list}");
        }
    }

    #[test]
    fn switches_are_read_and_the_last_wins() {
        let options = parsed(
            "allow_other,nonempty,direct_io,direct_device,noload,suid,nosuid,nodev,dev,noexec,rw",
        )
        .unwrap();
        assert!(options.mount.allow_other && options.mount.nonempty && options.volume.noload);
        assert!(options.mount.direct_io && options.volume.direct_device);
        assert!(!options.mount.suid && options.mount.dev && options.mount.noexec);
        assert!(!options.volume.read_write, "noload does not write");
    }

    #[test]
    fn mount_is_read_write_unless_ro_or_noload_is_given() {
        for (list, expected) in [
            ("", true),
            ("rw", true),
            ("ro", false),
            ("ro,rw", true),
            ("rw,ro", false),
            ("norecovery", false),
            ("noload,rw", false),
        ] {
            let options = parsed(list).unwrap();
            assert_eq!(options.volume.read_write, expected, "{list}");
            assert_eq!(options.mount.read_write, expected, "{list}");
        }
    }

    #[test]
    fn options_on_writing_are_read() {
        let options = parsed("commit=30,data=journal,errors=panic,sync,fakeroot").unwrap();
        assert_eq!(options.volume.commit_seconds, 30);
        assert_eq!(options.volume.data, DataMode::Journal);
        assert_eq!(options.volume.errors, Some(ErrorsMode::Abort));
        assert!(options.mount.sync && options.mount.fakeroot);
        assert_eq!(parsed("commit=0").unwrap().volume.commit_seconds, 5);
        assert_eq!(
            parsed("commit=86400").unwrap().volume.commit_seconds,
            86_400
        );
        let failure = parsed("commit=86401").unwrap_err();
        assert!(failure.to_string().contains("86400"), "{failure}");
    }

    #[test]
    fn device_timeout_of_zero_means_no_limit() {
        let timeout = |list: &str| parsed(list).unwrap().volume.device_timeout;
        assert_eq!(timeout("ro"), None);
        assert_eq!(timeout("device_timeout=7"), Some(Duration::from_secs(7)));
        assert_eq!(timeout("device_timeout=0"), None);
    }

    #[test]
    fn every_readahead_policy_has_a_name() {
        for &name in PolicyName::ALL {
            let options = parsed(&format!("readahead={name}")).unwrap();
            assert_eq!(options.volume.readahead, name);
        }
    }

    #[test]
    fn every_variant_of_mbcache_has_a_name() {
        for variant in MbCacheVariant::ALL {
            let options = parsed(&format!("mbcache={variant}")).unwrap();
            assert_eq!(options.volume.mbcache, variant);
        }
        for (list, expected) in [
            ("no_mbcache", MbCacheVariant::Off),
            ("mbcache=lru,nombcache", MbCacheVariant::Off),
            ("no_mbcache,mbcache=lru", MbCacheVariant::Lru),
        ] {
            assert_eq!(parsed(list).unwrap().volume.mbcache, expected, "{list}");
        }
        let failure = parsed("mbcache=psychic").unwrap_err().to_string();
        assert!(failure.contains("'psychic'"), "{failure}");
        for variant in MbCacheVariant::ALL {
            assert!(failure.contains(variant.as_str()), "{failure}");
        }
    }

    #[test]
    fn named_tables_are_read_and_can_be_changed() {
        for (name, tables) in Tables::NAMED {
            let options = parsed(&format!("tables={name},ro")).unwrap();
            assert_eq!(options.volume.tables, tables, "{name}");
        }
        let changed = parsed("tables=D+page=rbtree+dentry=mult-11/14+shrink=eager").unwrap();
        assert_eq!(changed.volume.tables.buffer, Tables::D.buffer);
        let changed = changed.volume.tables.to_string();
        for part in ["page=rbtree", "dentry=dentry-mult-11/14", "shrink=eager"] {
            assert!(changed.contains(part), "{changed}");
        }
        let failure = parsed("tables=E").unwrap_err().to_string();
        assert!(
            failure.contains("'E'") && failure.contains("reference"),
            "{failure}"
        );
        assert!(
            parsed("tables=page=steiner")
                .unwrap_err()
                .to_string()
                .contains("page-mult")
        );
    }

    #[test]
    fn subtype_can_be_named_and_left_out() {
        assert_eq!(
            parsed("ro").unwrap().mount.subtype.as_deref(),
            Some("larder")
        );
        assert_eq!(
            parsed("subtype=x4").unwrap().mount.subtype.as_deref(),
            Some("x4")
        );
        assert_eq!(parsed("subtype=").unwrap().mount.subtype, None);
        assert!(parsed("subtype=a b").is_err());
    }

    #[test]
    fn options_of_mount_and_fstab_are_accepted() {
        parsed("defaults,noauto,user,users,nofail,_netdev,x-systemd.automount,X-mount.mkdir")
            .unwrap();
        parsed("nodelalloc,nobarrier,barrier=0,barrier=1,barrier,discard,nodiscard").unwrap();
        parsed("comment=hello,relatime,noatime,exec,user=me,loop,loop=/dev/loop0,readahead_threads=4,,").unwrap();
    }

    #[test]
    fn unknown_option_is_named() {
        for list in ["ro,frobnicate", "frobnicate=1,ro", "=", "=x"] {
            let failure = parsed(list).unwrap_err();
            assert!(
                failure.to_string().contains("unknown mount option"),
                "{failure}"
            );
        }
        let message = |list| parsed(list).unwrap_err().to_string();
        assert_eq!(
            message("ro,frobnicate"),
            "unknown mount option 'frobnicate'"
        );
        assert_eq!(
            message("tabels=D"),
            "unknown mount option 'tabels=D'; did you mean tables=?"
        );
    }

    #[test]
    fn unknown_option_is_ignored_when_sloppy() {
        let mut options = Options::default();
        options
            .add_list(OsStr::new("frobnicate,noload"), true)
            .unwrap();
        assert!(options.volume.noload);
    }

    #[test]
    fn invalid_value_error_names_option() {
        for (list, option) in [
            ("offset=x", "offset"),
            ("threads=0", "threads"),
            ("threads=257", "threads"),
            ("transport=tcp", "transport"),
            ("cache_size=1.5G", "cache_size"),
            ("readahead=psychic", "readahead"),
            ("commit=soon", "commit"),
            ("commit", "commit"),
            ("device_timeout=-1", "device_timeout"),
            ("device_timeout", "device_timeout"),
            ("data=none", "data"),
            ("errors=ignore", "errors"),
            ("mbcache=Lru", "mbcache"),
            ("mbcache", "mbcache"),
            ("tables", "tables"),
            ("tables=A+", "tables"),
            ("metrics=everywhere", "metrics"),
            ("metrics", "metrics"),
            ("format=vdi", "format"),
        ] {
            let failure = parsed(list).unwrap_err();
            assert!(failure.to_string().contains(option), "{failure}");
        }
    }
}
