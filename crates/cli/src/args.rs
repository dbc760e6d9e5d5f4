//! The command line.

mod change;
mod top;

use crate::commands::fuse2fs::Fuse2fsArgs;
use crate::{metrics, threads};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use larder::PolicyName;
use larder_console::{Cache, size};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

pub(crate) use change::{MkdirArgs, MvArgs, PutArgs, RmArgs};
pub(crate) use top::TopArgs;

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
    Ls(LsArgs),
    Stat(StatArgs),
    Cat(CatArgs),
    Cp(CpArgs),
    Put(PutArgs),
    Mkdir(MkdirArgs),
    Rm(RmArgs),
    Mv(MvArgs),
    Info(InfoArgs),
    Stats(StatsArgs),
    Top(TopArgs),
    Fuse2fs(Fuse2fsArgs),
    Lab(LabArgs),
}

/// How an image is opened, for every command that opens one.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct VolumeArgs {
    /// Offset of the file system (suffixes K, M, G, T)
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub offset: Option<u64>,
    /// Memory for all caches together [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_cache)]
    pub cache_size: Option<u64>,
    /// Ignore the journal, even if it needs recovery
    #[arg(long)]
    pub noload: bool,
}

/// An image that a command reads or changes, and how it is opened.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImageArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Image file or block device
    pub image: PathBuf,
}

/// Files of an image.
#[derive(Clone, Debug, Args)]
pub(crate) struct FilesArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Paths inside the image
    #[arg(required = true)]
    pub paths: Vec<OsString>,
}

