//! The arguments and the help of the command line.

mod cache;
mod change;
mod create;
mod diff;
mod export;
mod find;
mod fuse2fs;
mod image;
mod overlay;
mod profile;
mod run;
mod shrink;
pub(crate) mod top;
mod usage;

use crate::{metrics, threads};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
use larder::PolicyName;
use larder_console::{Cache, size};
use larder_fuse::Transport;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

pub(crate) use cache::{CacheArgs, CacheCommand, CacheDirArgs};
pub(crate) use change::{MkdirArgs, MvArgs, PutArgs, RmArgs};
pub(crate) use create::{CreateArgs, IdMap, ImageSize};
pub(crate) use diff::DiffArgs;
pub(crate) use export::ExportArgs;
pub(crate) use find::FindArgs;
pub(crate) use fuse2fs::Fuse2fsArgs;
pub(crate) use image::{FilesArgs, ImageArgs, VolumeArgs};
pub(crate) use overlay::{
    OverlayArgs, OverlayCommand, OverlayCommitArgs, OverlayDiffArgs, OverlayDiscardArgs,
    OverlayInfoArgs,
};
pub(crate) use profile::{ProfileArgs, ProfileCommand, ProfilePackArgs};
pub(crate) use run::RunArgs;
pub(crate) use shrink::ShrinkArgs;
pub(crate) use top::TopArgs;
pub(crate) use usage::{DfArgs, DuArgs, TreeArgs};

/// Mount, read and change ext2, ext3 and ext4 images without root
#[derive(Debug, Parser)]
#[command(
    name = "larder",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  larder mount disk.img /mnt/disk      mount an image
  larder umount /mnt/disk              unmount it
  larder run disk.img -- ls -l         mount it only for one command
  larder ls -l disk.img /etc           list a directory without a mount
  larder cp -r disk.img /home backup   copy a tree out of an image
  larder cp -r site disk.img:/srv      copy a tree into an image

The environment variable LARDER_LOG sets the log level: error, warn (default),
info, debug or trace."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Mount(MountArgs),
    Umount(UmountArgs),
    Run(RunArgs),
    Ls(LsArgs),
    Find(FindArgs),
    Tree(TreeArgs),
    Du(DuArgs),
    Df(DfArgs),
    Stat(StatArgs),
    Cat(CatArgs),
    Cp(CpArgs),
    Diff(DiffArgs),
    #[command(visible_alias = "tar")]
    Export(ExportArgs),
    Put(PutArgs),
    Mkdir(MkdirArgs),
    Rm(RmArgs),
    Mv(MvArgs),
    Info(InfoArgs),
    Create(CreateArgs),
    Shrink(ShrinkArgs),
    Stats(StatsArgs),
    Top(TopArgs),
    Overlay(OverlayArgs),
    Cache(CacheArgs),
    Profile(ProfileArgs),
    Fuse2fs(Fuse2fsArgs),
    Lab(LabArgs),
}

