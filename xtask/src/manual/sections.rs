//! The sections of the manual pages that the definitions of the command lines do not describe.

use clap::Command;

/// A term and its description.
pub(super) type Entry = (&'static str, &'static str);

const SUCCESS: Entry = ("0", "Success.");
const FAILURE: Entry = (
    "1",
    "Failure. A line that begins with error: says what has failed. If you can do something about it, a line that \
     begins with hint: follows.",
);
const SOME_FAILED: Entry = (
    "1",
    "Failure. A line that begins with error: says what has failed. If a single file has failed, the command continues \
     with the other files.",
);
const USAGE: Entry = ("2", "The arguments are invalid.");
const MOUNT_FAILED: Entry = (
    "32",
    "The mount has failed. A line that begins with error: says why.",
);

/// Returns the exit codes of the program or the subcommand `name`.
pub(super) fn exit_status(name: &str) -> Vec<Entry> {
    match name {
        // The help describes them.
        "larder-cp" | "larder-diff" | "larder-ls" | "larder-run" => vec![],
        "larder-find" | "larder-tree" | "larder-du" | "larder-cat" | "larder-export"
        | "larder-mkdir" | "larder-rm" | "larder-mv" => {
            vec![SUCCESS, SOME_FAILED, USAGE]
        }
        "larder-overlay-diff" => vec![
            SUCCESS,
            FAILURE,
            (
                "2",
                "A file cannot be compared; the command continues with the other files. Or the arguments are invalid.",
            ),
        ],
        "larder-mount" => vec![
            (
                "0",
                "The image is mounted. With --foreground, it was mounted, and is unmounted again.",
            ),
            FAILURE,
            USAGE,
        ],
        "larder-umount" => vec![
            (
                "0",
                "The image is unmounted, and all changes are written to it. With --lazy, the mount was in use and is \
                 detached, or the image is unmounted.",
            ),
            FAILURE,
            USAGE,
        ],
        "larder-fuse2fs" => vec![
            ("0", "The image is mounted."),
            (
                "1",
                "A mount option is invalid or, under the name fuse2fs, any argument.",
            ),
            ("2", "The arguments of larder fuse2fs are invalid."),
            MOUNT_FAILED,
        ],
        "mount.larder" => vec![
            (
                "0",
                "The image is mounted. With -f, the mount options are valid.",
            ),
            ("1", "The arguments are invalid."),
            MOUNT_FAILED,
        ],
        "larder-lab-record" => vec![
            (
                "0",
                "Success. If COMMAND was run, the exit code is that of COMMAND, or 128 + N if signal N ended COMMAND.",
            ),
            FAILURE,
            USAGE,
        ],
        "larder-lab-advise" => vec![
            (
                "0",
                "Success. With --verify, all runs were measured, whatever the result.",
            ),
            FAILURE,
            USAGE,
            (
                "130",
                "With --verify: a signal such as Ctrl-C ended the measurement. Nothing is left mounted.",
            ),
            (
                "other",
                "With --verify: COMMAND failed. The exit code is that of COMMAND, or 128 + N if signal N ended it.",
            ),
        ],
        "larder-lab-trace-info" => vec![
            (
                "0",
                "The trace is intact, or it is being recorded and intact so far.",
            ),
            (
                "1",
                "Failure, or the trace is damaged or not complete; the summary then covers its intact part.",
            ),
            USAGE,
        ],
        _ => vec![SUCCESS, FAILURE, USAGE],
    }
}

/// Returns whether the command can open an image at a URL, or uses the disk cache for such images.
fn is_remote(name: &str, command: &Command) -> bool {
    let has_argument = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    let programs = ["larder", "larder-remote", "mount.larder", "larder-fuse2fs"];
    has_argument("endpoint") || has_argument("cache_dir") || programs.contains(&name)
}

/// Returns whether the command starts the server of a mount that all programs see.
fn mounts(name: &str) -> bool {
    ["larder-mount", "larder-fuse2fs", "mount.larder"].contains(&name)
}

