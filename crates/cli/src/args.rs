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

/// Mount, read and write ext2, ext3 and ext4 images, without root.
#[derive(Debug, Parser)]
#[command(
    name = "larder",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  larder mount disk.img /mnt/disk      mount an image
  larder umount /mnt/disk              and unmount it
  larder ls -l disk.img /etc           look inside with no mount at all
  larder cp -r disk.img /home backup   copy a tree out
  larder cp -r site disk.img:/srv      and one in

The environment variable LARDER_LOG sets what is logged, as in LARDER_LOG=debug."
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
    /// Where the file system starts inside the image, in bytes (suffixes K, M, G, T)
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
    /// The image: a file or a block device
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

/// Compare what caches and readahead do, reproduce published results
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArgs {
    /// The arguments of larder-lab
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

/// Mount an image
///
/// Returns once the image is mounted; a server process stays behind and ends with
/// the mount. Works without root through fusermount3 (package fuse3), and as root
/// without it. The image is mounted for reading and writing, alone, unless -o ro is
/// given: then it is never written, and a journal that needs recovery is replayed
/// in memory.
#[derive(Debug, Args)]
#[command(after_help = "\
Options of -o, separated by commas; of two that contradict, the last wins:
  offset=, cache_size=, readahead=, readahead_max=, readahead_threads=,
  threads=, fsname=, subtype=, metrics=, direct_io, direct_device,
  allow_other, allow_root, nonempty
        as the long flags of the same name, which win over these
  noload, norecovery
        as --noload; implies ro, and rw does not change that
  ro, rw
        read only, as several may at once; or for writing [default: rw;
        read only, with a warning, where the image cannot be written]
  commit=SECONDS
        how old changes may get in memory [default: 5, and with 0;
        at most 86400]
  data=ordered|writeback|journal
        journal: content goes through the journal too; writeback is
        taken as ordered, the default
  errors=continue|remount-ro|abort
        what damage does to a mount that finds it by a change
        [default: what the superblock says]
  mbcache=old|lru|list-lru|referenced|clock|off
        what lets files with equal attributes share a block of the
        image [default: referenced]; off for attributes that hardly
        repeat; matters for writing only
  no_mbcache, nombcache
        as mbcache=off
  tables=BASE[+CACHE=FUNCTION[/SIZE]]...[+sizes=RULE][+shrink=eager]
        hash functions and sizes of the caches' tables: see below
  sync, async
        sync: every change is durable when it returns
  writeback_cache
        the kernel gathers writes before it sends them: faster for few
        bytes at a time; errors, no space too, show at close or fsync
        alone
  fakeroot
        no permission checks: everyone let in may do all
  suid, dev
        honour set-id bits, devices (root only); the default where root
        mounts by mount(8), as for other types
  noexec
        refuse to run programs
  defaults, noauto, user, nofail, _netdev, x-*, noatime, ...
        accepted for mount(8) and fstab, no effect

Tables of -o tables=, a name and what is changed, joined by +:
  BASE   whose tables they are [default: larder]
    larder     ours: functions of our own, sized for what --cache-size
               holds. Only these are safe from names that were made to
               share a chain
    reference  Linux 2.2.5's, and A to D the kernels of Lever's \"Linux
               Kernel Hash Table Behavior\" (2000), as FUNCTION/SIZE:
               page-reference/11, buffer-reference/15,
               dentry-reference/10, inode-reference/8
    A          page-mult/13, buffer-mult-11/14, dentry-add/13,
               inode-modified/11
    B          as A, but for buffer-steiner/14
    C          as A, but for page-reference/13
    D          as A, but for page-offset/13
  +CACHE=FUNCTION[/SIZE]   another table of one cache
    CACHE      page, buffer, dentry or inode
    FUNCTION   one that larder lab list shows, also without the cache's
               name (mult for page-mult); larder for ours; for pages
               also rbtree, a red-black tree for each inode, of no size
    SIZE       14 for 2^14 buckets, 24 at most, or a RULE; left out, as
               in BASE
  +sizes=RULE              the size of all tables
    larder     ours: about a bucket for each object there is room for,
               for four to eight buffers
    2.2.16     as in that Linux: pages a bucket for 4 KiB, 32768 for
               buffers, 1024 for dentries, 256 for inodes
    today      as in today's: dentries a bucket for 8 KiB, inodes for
               16 KiB; pages and buffers, which have none now, 4 KiB
  +shrink=normal|eager     when dentries are given up [default: normal]
    normal     when a quarter of the pages gave too little memory
    eager      first, whenever memory is short

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

The kernel caches what it reads and reads ahead by itself, before larder is
asked; so a policy has little to decide, unless --direct-io sends it every
read. That suits many readers of large files whose content fits --cache-size,
or is read once; without it, what is read again costs no request.

Installed as mount.larder, fstab(5) can have lines such as
  /srv/disk.img  /mnt/disk  larder  rw,noauto,user  0 0")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct MountArgs {
    /// The image: a file or a block device
    pub image: PathBuf,
    /// The directory to mount on
    pub mountpoint: PathBuf,
    /// Options in the style of mount(8); may be given several times
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<OsString>,
    /// Stay in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    pub foreground: bool,
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Readahead policy: that of Linux 2.6.20 (legacy), of 2007 (ondemand), of today (modern),
    /// or none [default: ondemand]
    #[arg(long, value_name = "POLICY", value_parser = policy_names())]
    pub readahead: Option<PolicyName>,
    /// The most that is read ahead at once [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub readahead_max: Option<u64>,
    /// Threads that read ahead; with none, nothing is read ahead [default: 4]
    #[arg(long, value_name = "N", value_parser = threads::parse_readahead)]
    pub readahead_threads: Option<usize>,
    /// Let the kernel cache no file content: larder's page cache and readahead serve every read
    #[arg(long)]
    pub direct_io: bool,
    /// Read the image past the host's page cache: nothing of it is cached or read ahead there
    #[arg(long)]
    pub direct_device: bool,
    /// Threads that answer requests [default: twice the processors, 4 to 8]
    #[arg(long, value_name = "N", value_parser = threads::parse)]
    pub threads: Option<NonZeroUsize>,
    /// Let every user in, as far as the files' permissions allow
    #[arg(long)]
    pub allow_other: bool,
    /// Let root in, beside yourself
    #[arg(long)]
    pub allow_root: bool,
    /// Mount over a directory that is not empty
    #[arg(long)]
    pub nonempty: bool,
    /// What mount(8) shows as the source [default: the image's path]
    #[arg(long, value_name = "NAME")]
    pub fsname: Option<OsString>,
    /// The type is fuse.NAME; with an empty name exactly fuse [default: larder]
    #[arg(long, value_name = "NAME")]
    pub subtype: Option<String>,
    /// Serve metrics for Prometheus over HTTP, to all who can connect: at a port of this machine's
    /// loopback (0: any that is free), or at address:port
    #[arg(long, value_name = "ADDR", value_parser = metrics::parse)]
    pub metrics: Option<SocketAddr>,
    /// Record every lookup, insert and removal of the caches to FILE, a new trace (Parquet), for
    /// larder lab; it tells which files were used, and when. Written every 5 seconds, and whole after
    /// umount; larder stats says how it goes on
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Append the log to FILE (in the background, it is otherwise lost)
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

/// Returns the parser for the names of `--readahead`.
fn policy_names() -> impl TypedValueParser<Value = PolicyName> {
    let names = PolicyName::ALL.iter().map(|name| name.as_str());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<PolicyName>())
}