/// Simulate, measure and tune caches and readahead
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArgs {
    /// Arguments of larder-lab
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

/// Mount an image
///
/// The command returns as soon as the image is mounted. A server process then runs in the background
/// until the image is unmounted. Users other than root need fusermount3 (package fuse3).
///
/// By default, the image is mounted read-write, which requires exclusive access: if the image is in
/// use, the mount fails. If the image cannot be written for another reason, such as its permissions,
/// it is mounted read-only, with a warning. An image at a URL is mounted read-only.
///
/// With --overlay FILE, an image that is read-only or at a URL can be mounted read-write, too: the changes are kept in
/// FILE. Several mounts can share the image if each has its own FILE. The command 'larder overlay' shows, applies or removes
/// the changes.
///
/// A read-only mount never writes to the image. If the journal needs recovery, larder replays it in
/// memory, unless --noload is given.
#[derive(Debug, Args)]
#[command(after_help = "\
Mount options (-o). If two mount options contradict each other, the last one
wins. If a flag contradicts a mount option, the flag wins. There are three
exceptions: noload always wins over rw, allow_other over allow_root, and
direct_io over writeback_cache. The mount options offset= and partition=
cannot be used together.
  offset=, partition=, format=, overlay=, cache_size=, readahead=,
  readahead_max=, threads=, transport=, fsname=, subtype=, metrics=,
  endpoint=, cache_dir=, cache_disk_size=, profile=,
  profile_record=, sha256=, url_file=,
  direct_io, direct_device, allow_other, allow_root, nonempty,
  anonymous, allow_unversioned, offline
        same as the flags with these names; for example, cache_size=
        is the same as --cache-size
  readahead_exact
        apply the readahead policy exactly as in the Linux version
        that it models. By default, larder differs as follows:
        - with N active readers, a window takes at most 1/(3N) of the
          page cache, but 4 pages are always permitted
        - with legacy and ondemand, concurrent reads of one open file
          share its readahead state
        - for an image at a URL, the speed of the connection also
          limits windows
        - for an image at a URL, the first window can be longer with
          ondemand and modern
        With readahead_exact, only readahead_max= limits a window. With
        readahead_exact and the policy legacy or ondemand, concurrent
        reads do not share the readahead state: each read works with a
        copy, and stores it as the new state of the open file when the
        read ends. Without direct_io, the policy sees only the kernel's
        requests, so combine this option with direct_io. The policy
        adaptive does not model a version of Linux. It ignores
        readahead_exact, and each value of readahead_max= except 0.
  noload, norecovery
        same as --noload: the journal is ignored, even if it needs
        recovery, and the mount is read-only, even with rw
  ro, rw
        ro: mount read-only (several mounts can share the image);
        rw: mount read-write, or fail. Without overlay=, the image
        must be writable and not in use.
        Without ro and rw, an image that is in use is not mounted. If
        the image cannot be written for another reason, such as its
        permissions, it is mounted read-only, with a warning. An image
        at a URL is mounted read-only, unless overlay= is given.
        mount(8) passes rw even if the user did not give it. Therefore
        mount -t larder ignores rw.
  commit=SECONDS
        interval between journal commits [default: 5; 0 means 5;
        maximum: 86400]
  device_timeout=SECONDS
        time after which a read fails with EIO if the image's device
        does not answer. With direct_device, it also limits writes:
        if a write takes longer, the mount becomes read-only.
        [default: 0 (no timeout); for an image at a URL, the default
        is 60, and 0 means 60]
  data=ordered|writeback|journal
        ordered: file content is written to the image before the
        metadata that refers to it is committed; writeback: same as
        ordered; journal: file content is first written to the
        journal, and later to its place in the image
        [default: ordered]
  errors=continue|remount-ro|abort|panic
        action when corruption is detected during a change or during
        write-back. continue: only this operation fails; remount-ro
        and abort: the operation fails, the mount becomes read-only,
        and uncommitted changes are lost; panic: same as abort
        [default: as set in the superblock]
  mbcache=old|lru|list-lru|referenced|clock|off
        implementation of the cache of shared attribute blocks: files
        with equal extended attributes share one block
        [default: referenced]; no effect on read-only mounts
          old         as in Linux before J. Kara's rewrite of 2016:
                      two indexes, one lock
          lru         the rewrite with one LRU list
          list-lru    the rewrite with an LRU list for each processor
          referenced  the rewrite with a referenced bit, as in Linux
          clock       larder's own: no list, searches by hash without
                      locks
          off         no cache: new attribute blocks are not shared
  no_mbcache, nombcache
        same as mbcache=off
  tables=[BASE][+CACHE=FUNCTION[/SIZE]]...[+sizes=RULE]
         [+iget=misses|all][+shrink=normal|eager]
        hash functions and sizes of the caches' hash tables: see below
  sync, dirsync, async
        sync: a system call returns when its change is durable;
        dirsync: same as sync; async: a change is durable after the
        next commit or fsync(2) [default: async]
  writeback_cache, nowriteback_cache
        writeback_cache: the kernel collects writes before it sends
        them to larder. Small writes are then faster, but errors such
        as ENOSPC are reported by close(2) or fsync(2).
        nowriteback_cache: the kernel sends each write immediately.
        [default: writeback_cache if sync is not set, and larder can
        set aside space for the writes; otherwise nowriteback_cache;
        with direct_io, always nowriteback_cache]
        To set aside space, larder needs Linux 6.2 or later and enough
        available space in the image. If root mounts, at least 64 MiB
        must be available (more without extents or with bigalloc). If
        another user mounts, the necessary space grows with the
        memory of the machine.
  fakeroot
        skip permission checks: every user with access to the mount
        can do everything
  suid, nosuid, dev, nodev
        suid, nosuid: honour or ignore set-id bits; dev, nodev:
        honour or ignore device files; only root can use suid and dev
        [default: nosuid,nodev, but suid,dev if root mounts with
        mount(8)]
  exec, noexec
        noexec: do not run programs from the mount [default: exec]
  nobarrier, barrier=0
        accepted, but no effect; larder prints a note
  defaults, noauto, user, nofail, _netdev, x-*, noatime, ...
        accepted because mount(8) and fstab(5) use them; no effect

Tables (-o tables=): the value is a BASE, followed by any number of changes in any
order. Each change starts with +. The changes are applied from left to right. Without
BASE, the + of the first change can be omitted: page=rbtree is the same as
larder+page=rbtree.
  BASE   tables to start from [default: larder]; A to D are the tables
         of the kernels A to D in Lever, \"Linux Kernel Hash Table
         Behavior\" (2000)
    larder     larder's own functions, in tables sized for
               --cache-size; only these functions resist file names
               that are chosen to collide
    reference  the tables of Linux 2.2.5, as FUNCTION/N (2^N buckets):
               page-reference/11, buffer-reference/15,
               dentry-reference/10, inode-reference/8
    A          page-mult/13, buffer-mult-11/14, dentry-add/13,
               inode-modified/11
    B          as A, but with buffer-steiner/14
    C          as A, but with page-reference/13
    D          as A, but with page-offset/13
  +CACHE=FUNCTION[/SIZE]   a different table for one cache
    CACHE      page, buffer, dentry or inode
    FUNCTION   one of the following:
               - a function that 'larder lab list' prints for this
                 cache or for all caches; the name of the cache can be
                 omitted (mult for page-mult)
               - larder: larder's own function
               - rbtree, for pages only: a red-black tree for each
                 inode, without SIZE
    SIZE       a number N, at most 24, for 2^N buckets, or a RULE of
               sizes= [default: the size does not change]
  +sizes=RULE              sizes of all tables
    larder     about one bucket for each object that fits in
               --cache-size; for buffers, one bucket for every 4 to 8
               frames that fit in --cache-size (a frame is usually
               4 KiB, or one block if blocks are larger)
    2.2.16     as in Linux 2.2.16: one page bucket per 4 KiB of
               --cache-size; 32768 buckets for buffers, 1024 for
               dentries, 256 for inodes
    today      as in current Linux: one dentry bucket per 8 KiB of
               --cache-size, and one inode bucket per 16 KiB; pages
               and buffers, which have no tables in current Linux, get
               one bucket per 4 KiB each
  +iget=misses|all         which lookups of inodes use the hash table
                           [default: misses]
    misses     only lookups of inodes to which larder has no reference.
               This models the kernel: there, a cached dentry points
               to its inode, so the table is used only after a miss in
               the dentry cache. larder keeps such references in an
               array, indexed by inode number. To model the kernel,
               larder deletes its reference to an inode when the
               lookup of a name of this inode misses the dentry
               cache. The next lookup of the inode then uses the
               table.
    all        all lookups
  +shrink=normal|eager     when to evict names (dentries) if memory
                           is short [default: normal]
    normal     only if a scan of a quarter of the pages and buffers
               has freed too little memory
    eager      before all other objects

Examples:
  larder mount disk.img /mnt/disk
  larder mount -o ro disk.img /mnt/disk
  larder mount --overlay changes.qcow2 disk.img /mnt/disk
  larder mount -o offset=1M,allow_other sdcard.img /mnt/card
  larder mount --foreground --cache-size 1G disk.img /mnt/disk
  larder mount -o direct_io,readahead=modern disk.img /mnt/disk
  larder mount -o tables=D+page=rbtree+shrink=eager disk.img /mnt/disk
  larder mount --record disk.trace disk.img /mnt/disk
  larder mount --metrics 9520 disk.img /mnt/disk
  curl http://127.0.0.1:9520/metrics

Without --direct-io, the kernel caches file content and does its own readahead,
and larder's readahead policy applies to the requests of the kernel. If root
mounts a local image, the kernel reads ahead by up to --readahead-max. Its
requests are then as long as larder's windows, so --readahead has little effect.
With --direct-io, every read reaches larder's page cache and readahead policy.
Use --direct-io for large files that are read once in large requests, or to
limit the memory for file content to --cache-size. Otherwise --direct-io is
slower, because every read is a request to larder, even if the content is
cached.

If larder is installed as mount.larder, /etc/fstab can contain lines such as
  /srv/disk.img  /mnt/disk  larder  rw,noauto,user  0 0")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct MountArgs {
    /// Image file, block device or URL
    pub image: PathBuf,
    /// Directory to mount on
    #[arg(value_hint = ValueHint::DirPath)]
    pub mountpoint: PathBuf,
    /// Mount options, separated by commas
    ///
    /// The mount options are listed below. -o can be given several times.
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<OsString>,
    /// Stay in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    pub foreground: bool,
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Readahead policy [default: ondemand]
    ///
    /// legacy: the policy of Linux 2.6.20. ondemand: the policy of Linux 2.6.23. modern: the policy of
    /// Linux 6.18. adaptive: adapts to the access pattern, the memory and the device. off: larder does not
    /// read ahead.
    #[arg(long, value_name = "POLICY", value_parser = policy_names())]
    pub readahead: Option<PolicyName>,
    /// Maximum size of a readahead window [default: 1M; for a URL, an eighth of --cache-size, at most
    /// 32M]
    ///
    /// 0 disables larder's readahead, whatever the policy. The policy adaptive ignores every value except 0. If root mounts a
    /// local image, the value is also the limit of the kernel's own readahead. Otherwise the limit of the kernel is
    /// 128 KiB.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub readahead_max: Option<u64>,
    /// Disable the kernel's cache of file content
    ///
    /// With this option, every read is a request to larder, which uses its own page cache and
    /// readahead. See the end of this help.
    #[arg(long)]
    pub direct_io: bool,
    /// Bypass the kernel's cache of the image
    ///
    /// With this option, the kernel neither caches the image nor reads ahead in it.
    #[arg(long)]
    pub direct_device: bool,
    /// Maximum number of threads that wait for the image's storage [default: 16; 128 for a URL]
    ///
    /// Each request that waits for the storage occupies one thread. On a read-write mount, a few requests
    /// are exempt from the limit, such as some large writes. N is at most 256. Threads start on demand and
    /// exit when idle. With 1, a single thread receives and answers all requests of a read-only mount,
    /// unless --transport is uring.
    #[arg(long, value_name = "N", value_parser = threads::parse)]
    pub threads: Option<NonZeroUsize>,
    #[arg(
        long,
        value_name = "NAME",
        value_parser = transports(),
        help = "How the kernel passes requests to larder [default: auto]",
        long_help = "\
How the kernel passes requests to larder [default: auto]

uring: through io_uring. If the server has CAP_SYS_NICE, as root usually has, most requests for names and \
attributes take less time than with dev, but reads of file content that is not cached usually take more. \
Without this capability, no request takes less time, and some take much more. uring needs Linux \
6.14 or later, and root must enable it:
  echo Y > /sys/module/fuse/parameters/enable_uring
dev: through /dev/fuse.
auto: through io_uring if it is available, --threads is not 1, and the server has CAP_SYS_NICE; \
otherwise through /dev/fuse."
    )]
    pub transport: Option<Transport>,
    /// Give all users access to the mount
    ///
    /// The permissions of the files still apply. For users other than root, /etc/fuse.conf must
    /// allow this option.
    #[arg(long)]
    pub allow_other: bool,
    /// Give root and the mounting user access to the mount
    ///
    /// With this option, the kernel caches neither names nor attributes, so the mount is slower. For
    /// users other than root, /etc/fuse.conf must allow this option.
    #[arg(long)]
    pub allow_root: bool,
    /// Mount on a directory that is not empty
    #[arg(long)]
    pub nonempty: bool,
    /// Source that mount(8) shows [default: the image's path or URL]
    #[arg(long, value_name = "NAME")]
    pub fsname: Option<OsString>,
    /// Subtype of the mount [default: larder]
    ///
    /// mount(8) shows the type fuse.NAME, or fuse if NAME is empty.
    #[arg(long, value_name = "NAME")]
    pub subtype: Option<String>,
    /// Serve metrics for Prometheus over HTTP
    ///
    /// ADDR is ADDRESS:PORT, or only PORT for the loopback address. Port 0 selects any free port.
    /// Everyone who can connect to the address can read the metrics.
    #[arg(long, value_name = "ADDR", value_parser = metrics::parse)]
    pub metrics: Option<SocketAddr>,
    /// Record the cache operations to a new trace file
    ///
    /// The trace is a Parquet file. larder lab can read it while it is being recorded. It contains each
    /// lookup, insertion and removal in the caches, and each read of a file, so it shows which files
    /// were used, and when. larder appends the events every 5 seconds, and the last ones at the
    /// unmount. Events that cannot be written in time are lost. larder stats shows the numbers of
    /// recorded and lost events.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Also record the paths of files
    ///
    /// Without this option, the trace identifies files by their inode numbers, and contains no names.
    #[arg(long, requires = "record")]
    pub record_paths: bool,
    /// Append the log to FILE
    ///
    /// Without this option, the log of a background server is discarded.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