/// Returns whether the command communicates with the server of a mount.
fn uses_socket(name: &str) -> bool {
    mounts(name) || name == "larder-stats" || name == "larder-top"
}

/// Returns the environment variables that the program or the subcommand `name` uses.
pub(super) fn environment(name: &str, command: &Command) -> Vec<Entry> {
    let mut entries = vec![(
        "LARDER_LOG",
        "Messages to log: error, warn (default), info, debug or trace, or MODULE=LEVEL, as in larder_fuse=debug. Several \
         of these are separated by commas. The log is written to standard error, unless larder mount --log names a file.",
    )];
    let searches = match name {
        "larder-lab" => {
            "larder lab runs the program larder-lab in the directory of larder, or searches for it in PATH."
        }
        "larder-lab-sdm" => {
            "The users run gcc, ed, nroff and spell, which are searched for in PATH."
        }
        "larder-lab-reproduce" | "larder-lab-xattr-bench" => {
            "mke2fs, mount and similar tools are searched for in PATH and in the directories of the administrator."
        }
        "larder-umount" => {
            "Users other than root unmount with fusermount3, which is searched for in PATH."
        }
        "larder-shrink" => {
            "e2fsck and resize2fs are searched for in PATH and in the directories of the administrator."
        }
        "larder-create" => {
            "mke2fs, tune2fs, e2fsck and resize2fs are searched for in PATH and in the directories of the administrator."
        }
        _ if mounts(name) => {
            "Users other than root mount with fusermount3, which is searched for in PATH. If the image is at a URL, \
             larder-remote opens it. This program is searched for in the directory of larder, and then in PATH."
        }
        _ if is_remote(name, command) && name != "larder-remote" => {
            "If an image is at a URL, larder-remote opens it. This program is searched for in the directory of larder, \
             and then in PATH."
        }
        _ => "",
    };
    if !searches.is_empty() {
        entries.push(("PATH", searches));
    }
    if uses_socket(name) {
        entries.push((
            "XDG_RUNTIME_DIR",
            "The directory for the sockets of mounts, from which larder stats and larder top get their numbers. Not used \
             for mounts of root.",
        ));
    }
    match name {
        "larder-run" => entries.push((
            "LARDER_ROOT",
            "Set for COMMAND: the path of the root directory of the image.",
        )),
        "larder-lab-advise" => {
            entries.push((
                "LARDER_MOUNT",
                "Set for COMMAND of --verify: the mount point, which is also its working directory.",
            ));
            entries.push((
                "TMPDIR",
                "The directory for the mount point and the overlays of --verify. The default is /tmp.",
            ));
        }
        "larder-lab-reproduce" => entries.push((
            "TMPDIR",
            "The directory on which kara2016 mounts the kernel's ext4, as root. Other processes do not see the mount. The \
             default is /tmp.",
        )),
        "larder-fuse2fs" => entries.push((
            "OFFSETPRELOAD_FILE, OFFSETPRELOAD_OFFSET",
            "If the first is the image, the second is the offset of the file system in the image, in bytes. apptainer sets \
             these variables.",
        )),
        "larder-create" => entries.push((
            "SOURCE_DATE_EPOCH",
            "The time at which all files are created, in seconds since 1970, for images that are the same each time.",
        )),
        "larder-top" => entries.extend([
            ("NO_COLOR", "If set and not empty, larder top uses no colours."),
            (
                "LC_ALL, LC_CTYPE, LANG, TERM",
                "If the locale is not UTF-8, or the terminal is the console of Linux, graphs consist of ASCII characters.",
            ),
        ]),
        "larder-ls" | "larder-stat" | "larder-cache-ls" => {
            entries.push(("TZ", "The time zone of the times in the output."));
        }
        "larder-find" => entries.push(("TZ", "The time zone of --newer-than.")),
        _ => {}
    }
    if is_remote(name, command) {
        entries.extend(REMOTE_ENVIRONMENT);
    }
    entries
}