/// Measure, simulate and tune caches and readahead
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArgs {
    /// Arguments of larder-lab
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

/// Mount an image
///
/// The command returns when the image is mounted. A server process stays in the background
/// until the image is unmounted. Users other than root need fusermount3 (package fuse3).
///
/// The image is mounted read-write, which requires exclusive access to it. With -o ro it is
/// never written; a journal that needs recovery is then replayed in memory.
#[derive(Debug, Args)]
#[command(after_help = "\
Mount options (-o). If two contradict each other, the last one wins:
  offset=, cache_size=, readahead=, readahead_max=, readahead_threads=,
  threads=, fsname=, subtype=, metrics=, direct_io, direct_device,
  allow_other, allow_root, nonempty
        same as the flags of these names, which take precedence
  noload, norecovery
        same as --noload; the mount is read-only, even with rw
  ro, rw
        mount read-only (several mounts can share the image) or
        read-write (exclusive access) [default: rw; read-only, with a
        warning, if the image cannot be written]
  commit=SECONDS
        interval between commits of the journal [default: 5, also
        for 0; maximum: 86400]
  data=ordered|writeback|journal
        journal: file content goes through the journal too;
        writeback: same as ordered [default: ordered]
  errors=continue|remount-ro|abort
        action when corruption is detected during a change: keep the
        mount writable (continue), or make it read-only and discard
        uncommitted changes (remount-ro, abort) [default: as set in
        the superblock]
  mbcache=old|lru|list-lru|referenced|clock|off
        cache that finds files with equal extended attributes, so
        that they share a block [default: referenced]; off: no
        sharing; has no effect on read-only mounts
  no_mbcache, nombcache
        same as mbcache=off
  tables=BASE[+CACHE=FUNCTION[/SIZE]]...[+sizes=RULE][+shrink=eager]
        hash functions and sizes of the cache tables: see below
  sync, async
        sync: each call returns when its change is durable
  writeback_cache
        the kernel collects writes before it sends them: faster for
        small writes, but errors, even ENOSPC, are reported only by
        close(2) and fsync(2)
  fakeroot
        no permission checks: each user with access to the mount can
        do everything
  suid, dev
        honour set-id bits, allow device files (root only) [default:
        off, but on if root mounts with mount(8)]
  noexec
        do not run programs
  defaults, noauto, user, nofail, _netdev, x-*, noatime, ...
        accepted for mount(8) and fstab, no effect

Tables (-o tables=): a base and changes to it, joined by +:
  BASE   tables to start from [default: larder]
    larder     larder's own functions, sized for --cache-size; only
               these resist file names that are chosen to collide
    reference  Linux 2.2.5, as FUNCTION/SIZE: page-reference/11,
               buffer-reference/15, dentry-reference/10,
               inode-reference/8
    A          page-mult/13, buffer-mult-11/14, dentry-add/13,
               inode-modified/11
    B          as A, with buffer-steiner/14
    C          as A, with page-reference/13
    D          as A, with page-offset/13
  +CACHE=FUNCTION[/SIZE]   a different table for one cache
    CACHE      page, buffer, dentry or inode
    FUNCTION   a function from larder lab list, with or without the
               cache's name (mult for page-mult); larder for larder's
               own; for pages also rbtree, without SIZE: a red-black
               tree for each inode
    SIZE       14 for 2^14 buckets (at most 24), or a RULE
               [default: that of BASE]
  +sizes=RULE              sizes of all tables
    larder     about one bucket for each object that fits in memory;
               one bucket for every four to eight buffers
    2.2.16     as Linux 2.2.16: for pages one bucket for each 4 KiB of
               --cache-size; 32768 buckets for buffers, 1024 for
               dentries, 256 for inodes
    today      as current Linux: one bucket for each 8 KiB of
               --cache-size for dentries, and for each 16 KiB for
               inodes; pages and buffers, which have no tables there,
               have one for each 4 KiB
  +shrink=normal|eager     when dentries are evicted [default: normal]
    normal     if evicting a quarter of the pages frees too little
    eager      first, whenever memory is short
A to D are the kernels in C. Lever, \"Linux Kernel Hash Table Behavior\" (2000).

Examples:
  larder mount disk.img /mnt/disk
  larder mount -o ro disk.img /mnt/disk
  larder mount -o offset=1M,allow_other sdcard.img /mnt/card
  larder mount --foreground --cache-size 1G disk.img /mnt/disk
  larder mount -o direct_io,readahead=modern disk.img /mnt/disk
  larder mount -o tables=D+page=rbtree+shrink=eager disk.img /mnt/disk
  larder mount --record disk.trace disk.img /mnt/disk
  larder mount --metrics 9520 disk.img /mnt/disk
  curl http://127.0.0.1:9520/metrics

Without --direct-io, the kernel caches file content and reads ahead before it
sends requests to larder, so --readahead has little effect. With --direct-io,
every read reaches larder's page cache and readahead policy. Use it for large
files that are read once, or whose content fits in --cache-size. For other
files it is slower, because each repeated read is a request to larder.

If larder is installed as mount.larder, fstab(5) can contain lines such as
  /srv/disk.img  /mnt/disk  larder  rw,noauto,user  0 0")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct MountArgs {
    /// Image file or block device
    pub image: PathBuf,
    /// Directory to mount on
    pub mountpoint: PathBuf,
    /// Mount options, separated by commas
    ///
    /// The options are listed below. -o can be given several times.
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<OsString>,
    /// Stay in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    pub foreground: bool,
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Readahead policy [default: ondemand]
    ///
    /// legacy is the policy of Linux 2.6.20, ondemand that of Linux 2.6.23, and modern that of
    /// Linux 6.18. off disables larder's readahead.
    #[arg(long, value_name = "POLICY", value_parser = policy_names())]
    pub readahead: Option<PolicyName>,
    /// Largest amount to read ahead at once [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub readahead_max: Option<u64>,
    /// Readahead threads; 0 disables larder's readahead [default: 4]
    #[arg(long, value_name = "N", value_parser = threads::parse_readahead)]
    pub readahead_threads: Option<usize>,
    /// Disable the kernel's cache of file content
    ///
    /// Every read is then served by larder's page cache and readahead.
    #[arg(long)]
    pub direct_io: bool,
    /// Bypass the kernel's cache of the image
    ///
    /// The kernel then neither caches the image nor reads ahead in it.
    #[arg(long)]
    pub direct_device: bool,
    /// Threads that serve requests [default: 4 to 8]
    ///
    /// The default is twice the number of processors, but at least 4 and at most 8.
    #[arg(long, value_name = "N", value_parser = threads::parse)]
    pub threads: Option<NonZeroUsize>,
    /// Give all users access to the mount
    ///
    /// The permissions of the files still apply. For users other than root, /etc/fuse.conf must
    /// allow this option.
    #[arg(long)]
    pub allow_other: bool,
    /// Give root access to the mount too
    ///
    /// The kernel then caches no names or attributes, so the mount is slower. For users other than
    /// root, /etc/fuse.conf must allow this option.
    #[arg(long)]
    pub allow_root: bool,
    /// Mount on a directory that is not empty
    #[arg(long)]
    pub nonempty: bool,
    /// Source that mount(8) shows [default: the image's path]
    #[arg(long, value_name = "NAME")]
    pub fsname: Option<OsString>,
    /// Type that mount(8) shows: fuse.NAME [default: larder]
    ///
    /// If NAME is empty, the type is fuse.
    #[arg(long, value_name = "NAME")]
    pub subtype: Option<String>,
    /// Serve metrics for Prometheus over HTTP
    ///
    /// ADDR is a port of the loopback address (0 for any free port) or ADDRESS:PORT. Everyone
    /// who can connect can read the metrics.
    #[arg(long, value_name = "ADDR", value_parser = metrics::parse)]
    pub metrics: Option<SocketAddr>,
    /// Record all cache operations to FILE, a new trace
    ///
    /// The trace is a Parquet file for larder lab. It contains every lookup, insertion and
    /// removal in the caches, and so shows which files were used, and when. Events are written
    /// every 5 seconds, and the trace is complete after larder umount. larder stats shows the
    /// progress.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Append the log to FILE
    ///
    /// Without this option, the log of a server in the background is lost.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

/// Returns the parser for the names of `--readahead`.
fn policy_names() -> impl TypedValueParser<Value = PolicyName> {
    let names = PolicyName::ALL.iter().map(|name| name.as_str());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<PolicyName>())
}