/// Returns the parser for the value of `--readahead`.
fn policy_names() -> impl TypedValueParser<Value = PolicyName> {
    let names = PolicyName::ALL.iter().map(|name| name.as_str());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<PolicyName>())
}

/// Returns the parser for the value of `--transport`.
fn transports() -> impl TypedValueParser<Value = Transport> {
    PossibleValuesParser::new(Transport::NAMES).try_map(|name| name.parse::<Transport>())
}

/// Unmount an image, and wait until all changes are written
///
/// The command returns when all changes are on the image and the image is no longer in use. If the
/// mount is in use, the command fails, unless --lazy is given. If the server of the mount was
/// killed, the command only removes the mount, even if it is in use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder umount /mnt/disk
  larder umount --lazy /mnt/disk    detach a mount that is in use")]
pub(crate) struct UmountArgs {
    /// Mount point
    #[arg(value_hint = ValueHint::DirPath)]
    pub mountpoint: PathBuf,
    /// Detach a mount that is in use
    ///
    /// If the mount is in use, the command detaches it from the mount point and returns immediately.
    /// When no open file, working directory or other mount uses it any longer, the server writes all
    /// changes to the image and exits. If the mount is not in use, --lazy has no effect.
    #[arg(short, long)]
    pub lazy: bool,
}