const REMOTE_ENVIRONMENT: [Entry; 8] = [
    (
        "XDG_CACHE_HOME, HOME",
        "The disk cache for images at URLs is $XDG_CACHE_HOME/larder or, if this variable is not set, \
         $HOME/.cache/larder.",
    ),
    (
        "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN",
        "Credentials for S3. If they are not set, larder searches the other places of the AWS tools: a web identity \
         (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), a profile, the role of a container \
         (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, AWS_CONTAINER_CREDENTIALS_FULL_URI) and, unless \
         AWS_EC2_METADATA_DISABLED is true, the role of an EC2 instance.",
    ),
    (
        "AWS_PROFILE, AWS_DEFAULT_PROFILE, AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE",
        "The profile of the AWS tools, and the files in which it is.",
    ),
    (
        "AWS_REGION, AWS_ENDPOINT_URL",
        "The region of the bucket, and the URL of a server that is compatible with S3; the same as --endpoint.",
    ),
    (
        "GOOGLE_APPLICATION_CREDENTIALS",
        "The file with the credentials for Google Cloud Storage.",
    ),
    (
        "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY",
        "The account for Azure. The other variables of the Azure tools have an effect, too.",
    ),
    (
        "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY",
        "The proxies for images at URLs, and the hosts for which no proxy is used. The names can also be in lower \
         case.",
    ),
    (
        "SSL_CERT_FILE, SSL_CERT_DIR",
        "A file or a directory with the certificates of further authorities that are trusted.",
    ),
];

/// Returns the files that the program or the subcommand `name` uses besides those that its arguments name.
pub(super) fn files(name: &str, command: &Command) -> Vec<Entry> {
    let mut entries = Vec::new();
    if mounts(name) {
        entries.push(("/dev/fuse", "The device of FUSE."));
        entries.push((
            "/etc/fuse.conf",
            "For users other than root, allow_other and allow_root need the line user_allow_other in this file.",
        ));
        entries.push((
            "/sys/module/fuse/parameters/enable_uring",
            "Whether the kernel can pass requests through io_uring.",
        ));
    }
    if mounts(name) || name == "larder-umount" {
        entries.push(("/proc/self/mountinfo", "The list of mounts."));
    }
    if name == "mount.larder" {
        entries.push((
            "/etc/fstab",
            "Entries of the type larder are mounted with mount.larder.",
        ));
        entries.push((
            "/sbin/mount.larder",
            "A link to larder. mount(8) searches for it only in this directory.",
        ));
    }
    if uses_socket(name) {
        entries.push((
            "/run/larder, $XDG_RUNTIME_DIR/larder, /run/user/UID/larder, /tmp/larder-UID",
            "Directories of the sockets of mounts: the first one for root, the others for other users. The first of \
             them that can be used is used.",
        ));
    }
    match name {
        "larder-run" => {
            entries.push(("/dev/fuse", "The device of FUSE."));
            entries.push((
                "/mnt, /media, /srv",
                "The directories on which the image can be mounted without --mountpoint. Only COMMAND sees the mount.",
            ));
        }
        "larder-lab-record" => {
            entries.push((
                "/sys/kernel/tracing",
                "The kernel's tracepoints, for --kernel. larder mounts the tracing file system where no other process \
                 sees it.",
            ));
            entries.push(("/proc, /etc/passwd", "The tables of keys, for --keys."));
            entries.push((
                "/proc/self/mountinfo",
                "The mounted file systems, in whose directories --paths searches for the recorded files.",
            ));
        }
        "larder-create" => entries.extend([
            (
                "/etc/passwd, /etc/group",
                "The numbers of the users and groups that access control lists in tar archives name.",
            ),
            (
                ".larder-create-*",
                "The image until it is complete, in the directory of IMAGE.",
            ),
        ]),
        "larder-shrink" => entries.push((
            ".larder-shrink-*",
            "The copy of the image that is shrunk, in the directory of IMAGE.",
        )),
        "larder-export" => entries.push((
            ".larder-export-*",
            "The archive until it is complete, in the directory of the file that --output names.",
        )),
        "larder-cp" => entries.push((
            ".larder-*",
            "A file that is copied from the image, until it is complete, in the directory of the new file. On most file \
             systems, it has no name until then.",
        )),
        "larder-lab-advise" => entries.push((
            "$TMPDIR/larder-verify-*",
            "The directory with the mount point and the overlays of --verify, which the command removes.",
        )),
        "larder-lab-reproduce" => entries.push((
            "DIR/kara2016.state, DIR/lever2000.state",
            "The finished measurements, with --output DIR. If the command is interrupted and run again, it continues. It \
             removes the file at the end, unless measurements are missing.",
        )),
        _ => {}
    }
    if is_remote(name, command) {
        entries.push((
            "~/.cache/larder",
            "The disk cache for images at URLs, unless XDG_CACHE_HOME or --cache-dir names another directory.",
        ));
        entries.push((
            "~/.aws/credentials, ~/.aws/config",
            "The credentials and profiles of the AWS tools.",
        ));
    }
    entries
}