/// Unmount an image, and wait until it is written
///
/// The command returns when all changes are on the image and the image is no longer in use. It
/// also removes the mount of a server that was killed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder umount /mnt/disk
  larder umount --lazy /mnt/disk    detach a mount that is in use")]
pub(crate) struct UmountArgs {
    /// Mount point
    pub mountpoint: PathBuf,
    /// Detach a mount that is in use
    ///
    /// The mount ends when its last file is closed.
    #[arg(short, long)]
    pub lazy: bool,
}

/// List a directory of an image
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder ls disk.img                  the root directory
  larder ls -la disk.img /etc
  larder ls --json disk.img /home | jq '.entries[].name'

JSON: path, entries (each name, name_hex, and the keys of larder stat --json).
name_hex is present only if the name is not valid UTF-8.")]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Show type, permissions, links, owner, size and time
    #[arg(short, long)]
    pub long: bool,
    /// Show names that start with a dot
    #[arg(short, long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Path inside the image
    #[arg(default_value = "/")]
    pub path: OsString,
}

/// Show the attributes of a file in an image
///
/// If the path ends in a symbolic link, the link itself is shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder stat disk.img /etc/passwd
  larder stat --json disk.img /bin/sh | jq .size_bytes

JSON: path, ino, type, mode, permissions, links, uid, gid, size_bytes,
blocks_512; accessed, modified, changed and created (each seconds,
nanoseconds); flags, generation, project_id, xattrs (names only); for device
files rdev_major and rdev_minor; for symbolic links target.")]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Path inside the image
    pub path: OsString,
}