/// List directories and files of an image
///
/// The files among PATHs are listed first. If there are several PATHs, or with -R, each list begins with the path of its
/// directory.
///
/// If PATH ends in a symbolic link, the command lists the target of the link. With --long, --directory or --json, it lists
/// the link itself, unless PATH ends in a slash.
///
/// A PATH inside the image can be a pattern: * matches any characters, ? one character, and [...] one of the characters in
/// the brackets. A name that begins with a dot is only matched by a pattern that begins with a dot. If a name with these
/// characters exists, it is not treated as a pattern. Quote patterns, so that the shell does not expand them.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    arg(image::long_help_flag()),
    mut_arg("paths", |arg| arg.help("Paths or patterns inside the image [default: /]")),
    override_usage = "larder ls [OPTIONS] <IMAGE> [PATH]...\n       \
                      larder ls [OPTIONS] <IMAGE>:/<PATH>...",
    after_help = "\
Examples:
  larder ls disk.img                      the root directory
  larder ls -la disk.img:/etc
  larder ls -lh 'disk.img:/var/log/*.gz'  files that match a pattern
  larder ls -R disk.img /home /srv        two trees
  larder ls -ld disk.img '/home/*'        the directories themselves
  larder ls --json disk.img:/home | jq '.entries[].name'

JSON: path, entries. Each entry has name and the keys of larder stat --json
except path and xattrs. If the attributes of a file cannot be read, its entry
has only name. If a name is not valid UTF-8, its entry also has name_hex, the
bytes of the name in hexadecimal; likewise path_hex. If path is not a directory,
there is one entry, whose name is path. With -R, a pattern or several PATHs, the
only key is listings: an array of objects with path and entries.

