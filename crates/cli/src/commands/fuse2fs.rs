//! The command `larder fuse2fs`: mounts an image with the arguments of fuse2fs. A link to larder with the
//! name `fuse2fs` runs this command, so that programs that call fuse2fs can use larder.
//!
//! Model: fuse2fs of e2fsprogs. All options in its `--help` are accepted, and those that have no effect in
//! larder are ignored. There are three differences: the kernel checks permissions unless `fakeroot` is given,
//! changes are written through the journal, and the image is locked.
//!
//! Before e2fsprogs 1.47, fuse2fs had no option for the offset of a file system in the image. apptainer therefore loads a
//! library into fuse2fs that adds the offset to the reads and writes of libc. larder makes these system calls without libc,
//! and takes the offset from the environment variables of the library.

use super::mount;
use crate::args::Fuse2fsArgs;
use crate::holder::FUSE2FS as NAME;
use crate::mount_options::{Options, is_among};
use clap::Parser;
use larder_console::{Failure, Result, logging};
use larder_fuse::MountOptions;
use std::env;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

/// The exit code for a failed mount.
const MOUNT_FAILED: u8 = 32;
/// The exit code for invalid arguments.
const USAGE_FAILED: u8 = 1;

/// Options of fuse2fs and of libfuse that are accepted and have no effect.
const IGNORED: [&str; 17] = [
    "debug",
    "fuse2fs_debug",
    "no_default_opts",
    "minixdf",
    "bsddf",
    "noacl",
    "nouser_xattr",
    "noblock_validity",
    "hard_remove",
    "use_ino",
    "readdir_ino",
    "big_writes",
    "large_read",
    "intr",
    "auto_cache",
    "auto_unmount",
    "clone_fd",
];

/// Prefixes of options with values that are accepted and have no effect.
const IGNORED_VALUES: [&str; 6] = [
    "max_read=",
    "max_write=",
    "max_readahead=",
    "attr_timeout=",
    "entry_timeout=",
    "negative_timeout=",
];

/// The environment variable with the image to which apptainer's library adds an offset.
const PRELOAD_FILE: &str = "OFFSETPRELOAD_FILE";
/// The environment variable with this offset, in bytes.
const PRELOAD_OFFSET: &str = "OFFSETPRELOAD_OFFSET";

/// Mount an ext2, ext3 or ext4 image with larder
///
/// Accepts the arguments of fuse2fs from e2fsprogs.
#[derive(Debug, Parser)]
#[command(name = NAME)]
struct Standalone {
    #[command(flatten)]
    args: Fuse2fsArgs,
}

/// Runs the program under the name `fuse2fs`.
pub(crate) fn run_standalone(args: Vec<OsString>) -> ExitCode {
    match Standalone::try_parse_from(args) {
        Ok(standalone) => {
            run(&standalone.args).unwrap_or_else(|failure| failure.print(MOUNT_FAILED))
        }
        Err(error) => larder_console::print_usage(&error, USAGE_FAILED),
    }
}

pub(super) fn run(args: &Fuse2fsArgs) -> Result<ExitCode> {
    let options = match options(args, preload_offset(&args.image)) {
        Ok(options) => options,
        Err(failure) => {
            failure.print(USAGE_FAILED);
            return Ok(ExitCode::from(USAGE_FAILED));
        }
    };
    if args.foreground || args.debug {
        logging::start(None)?;
        return match mount::serve(
            &args.image,
            &args.mountpoint,
            options,
            mount::Use::Foreground,
        ) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(failure @ Failure::Message { .. }) => Ok(failure.print(MOUNT_FAILED)),
            Err(failure) => Err(failure),
        };
    }
    let code = mount::run_in_background(&args.image, &args.mountpoint, options, None)?;
    Ok(ExitCode::from(if code == 0 { 0 } else { MOUNT_FAILED }))
}

/// Returns the offset in `image` that apptainer requests in the environment.
fn preload_offset(image: &Path) -> Option<OsString> {
    env::var_os(PRELOAD_FILE)
        .filter(|file| file == image)
        .and_then(|_| env::var_os(PRELOAD_OFFSET))
}