/// Unmount, and wait until everything is on the image and the image is free again
///
/// Also cleans up after a server that was killed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder umount /mnt/disk
  larder umount --lazy /mnt/disk    detach now, end when the last file is closed")]
pub(crate) struct UmountArgs {
    /// The directory that an image is mounted on
    pub mountpoint: PathBuf,
    /// Detach a mount that is in use; it ends with its last user
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

JSON: {\"path\", \"entries\": [{\"name\", \"name_hex\" if not UTF-8, and the keys of stat}]}")]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Show type, permissions, links, owner, size and time too
    #[arg(short, long)]
    pub long: bool,
    /// Show names that start with a dot
    #[arg(short, long)]
    pub all: bool,
    /// Write JSON, one object
    #[arg(long)]
    pub json: bool,
    /// A path inside the image
    #[arg(default_value = "/")]
    pub path: OsString,
}

/// Show everything about one file of an image
///
/// A symbolic link at the end of the path is shown, not followed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder stat disk.img /etc/passwd
  larder stat --json disk.img /bin/sh | jq .size_bytes

JSON: path, ino, type, mode, permissions, links, uid, gid, size_bytes, blocks_512,
accessed, modified, changed, created (each {seconds, nanoseconds}), flags,
generation, project_id, rdev_major and rdev_minor for devices, target for
symbolic links, xattrs (names)")]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub source: ImageArgs,
    /// Write JSON, one object
    #[arg(long)]
    pub json: bool,
    /// A path inside the image
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
/// Keeps holes, permissions, times, symbolic and hard links and attributes, and owners
/// and device files: out of an image only as root. Nothing is written outside DEST,
/// whatever names and links the image holds. A DEST that is a device, a FIFO or a
/// symbolic link, such as /dev/stdout, is written into. Every other file is replaced
/// by a whole copy or, if that fails, left as it was.
#[derive(Debug, Args)]
#[command(
    override_usage = "larder cp [OPTIONS] <IMAGE> <PATH>... <DEST>\n       \
                      larder cp [OPTIONS] <FILE>... <IMAGE>:/<PATH>",
    after_help = "\
Examples:
  larder cp disk.img /etc/fstab .             one file out of an image
  larder cp -r disk.img /home /root backup/   trees, into an existing directory
  larder cp -r disk.img / everything          the whole image
  larder cp notes.txt disk.img:/root/         one file into an image
  larder cp -r src/. disk.img:/usr/src        what a directory holds