Exit codes:
  0  all files were listed
  1  there was an error below a PATH, or the image cannot be read
  2  the arguments are invalid, or a PATH does not exist or cannot be read"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub files: FilesArgs,
    /// Show type, permissions, hard links, owner, group, size and time
    ///
    /// For a device file, the device numbers replace the size. For a symbolic link, its target is
    /// shown.
    #[arg(short, long)]
    pub long: bool,
    /// With -l, show sizes as in 1.5K, 234M or 2.0G
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Include names that start with a dot
    #[arg(short, long)]
    pub all: bool,
    /// List directories themselves, not their content
    #[arg(short, long)]
    pub directory: bool,
    /// List all directories below each PATH, too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Show the attributes of a file in an image
///
/// If the path ends in a symbolic link, the command shows the link, not its target.
#[derive(Debug, Args)]
#[command(
    override_usage = "larder stat [OPTIONS] <IMAGE> <PATH>\n       \
                      larder stat [OPTIONS] <IMAGE>:/<PATH>",
    after_help = "\
Examples:
  larder stat disk.img:/etc/passwd
  larder stat --json disk.img /bin/sh | jq .size_bytes

JSON: path, ino, type, mode, permissions, links, uid, gid, size_bytes,
blocks_512 (allocated blocks of 512 bytes); accessed, modified, changed and
created (each with seconds and nanoseconds; created is null if the image does
not store it); flags, generation, project_id, xattrs (names only). Device files
also have rdev_major and rdev_minor, and symbolic links have target."
)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Path inside the image
    pub path: Option<OsString>,
}

/// Write files of an image to standard output
#[derive(Debug, Args)]
#[command(
    override_usage = "larder cat [OPTIONS] <IMAGE> <PATH>...\n       \
                      larder cat [OPTIONS] <IMAGE>:/<PATH>...",
    after_help = "\
Examples:
  larder cat disk.img:/etc/os-release
  larder cat https://example.org/disk.img:/etc/os-release
  larder cat disk.img /var/log/syslog /var/log/syslog.1 | grep error

In IMAGE:/PATH, the path begins at the first :/, or at the last one if the image
is a URL. If a file of this machine has the name IMAGE:/PATH, it is the image.
After a URL, a PATH with ? or & must be a separate argument."
)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub files: FilesArgs,
}