/// Write files of an image to standard output
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder cat disk.img /etc/os-release
  larder cat disk.img /var/log/syslog /var/log/syslog.1 | grep error")]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub files: FilesArgs,
}

/// Copy files out of an image, or into one
///
/// A copy keeps permissions, times, holes, symbolic and hard links, and extended attributes. A
/// copy into an image also keeps owners and device files; a copy out of an image keeps them only
/// if root makes it.
///
/// An existing file is replaced by a complete copy; if the copy fails, the file is unchanged. If
/// DEST is a device, a FIFO or a symbolic link, such as /dev/stdout, the content is written to
/// it. Nothing is written outside DEST, whatever names and links the image contains.
#[derive(Debug, Args)]
#[command(
    override_usage = "larder cp [OPTIONS] <IMAGE> <PATH>... <DEST>\n       \
                      larder cp [OPTIONS] <FILE>... <IMAGE>:/<PATH>",
    after_help = "\
Examples:
  larder cp disk.img /etc/fstab .             copy a file out of an image
  larder cp -r disk.img /home /root backup/   copy trees into a directory
  larder cp -r disk.img / everything          copy the whole image
  larder cp notes.txt disk.img:/root/         copy a file into an image
  larder cp -r src/. disk.img:/usr/src        copy the content of a directory

If the last argument contains :/, it is a path in an image, unless the part
before the colon is a directory.

Exit code: 0 if everything was copied; 1 if not, after an error message for
each file that was not copied; 2 for invalid arguments."
)]
pub(crate) struct CpArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Copy directories with their content
    #[arg(short, long, visible_short_alias = 'R', short_alias = 'a')]
    pub recursive: bool,
    /// Files to copy, and the destination
    #[arg(required = true, num_args = 2.., value_names = ["SOURCE", "DEST"])]
    pub paths: Vec<OsString>,
}

/// Show label, UUID, features, sizes and journal state
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder info disk.img
  larder info --json disk.img | jq -r .uuid

JSON: kind, label, uuid, last_mounted, features, block_size_bytes,
cluster_size_bytes, inode_size_bytes, blocks, blocks_free, inodes, inodes_free,
clean, missing_bytes, superblock_repair, journal {state, ...}")]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Show the cache statistics of a mount
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

larder mount --help explains the tables of the caches (-o tables=). Pages in
red-black trees have no buckets: their links are the tree nodes that a lookup
visits, longest is the depth of the deepest page, and the histogram shows
depths instead of chain lengths.

JSON:
  cache_size_bytes, tables
  page, buffer, dentry, inode (each finder, buckets, objects, inserted,
    capacity, lookups, hits, links_on_hits, links_on_misses, longest_chain,
    bytes)
  readahead {policy, max_bytes, threads, windows, pages_ahead, pages_used,
    pages_wasted}
  device {reads, bytes, writes, written_bytes, flushes}
on a read-write mount also
  writing {dirty_bytes, dirty_metadata_bytes, read_only_because}
  attributes {variant, blocks, inodes, shares, saved_bytes} (blocks and
    inodes each entries, limit_entries, buckets, entry_bytes, bytes, lookups,
    hits, inserted, dropped_by_limit, dropped_by_shrinker)
on a mount that is recorded also
  recording {file, events, lost, failure}

shares counts all shares since the mount. saved_bytes is the space that those
of them save that still exist.

JSON of a histogram:
  cache, lookups, hits, links_on_hits, links_on_misses, buckets, objects,
    longest_chain
  rows (each length, buckets, objects, poisson_buckets)
  trees {count, largest, rows (each depth, objects)}, for trees only
In the last row, length is null: the row counts all longer chains.
poisson_buckets is the number of buckets that a random distribution would
give. For trees, the first list of rows is empty.

Prometheus metrics are named after the keys of the JSON: page.lookups is
larder_cache_lookups_total{cache=\"page\"}. With --prometheus, each metric has
the mount point as a label too.")]
pub(crate) struct StatsArgs {
    /// Mount point
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