/// The description of mount.larder.
pub(super) const MOUNT_HELPER: &str = "\
mount(8) calls this program for mount -t larder and for the entries of the type larder in fstab(5). It passes the \
arguments SPEC, DIR, -o and sometimes -s, -f, -n, -v, -N or -t. The image is the source of the entry: a file, a block \
device or a URL.

The mount options are those of larder-mount(1), such as ro, partition=2 or cache_size=1G. There are two differences. \
First, rw has no effect, because mount(8) always passes it: an image that cannot be written is mounted read-only, with \
a warning. Second, if root mounts the image, suid and dev are the defaults, as for other file systems; add nosuid,nodev \
for an image that you do not trust.

mount(8) handles the options user, noauto, nofail, _netdev and x-systemd.automount itself. With user, it runs \
this program as the user who mounts, who then needs fusermount3(1).

umount(8) unmounts the image, but returns before all changes are written to it. larder-umount(1) waits for them. \
Remounting is not supported.";

/// Returns the examples of a page whose help has none.
pub(super) fn examples(name: &str) -> &'static str {
    match name {
        "mount.larder" => {
            "\
Mount an image once:

  mount -t larder -o ro,partition=2 /srv/disk.img /mnt/disk

Lines of /etc/fstab: an image that root mounts with mount /mnt/disk, an image that is mounted when it is first used, \
and an image at a URL:

  /srv/disk.img  /mnt/disk  larder  noauto,allow_other  0 0
  /srv/data.img  /mnt/data  larder  noauto,x-systemd.automount,allow_other  0 0
  https://example.org/disk.img  /mnt/remote  larder  ro,noauto,_netdev  0 0
"
        }
        "larder-remote" => "  larder-remote ls https://example.org/disk.img /etc\n",
        _ => "",
    }
}

/// Returns the pages that are related to the page `name`, first those of the commands to which it belongs.
pub(super) fn see_also(name: &str) -> Vec<String> {
    let mut pages = Vec::new();
    // The page of larder-lab-trace-info belongs to that of larder-lab-trace, and so on.
    let mut rest = name;
    while let Some((parent, _)) = rest.rsplit_once('-') {
        rest = parent;
        if parent != "larder-lab-xattr" {
            pages.push(format!("{parent}(1)"));
        }
    }
    if pages.is_empty() && name != "larder" {
        pages.push("larder(1)".to_owned());
    }
    for page in related(name) {
        if !pages.iter().any(|listed| *listed == page) {
            pages.push(page.to_owned());
        }
    }
    pages
}