/// Copy files out of an image, or into one
///
/// A copy keeps permissions, times, holes, symbolic and hard links, and extended attributes. A copy out
/// of an image keeps hard links only between files that are copied by the same PATH argument, such as
/// files in one tree. A copy into an image keeps hard links between all copied files.
///
/// A copy into an image always keeps owners and device files. A copy out of an image keeps them only if
/// root runs the command. For other users, each device file causes an error, and all copies belong to
/// the user. If the owner or the group of a file cannot be kept, its set-id bits are removed.
///
/// A copy out of an image omits extended attributes that you have no permission to set, or that the
/// destination does not support. If metadata cannot be copied for another reason, the command reports an
/// error, but copies the file with all other metadata.
///
/// A copy into an image omits extended attributes that you have no permission to read, or that ext4 does
/// not support. If metadata cannot be copied for another reason, the command reports an error, and does
/// not copy the file. If the metadata is that of a directory that already exists in the image, the
/// content of the directory is still copied.
///
/// An existing file is replaced only after the new copy is complete. If the copy fails, the
/// existing file is unchanged.
///
/// A regular file that is copied out of an image does not replace DEST if DEST is a device, a FIFO
/// or a symbolic link to a file, such as /dev/stdout. Instead, the content of the file is written to
/// the device, the FIFO or the target of the link. If such a copy fails, the written content may be
/// incomplete.
///
/// Names and links in the image never make the command write outside DEST.
#[derive(Debug, Args)]
#[command(
    override_usage = "larder cp [OPTIONS] <IMAGE> <PATH>... <DEST>\n       \
                      larder cp [OPTIONS] <IMAGE>:/<PATH>... <DEST>\n       \
                      larder cp [OPTIONS] <FILE>... <IMAGE>:/<PATH>",
    after_help = "\
Examples:
  larder cp disk.img:/etc/fstab .             copy a file out of an image
  larder cp -r disk.img /home /root backup/   copy trees into a directory
  larder cp -r disk.img / everything          copy the whole image
  larder cp notes.txt disk.img:/root/         copy a file into an image
  larder cp -r src/. disk.img:/usr/src        copy the content of a directory

If the last argument contains :/, the files are copied into an image. The part
before the first :/ names the image, and the part from the slash on is the path
in the image. If the image is a URL, the path begins at the last :/, and must not
contain ? or &. An argument is an ordinary path if a file of this machine has the
whole argument as its name, or if the part before the :/ is an existing directory.
These rules also apply to sources.

Exit codes:
  0  all files were copied
  1  there was an error: a file, or a part of its metadata, was not copied
  2  the arguments are invalid"
)]
pub(crate) struct CpArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Copy directories with their content
    ///
    /// With -r, a symbolic link that is named as a source is copied as a link. Without -r, the file
    /// to which the link leads is copied.
    #[arg(short, long, visible_short_alias = 'R', short_alias = 'a')]
    pub recursive: bool,
    /// Image, sources and destination, as shown under Usage
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub paths: Vec<OsString>,
}

/// Show label, UUID, features, sizes and journal state, and the partitions
///
/// Without --partition and --offset, larder lists the partitions of an image that has any. If exactly one of
/// them has an ext file system, and the image as a whole has none, larder also shows this file system. If the
/// image as a whole has an ext file system, and no partition has one, larder shows only the file system. If the
/// image has neither an ext file system nor partitions, larder names its format, for example XFS. If the image
/// is a qcow2, VMDK or seekable zstd image, larder shows what the disk in it contains.
///
/// An image that another process has open for writing, such as a read-write mount, is read without a lock and
/// without its journal. The first line then says that the information may be out of date.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder info disk.img
  larder info disk.qcow2
  larder info --partition 2 disk.img
  larder info --json disk.img | jq -r .uuid

JSON: kind (ext2, ext3 or ext4; for other contents, see below), label, uuid,
last_mounted (the last mount point), features, block_size_bytes,
cluster_size_bytes, inode_size_bytes, blocks, blocks_free, inodes, inodes_free,
clean (unmounted cleanly, and no error is recorded), missing_bytes (at the end
of a truncated image), superblock_repair (what is damaged in the primary
superblock, and which backup was read instead; null if the primary superblock
is intact), journal {state; if recovered, also transactions, blocks and
fast_commits}. Values of state: none, clean, external (clean, on another
device), recovered (the journal in the image needs recovery; larder has replayed
it in memory only, and shows the result), ignored (it needs recovery, but
--noload is given, or the image is in use). If there are mounts of this image:
mounts [{mountpoint, transport (if known)}].

If larder lists partitions: table (GPT or MBR), sector_bytes, partitions
[{number, offset_bytes, size_bytes, type, name, content (ext, the name of
another format, or null if it is unknown), error (only if the start of the
partition cannot be read: the reason)}]. If larder also shows the file system in
one of them, 'partition' is the number of this partition. Otherwise, 'kind' is
'partitions', and the other keys of a file system are absent.

If larder shows neither a file system nor partitions, 'kind' is the name of the
format, and the other keys of a file system are absent.

In all cases: in_use (another process has the image open for writing, so what
larder shows may be out of date). If the image is a qcow2, VMDK or seekable zstd
image: disk {format (qcow2, vmdk or zstd), size_bytes, unit_bytes (the size of a
qcow2 cluster, a VMDK grain or the largest zstd frame)}.")]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Show the statistics of a mount
///
/// Only root and the user who mounted the image can use this command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder stats /mnt/disk
  larder stats --json /mnt/disk | jq .page.hits
  larder stats --histogram dentry /mnt/disk
  larder stats --histogram dentry --json /mnt/disk | jq '.rows[].poisson_buckets'
  larder stats --prometheus /mnt/disk > /var/lib/node_exporter/textfile/disk.prom

