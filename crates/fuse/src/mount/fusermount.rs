//! Runs fusermount3, the set-user-id program that mounts for users other than root.
//!
//! The program inherits one end of a socket pair, and gets the number of this descriptor in the environment
//! variable `_FUSE_COMMFD`. It mounts, and sends the descriptor of `/dev/fuse` over the socket. The inherited
//! end is its standard input, so that this process does not have to make a descriptor inheritable.

use crate::{Error, Result};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = "fusermount3";

/// Directories that are searched after those in PATH, because mount(8) and systemd clear PATH.
const USUAL_DIRECTORIES: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];

/// Returns the path of fusermount3. Searches the directories of PATH, and then the usual directories. A relative
/// directory in PATH is not searched, because another user may be able to write to the working directory.
///
/// # Errors
/// Returns [`Error::NoFusermount`] if the program is not found.
pub(super) fn find() -> Result<PathBuf> {
    find_in(&env::var_os("PATH").unwrap_or_default())
}

fn find_in(path: &OsStr) -> Result<PathBuf> {
    env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .chain(USUAL_DIRECTORIES.map(PathBuf::from))
        .map(|directory| directory.join(PROGRAM))
        .find(|program| program.is_file())
        .ok_or(Error::NoFusermount)
}

/// Mounts on `mountpoint` with `options`, a list separated by commas. Returns the descriptor of the FUSE
/// device.
pub(super) fn mount(program: &Path, mountpoint: &Path, options: &OsStr) -> Result<OwnedFd> {
    let failed = |source| Error::Mount {
        mountpoint: mountpoint.to_owned(),
        source,
    };
    let (parent_end, child_end) = UnixStream::pair().map_err(failed)?;
    let child = Command::new(program)
        .arg("-o")
        .arg(options)
        .arg("--")
        .arg(mountpoint)
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(child_end))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let received = receive_descriptor(&parent_end);
    drop(parent_end);
    let output = child.wait_with_output().map_err(failed)?;
    match received {
        Ok(Some(device)) if output.status.success() => Ok(device),
        Err(source) if output.stderr.is_empty() => Err(failed(source)),
        _ => Err(refusal(&output.stderr)),
    }
}

/// Unmounts the mount at `mountpoint`. If `lazy`, detaches the mount immediately; it ends when it is
/// no longer in use.
///
/// # Errors
/// Returns an error with the message of fusermount3.
pub(super) fn unmount(program: &Path, mountpoint: &Path, lazy: bool) -> io::Result<()> {
    let output = Command::new(program)
        .arg("-u")
        .args(lazy.then_some("-z"))
        .arg("--")
        .arg(mountpoint)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let message = error_message(&output.stderr);
    let kind = if message.contains("busy") {
        io::ErrorKind::ResourceBusy
    } else {
        io::ErrorKind::Other
    };
    Err(io::Error::new(kind, message))
}

/// Escapes commas and backslashes in the value of an option.
pub(super) fn escaped(value: &OsStr) -> OsString {
    let mut bytes = Vec::with_capacity(value.len());
    for &byte in value.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            bytes.push(b'\\');
        }
        bytes.push(byte);
    }
    OsString::from_vec(bytes)
}

fn receive_descriptor(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    rustix::io::retry_on_intr(|| {
        recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut byte)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
}

fn refusal(stderr: &[u8]) -> Error {
    let message = error_message(stderr);
    if message.contains("user_allow_other") {
        Error::AllowOther("allow_other")
    } else if message.contains("fuse device not found") {
        Error::NoFuseDevice
    } else if message.contains("failed to open /dev/fuse") {
        Error::DevicePermission
    } else {
        Error::Fusermount(message)
    }
}

fn error_message(stderr: &[u8]) -> String {
    let message = String::from_utf8_lossy(stderr).trim().replace('\n', "; ");
    if message.is_empty() {
        format!("{PROGRAM} failed without an error message")
    } else {
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comma_and_backslash_in_a_value_are_escaped() {
        assert_eq!(escaped(OsStr::new("/a,b\\c.img")), "/a\\,b\\\\c.img");
    }

    #[test]
    fn path_precedes_the_usual_directories() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(PROGRAM);
        std::fs::write(&program, "").unwrap();
        assert_eq!(find_in(dir.path().as_os_str()).unwrap(), program);
    }

    #[test]
    fn refusal_of_allow_other_is_recognised() {
        let message = b"fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf\n";
        assert!(matches!(refusal(message), Error::AllowOther(_)));
    }

    #[test]
    fn refusal_of_the_device_is_recognised() {
        let message = b"fusermount3: fuse device not found, try 'modprobe fuse' first\n";
        assert!(matches!(refusal(message), Error::NoFuseDevice));
        let message = b"fusermount3: failed to open /dev/fuse: Permission denied\n";
        assert!(matches!(refusal(message), Error::DevicePermission));
    }

    #[test]
    fn refusal_without_a_message_names_the_program() {
        assert!(
            refusal(b"")
                .to_string()
                .contains("failed without an error message")
        );
    }
}