A last argument with :/ in it is a place in an image, unless what is before the colon
is a directory.

Exit code: 0 if all was copied, 1 if something was not (each is told), 2 for arguments
that make no sense."
)]
pub(crate) struct CpArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Copy directories with all that is in them
    #[arg(short, long, visible_short_alias = 'R', short_alias = 'a')]
    pub recursive: bool,
    /// What to copy, and where to
    #[arg(required = true, num_args = 2.., value_names = ["SOURCE", "DEST"])]
    pub paths: Vec<OsString>,
}

/// Show what the superblock says: label, UUID, features, sizes, journal
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
    /// Write JSON, one object
    #[arg(long)]
    pub json: bool,
}

/// Show what the caches behind a mount did
///
/// Only the user who mounted the image, and root, may ask.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder stats /mnt/disk
  larder stats --json /mnt/disk | jq .page.hits
  larder stats --histogram dentry /mnt/disk
  larder stats --histogram dentry --json /mnt/disk | jq '.rows[].poisson_buckets'
  larder stats --prometheus /mnt/disk > /var/lib/node_exporter/textfile/disk.prom

The caches' tables are those of larder mount -o tables=. Pages that are found in red-black
trees have no buckets: their links are the pages of the tree that a lookup walks, longest is
the depth of the deepest one, and in place of chains the histogram has depths.

JSON: cache_size_bytes, tables; page, buffer, dentry, inode (each finder, buckets,
objects, inserted, capacity, lookups, hits, links_on_hits, links_on_misses,
longest_chain, bytes);
readahead {policy, max_bytes, threads, windows, pages_ahead, pages_used, pages_wasted};
device {reads, bytes, writes, written_bytes, flushes};
on a mount that can be written also writing {dirty_bytes,
dirty_metadata_bytes, read_only_because} and
attributes {variant, blocks, inodes, shares, saved_bytes} (blocks and inodes each
entries, limit_entries, buckets, entry_bytes, bytes, lookups, hits, inserted,
dropped_by_limit, dropped_by_shrinker); on one that is recorded
recording {file, events, lost, failure}.

shares counts all that were made since the mount; saved_bytes is what these save now, as
far as they still last: what was shared before the mount adds nothing.

JSON of a histogram: cache, lookups, hits, links_on_hits, links_on_misses, buckets,
objects, longest_chain, rows (each length, null for all longer ones; buckets;
objects; poisson_buckets, which chance would give); of trees no rows, and trees
{count, largest, rows [{depth, objects}]}

Metrics for Prometheus are named after the keys of the JSON: page.lookups is
larder_cache_lookups_total{cache=\"page\"}; here each has the mount point as a label.")]
pub(crate) struct StatsArgs {
    /// The directory that an image is mounted on
    pub mountpoint: PathBuf,
    /// Write JSON, one object
    #[arg(long)]
    pub json: bool,
    /// Write metrics in Prometheus' text format, as the node exporter's textfile collector takes them
    #[arg(long, conflicts_with_all = ["histogram", "json"])]
    pub prometheus: bool,
    /// Show how many buckets of a cache's hash table hold how many objects
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