/// Returns the mount options that correspond to the arguments of fuse2fs, and to the offset in the environment.
fn options(args: &Fuse2fsArgs, preload_offset: Option<OsString>) -> Result<Options> {
    let mut options = Options::default();
    options.mount.subtype = Some("ext4".to_owned());
    for list in &args.options {
        for option in list.as_bytes().split(|&byte| byte == b',') {
            let option = std::ffi::OsStr::from_bytes(option);
            match option.to_str() {
                Some("kernel") => options.add_list("allow_other,suid,dev".as_ref(), false)?,
                Some("directio") => options.add_list("direct_device".as_ref(), false)?,
                Some(name) if is_among(name, &IGNORED, &IGNORED_VALUES) => {}
                Some(name) if set_shown_owner(&mut options.mount, name)? => {}
                _ => options
                    .add_list(option, false)
                    .map_err(|failure| match failure {
                        Failure::Usage {
                            message,
                            hint: Some(_),
                        } => Failure::Usage {
                            message,
                            hint: Some("fuse2fs --help lists the options of -o".to_owned()),
                        },
                        other => other,
                    })?,
            }
        }
    }
    if args.read_only {
        options.add_list("ro".as_ref(), false)?;
    }
    if let Some(offset) = preload_offset {
        let bytes = offset.to_str().and_then(|offset| offset.parse().ok());
        options.volume.offset_bytes =
            bytes.ok_or_else(|| invalid(format!("{PRELOAD_OFFSET} is not a number of bytes")))?;
    }
    options.add_list("".as_ref(), false)?;
    if args.single_thread {
        options.mount.threads = Some(NonZeroUsize::MIN);
    }
    Ok(options)
}

/// Sets the owner or the group that is shown for all files. Returns false if `option` is another option.
fn set_shown_owner(mount: &mut MountOptions, option: &str) -> Result<bool> {
    let (shown, id) = match option.split_once('=') {
        Some(("uid", id)) => (&mut mount.shown_uid, id),
        Some(("gid", id)) => (&mut mount.shown_gid, id),
        _ => return Ok(false),
    };
    let number = id
        .parse()
        .map_err(|_| invalid(format!("option {option} needs a number")))?;
    *shown = Some(number);
    Ok(true)
}

fn invalid(message: String) -> Failure {
    Failure::Usage {
        message,
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Options> {
        parsed_with(args, None)
    }

    fn parsed_with(args: &[&str], preload_offset: Option<&str>) -> Result<Options> {
        let args = [NAME].iter().chain(args);
        let args = Standalone::try_parse_from(args).unwrap().args;
        options(&args, preload_offset.map(OsString::from))
    }

    #[test]
    fn shown_owner_must_be_a_number() {
        let options = parsed(&["x.img", "/mnt", "-o", "uid=5,gid=6,ro"]).unwrap();
        assert_eq!(options.mount.shown_uid, Some(5));
        assert_eq!(options.mount.shown_gid, Some(6));
        for (list, name) in [("uid=root", "uid"), ("gid=-1", "gid"), ("uid=", "uid")] {
            let failure = parsed(&["x.img", "/mnt", "-o", list]).unwrap_err();
            assert!(failure.to_string().contains(name), "{failure}");
        }
    }

    #[test]
    fn offset_in_the_environment_must_be_a_number() {
        let offset = |offset| parsed_with(&["x.img", "/mnt"], Some(offset));
        // The first library of apptainer had 32 bits for the offset.
        let options = offset("3000000000").unwrap();
        assert_eq!(options.volume.offset_bytes, 3_000_000_000);
        for bad in ["", "-1", "1M"] {
            let failure = offset(bad).unwrap_err().to_string();
            assert!(failure.contains(PRELOAD_OFFSET), "{failure}");
        }
    }

    #[test]
    fn arguments_are_accepted_in_any_order() {
        for args in [
            ["x.img", "/mnt", "-o", "ro,offset=512", "-f"],
            ["-f", "-o", "ro,offset=512", "x.img", "/mnt"],
            ["x.img", "-oro,offset=512", "-s", "/mnt", "-d"],
        ] {
            let options = parsed(&args).unwrap();
            assert!(!options.volume.read_write);
            assert_eq!(options.volume.offset_bytes, 512);
        }
    }

    #[test]
    fn options_of_fuse2fs_are_accepted() {
        let list = "rw,fakeroot,allow_other,default_permissions,no_default_opts,minixdf,bsddf,acl,\
                    user_xattr,errors=remount-ro,debug,fuse2fs_debug,attr_timeout=0,use_ino";
        let options = parsed(&["x.img", "/mnt", "-o", list]).unwrap();
        assert!(options.mount.fakeroot && options.mount.allow_other);
        assert!(options.volume.read_write && options.mount.read_write);
        let options = parsed(&["x.img", "/mnt", "-o", "norecovery,kernel"]).unwrap();
        assert!(!options.mount.read_write && options.volume.noload);
        assert!(options.mount.suid && options.mount.dev);
    }

    #[test]
    fn plain_call_mounts_for_writing() {
        let options = parsed(&["x.img", "/mnt"]).unwrap();
        assert!(options.volume.read_write && options.mount.read_write);
        assert_eq!(options.mount.subtype.as_deref(), Some("ext4"));
    }

    #[test]
    fn unknown_option_of_fuse2fs_is_named() {
        let failure = parsed(&["x.img", "/mnt", "-o", "frobnicate"]).unwrap_err();
        assert!(failure.to_string().contains("'frobnicate'"), "{failure}");
    }
}