/// The other related pages of each page, separated by spaces.
const RELATED: &[(&str, &str)] = &[
    (
        "larder",
        "larder-lab(1) larder-remote(1) mount.larder(8) fusermount3(1) ext4(5)",
    ),
    (
        "larder-mount",
        "larder-umount(1) larder-run(1) larder-stats(1) larder-top(1) larder-overlay(1) larder-profile(1) mount.larder(8) fusermount3(1) fstab(5) ext4(5)",
    ),
    ("larder-umount", "larder-mount(1) umount(8) fusermount3(1)"),
    (
        "larder-run",
        "larder-mount(1) larder-overlay(1) unshare(1) chroot(1) user_namespaces(7)",
    ),
    (
        "larder-ls",
        "larder-find(1) larder-stat(1) larder-cat(1) larder-cp(1) ls(1)",
    ),
    ("larder-find", "larder-ls(1) larder-stat(1) find(1)"),
    ("larder-tree", "larder-ls(1) larder-find(1) tree(1)"),
    ("larder-du", "larder-df(1) larder-ls(1) du(1)"),
    ("larder-df", "larder-du(1) larder-info(1) df(1)"),
    ("larder-stat", "larder-ls(1) larder-info(1) stat(1)"),
    ("larder-cat", "larder-cp(1) larder-ls(1) cat(1)"),
    (
        "larder-cp",
        "larder-cat(1) larder-export(1) larder-put(1) cp(1)",
    ),
    (
        "larder-diff",
        "larder-overlay-diff(1) larder-stat(1) diff(1) rsync(1)",
    ),
    ("larder-export", "larder-cp(1) larder-diff(1) tar(1)"),
    ("larder-put", "larder-cp(1) larder-mkdir(1)"),
    ("larder-mkdir", "larder-put(1) larder-rm(1) mkdir(1)"),
    ("larder-rm", "larder-mv(1) larder-mkdir(1) rm(1)"),
    ("larder-mv", "larder-cp(1) larder-rm(1) mv(1)"),
    ("larder-info", "larder-ls(1) dumpe2fs(8) fdisk(8)"),
    (
        "larder-create",
        "larder-cp(1) larder-shrink(1) mke2fs(8) tar(1)",
    ),
    (
        "larder-shrink",
        "larder-create(1) larder-df(1) resize2fs(8) e2fsck(8)",
    ),
    ("larder-stats", "larder-top(1) larder-mount(1)"),
    ("larder-top", "larder-stats(1) larder-mount(1)"),
    (
        "larder-overlay",
        "larder-overlay-info(1) larder-overlay-diff(1) larder-overlay-commit(1) larder-overlay-discard(1) larder-diff(1) larder-mount(1)",
    ),
    (
        "larder-cache",
        "larder-cache-ls(1) larder-cache-prune(1) larder-cache-clear(1) larder-mount(1)",
    ),
    ("larder-profile", "larder-profile-pack(1) larder-mount(1)"),
    ("larder-fuse2fs", "larder-mount(1) mount.larder(8)"),
    (
        "larder-remote",
        "larder-mount(1) larder-cache(1) larder-profile(1)",
    ),
    (
        "mount.larder",
        "larder-mount(1) larder-umount(1) mount(8) fstab(5) systemd.automount(5)",
    ),
    (
        "larder-lab-trace",
        "larder-lab-trace-info(1) larder-lab-trace-show(1) larder-lab-trace-salvage(1) larder-lab-record(1)",
    ),
    (
        "larder-lab-record",
        "larder-lab-trace(1) larder-lab-import(1) larder-mount(1)",
    ),
    (
        "larder-lab-import",
        "larder-lab-trace(1) larder-lab-record(1)",
    ),
    (
        "larder-lab-export",
        "larder-lab-trace(1) larder-lab-record(1)",
    ),
    ("larder-lab-hash", "larder-lab-trace(1) larder-lab-list(1)"),
    (
        "larder-lab-advise",
        "larder-lab-trace(1) larder-lab-record(1) larder-lab-device(1) larder-mount(1)",
    ),
    (
        "larder-lab-device",
        "larder-lab-advise(1) larder-lab-list(1)",
    ),
    (
        "larder-lab-readahead",
        "larder-lab-list(1) larder-lab-record(1) larder-mount(1)",
    ),
    (
        "larder-lab-eviction",
        "larder-lab-import(1) larder-lab-trace(1) larder-mount(1)",
    ),
];

/// Returns the other related pages of the page `name`.
fn related(name: &str) -> impl Iterator<Item = &'static str> {
    let of_page = RELATED.iter().filter(move |(page, _)| *page == name);
    of_page.flat_map(|(_, related)| related.split(' '))
}