larder mount --help explains the tables of the caches (-o tables=). A link is
one entry of a hash chain. A lookup compares its key with each link until it
finds the object. 'links/hit' is the mean number of links for a lookup that
hits, and 'links/miss' is the mean number for a lookup that misses. larder also
keeps references from inode numbers to cached inodes. A lookup by reference
walks no chain. It counts in lookups and hits, but not in the two means
('by_reference' in JSON is the number of these lookups). Pages in red-black
trees (-o tables=larder+page=rbtree) have no buckets. For these pages, the two
columns show the tree nodes that a lookup visits, the column 'longest' shows
the depth of the deepest page, and the histogram shows depths instead of chain
lengths.

JSON:
  cache_size_bytes, tables (value of -o tables=)
  page, buffer, dentry, inode, with these keys each:
    finder (hash function, or rbtree), buckets, objects, inserted,
    capacity (maximum number of objects), lookups, hits, by_reference,
    links_on_hits, links_on_misses, longest_chain, bytes
  readahead {policy, max_bytes, exact (whether readahead_exact is set),
    windows (batches of pages that were read ahead), pages_ahead (read
    before they were requested), pages_used, pages_wasted (evicted
    before use)}
  tree_readahead, only for an image at a URL {directories_ahead (read before
    they were listed), directories_used}
  device {back_end (io_uring or threads), reads, bytes (read), writes,
    written_bytes, flushes, read_latency, write_latency, flush_latency}
  requests {start_ns (time of the mount, by the monotonic clock; if it changes,
    the image was mounted again), uptime_ns, idle_ns (since the last
    request of a program), requests, errors, waiting (requests without an
    answer), operations [{operation, requests, errors, errnos {NAME: count},
    bytes (read or written), idle_ns, latency (from the arrival of a request to
    its answer)}]}
  hot {files [{ino, path (null if it is not known), path_hex (if the path is
    not UTF-8), load}], processes [{pid (0 for the kernel), name, is_running,
    load}]}, the busiest first
    load {requests (after the file or process joined this list),
      requests_per_s, read_bytes_per_s, written_bytes_per_s (over the last
      seconds)}
  server, only for an image at a URL {requests, repeated (requests that repeat a
    failed one), failed (reads for which no attempt succeeded in time),
    fetched_bytes, ahead_bytes (the part of fetched_bytes that readahead fetched
    and no program waited for), profile_bytes (fetched for a profile, or read
    from a pack; part of fetched_bytes unless the pack is a local file),
    profile_used_bytes (how many of the profile_bytes were then used, in whole
    parts of 64 KiB), memory_bytes (bytes read from parts in larder's memory
    instead of the server), disk_bytes (bytes read from the disk cache), busy_ns (time in which
    requests were in flight), latency_p50_us and latency_p99_us (until the head
    of a reply arrives; upper bounds), unversioned (whether the server sends no
    strong ETag), last_failure}
  transport (io_uring or /dev/fuse)
  collects_writes (whether the kernel collects writes before it sends them)
A read-write mount adds:
  writing {dirty_bytes, dirty_metadata_bytes, commits, committed_blocks,
    commit_ns (total time of the commits), commit_latency, sync_commits (for
    fsync and sync), timed_commits (after 5 s), space_commits, logged_blocks,
    checkpoints, checkpoint_latency, waiting_handles (changes that wait now for
    the journal), handle_wait_latency, read_only_because}
  attributes {variant (of mbcache), blocks, inodes, shares, saved_bytes}
    blocks is the cache of attribute blocks. inodes is the cache of inodes
    that contain one large attribute value each (feature ea_inode). Each cache
    has these keys: entries, limit_entries, buckets, entry_bytes (size of one
    entry), bytes (memory of entries and buckets), lookups, hits, inserted,
    dropped_by_limit, dropped_by_shrinker (because memory was short)
A mount with --record adds:
  recording {file, events, lost, failure (only if recording has failed)}

'shares' counts how often, since the mount, a file shared an existing attribute
block, or an existing inode with a large value, instead of creating a new one.
'saved_bytes' is the space on the image that sharing saves. It is 0 at the
mount, grows when a file begins to share, and shrinks when a file stops, but not
below 0.

A latency has these keys: count, total_ns, max_ns, p50_ns, p90_ns, p99_ns (at
most 1.25 times the exact value; null if count is 0), and buckets [[longest
duration in ns, count]]. If there are many requests, only a sample is measured:
max_ns, which is 'longest' in the output without --json, is then the longest in
the sample.

