//! The command `larder fuse2fs`: mounts an image with the arguments of fuse2fs. A link to larder with the
//! name `fuse2fs` runs this command, so that programs that call fuse2fs can use larder.
//!
//! Model: fuse2fs of e2fsprogs. All options in its `--help` are accepted, and those that have no effect in
//! larder are ignored. There are three differences: the kernel checks permissions unless `fakeroot` is given,
//! changes are written through the journal, and the image is locked.

use super::mount;
use crate::args::Fuse2fsArgs;
use crate::holder::FUSE2FS as NAME;
use crate::mount_options::{Options, is_among};
use clap::Parser;
use larder_console::{Failure, Result, logging};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
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
    let options = match options(args) {
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

/// Returns the mount options that correspond to the arguments of fuse2fs.
fn options(args: &Fuse2fsArgs) -> Result<Options> {
    let mut options = Options::default();
    options.mount.subtype = Some("ext4".to_owned());
    for list in &args.options {
        for option in list.as_bytes().split(|&byte| byte == b',') {
            let option = std::ffi::OsStr::from_bytes(option);
            match option.to_str() {
                Some("kernel") => options.add_list("allow_other,suid,dev".as_ref(), false)?,
                Some("directio") => options.add_list("direct_device".as_ref(), false)?,
                Some(name) if is_among(name, &IGNORED, &IGNORED_VALUES) => {}
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
    options.add_list("".as_ref(), false)?;
    if args.single_thread {
        options.mount.threads = Some(NonZeroUsize::MIN);
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Options> {
        let args = [NAME].iter().chain(args);
        options(&Standalone::try_parse_from(args).unwrap().args)
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
