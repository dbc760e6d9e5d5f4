//! The namespaces of `larder run`.
//!
//! Root needs a mount namespace. Other users also need a user namespace, in which they may mount. It maps only the IDs of
//! the user: other IDs can be mapped only with privileges.

use super::failed::Failed;
use larder_console::{Failure, Result};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};
use std::fs;

/// Moves this process to a mount namespace and, unless it may mount, to a user namespace. In the user namespace, the user
/// has the same ID as before, or is root if `is_root` is true. The process must have only one thread.
pub(super) fn enter(is_root: bool) -> Result<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    match unshare(CloneFlags::CLONE_NEWNS) {
        Err(Errno::EPERM) => {
            unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(refused)?;
            let inner = |id: u32| if is_root { 0 } else { id };
            // The kernel refuses a map of group IDs unless setgroups(2) is denied.
            for (file, content) in [
                ("setgroups", "deny".to_owned()),
                ("uid_map", format!("{} {uid} 1", inner(uid))),
                ("gid_map", format!("{} {gid} 1", inner(gid))),
            ] {
                fs::write(format!("/proc/self/{file}"), content).map_err(refused)?;
            }
        }
        done => done.failed("cannot create a mount namespace")?,
    }
    // Mounts of the host still appear here, but no mount of this namespace appears on the host.
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(|error| {
        let message = format!("cannot make the mounts private: {error}");
        if error == rustix::io::Errno::INVAL {
            let hint = "the root directory is not a mount point: before chroot(8), mount the directory on itself with mount \
                        --bind DIR DIR";
            return Failure::with_hint(message, hint);
        }
        Failure::new(message)
    })
}

fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::with_hint(
        format!("cannot create a user namespace with mounts: {error}"),
        "the kernel, its security module or the container does not permit this: use sudo larder run, or larder mount",
    )
}

/// Makes the next child process of this thread the first process of a new PID namespace. It keeps the capability to
/// mount, which a user other than root would lose when a program is executed.
pub(super) fn prepare_init() -> Result<()> {
    let what = "cannot create a PID namespace";
    let mut sets = capabilities(None).failed(what)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets).failed(what)?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true).failed(what)?;
    unshare(CloneFlags::CLONE_NEWPID).failed(what)
}

/// Moves this process to another mount namespace, with the same mounts.
pub(super) fn copy_mounts() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).failed("cannot create a mount namespace")
}

/// Makes the programs that this thread executes unable to gain privileges. A program of a user other than root has no
/// capabilities, unless the user is root in the user namespace: then it has all capabilities in this namespace.
pub(super) fn drop_privileges() -> Result<()> {
    let what = "cannot drop privileges";
    rustix::thread::set_no_new_privs(true).failed(what)?;
    let mut sets = capabilities(None).failed(what)?;
    // The kernel removes the capabilities from the ambient set, too.
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets).failed(what)
}