JSON of a histogram:
  cache, lookups, hits, links_on_hits, links_on_misses, buckets, objects,
    longest_chain
  rows [{length (of a chain), buckets (with such chains), objects (in these
    buckets), poisson_buckets (expected if objects were distributed at
    random)}]
  trees {count (of trees), largest (pages in the largest tree),
    rows [{depth, objects}]}, only for red-black trees
The last row has the length null and counts all longer chains. For red-black
trees, the array rows is empty, and trees.rows has the depths.

Most Prometheus metrics are named after the JSON keys: page.lookups is
larder_cache_lookups_total{cache=\"page\"}. Some keys have no metric. The
metrics of requests begin with larder_fuse_, and have a label operation. Times
are in seconds. These latencies are histograms:
larder_fuse_request_duration_seconds, larder_device_request_duration_seconds,
larder_writing_commit_duration_seconds,
larder_writing_checkpoint_duration_seconds and
larder_writing_handle_wait_duration_seconds. No metric contains names of files or programs. --prometheus also labels each metric with
the mount point; larder mount --metrics does not.")]
pub(crate) struct StatsArgs {
    /// Mount point
    #[arg(value_hint = ValueHint::DirPath)]
    pub mountpoint: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print metrics in the text format of Prometheus
    ///
    /// The node exporter's textfile collector accepts this format.
    #[arg(long, conflicts_with_all = ["histogram", "json"])]
    pub prometheus: bool,
    /// Show the chain lengths of a cache's hash table
    #[arg(long, value_enum, value_name = "CACHE")]
    pub histogram: Option<Cache>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use larder::tables::TableChoice;
    use larder::{CacheKind, Tables};

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        let mut cli = Cli::command();
        cli.build();
        // The program larder-lab has its own help.
        let others = ["help", "lab"];
        let commands = cli.get_subcommands();
        for command in commands.filter(|command| !others.contains(&command.get_name())) {
            let help = command.get_after_help().map(ToString::to_string);
            assert!(
                help.is_some_and(|text| text.contains("Examples:")),
                "{}",
                command.get_name()
            );
        }
    }

    /// On a terminal of 80 columns, and in an indented manual page, the rows must not wrap.
    #[test]
    fn table_of_mount_options_fits_manual_pages() {
        let cli = Cli::command();
        let mount = cli.find_subcommand("mount").expect("there is a mount");
        let help = mount.get_after_help().expect("a table").to_string();
        let mut rows = help.lines().filter(|line| line.starts_with(' '));
        let too_long = rows.find(|row| row.len() > 71);
        assert_eq!(too_long, None);
    }

    #[test]
    fn table_of_mount_options_describes_named_tables() {
        let cli = Cli::command();
        let mount = cli.find_subcommand("mount").expect("there is a mount");
        let help = mount.get_after_help().expect("a table").to_string();
        let parts = |tables: &Tables| {
            CacheKind::ALL.map(|cache| {
                let TableChoice { function, size } = tables.table(cache).expect("a table");
                function.map(|function| format!("{function}/{size}"))
            })
        };
        let of_a = parts(&Tables::A);
        for (name, tables) in &Tables::NAMED {
            let (_, entry) = help.split_once(&format!("\n    {name} ")).expect(name);
            let lines = entry.lines().enumerate();
            // The following entry is indented less.
            let lines = lines.take_while(|(at, line)| *at == 0 || line.starts_with("         "));
            let words = lines.flat_map(|(_, line)| line.split([' ', ',']));
            let mut listed: Vec<String> = words
                .filter(|word| {
                    word.split_once('/')
                        .is_some_and(|(_, bits)| bits.parse::<u32>().is_ok())
                })
                .map(str::to_owned)
                .collect();
            let mut expected: Vec<String> = std::iter::zip(parts(tables), &of_a)
                .filter(|(part, of_a)| part != *of_a || *name == "A")
                .filter_map(|(part, _)| part)
                .collect();
            listed.sort();
            expected.sort();
            assert_eq!(listed, expected, "{name}");
        }
    }

    #[test]
    fn options_and_long_flags_parse_together() {
        let cli = Cli::try_parse_from([
            "larder",
            "mount",
            "-o",
            "ro,offset=1M",
            "--cache-size",
            "64M",
            "-f",
            "x.img",
            "/mnt",
        ])
        .unwrap();
        let Command::Mount(args) = cli.command else {
            panic!("not a mount");
        };
        assert_eq!(args.volume.cache_size, Some(64 << 20));
        assert!(args.foreground);
        assert_eq!(args.options, ["ro,offset=1M"]);
    }

    #[test]
    fn copy_needs_a_source_and_a_destination() {
        assert!(Cli::try_parse_from(["larder", "cp", "x.img"]).is_err());
        assert!(Cli::try_parse_from(["larder", "cp", "x.img", "/etc", "."]).is_ok());
    }
}
