//! Attributes of all kinds in the model.

use super::acl::Acl;
use super::node::{APPEND, Body, IMMUTABLE, SETTABLE_FLAGS, Stamp};
use super::{Model, NodeId, Outcome, Step, done};
use larder::{Timestamp, XattrMode};
use rustix::io::Errno;

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
const GROUP_MAY_EXECUTE: u16 = 0o010;

impl Model {
    /// Fails if the attributes must not be changed.
    fn check_changeable(&self, id: NodeId) -> Result<(), Errno> {
        if self.get(id)?.has(IMMUTABLE | APPEND) {
            return Err(Errno::PERM);
        }
        Ok(())
    }

    /// Returns whether Linux allows the attribute on a file of this type.
    fn may_have(&self, id: NodeId, name: &[u8]) -> Result<bool, Errno> {
        let node = self.get(id)?;
        let body = matches!(node.body, Body::File(_) | Body::Directory { .. });
        Ok(body || !name.starts_with(b"user."))
    }

    pub(super) fn set_xattr(
        &mut self,
        id: NodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Step {
        if !self.may_have(id, name)? {
            return Ok(Outcome::Skipped);
        }
        self.check_changeable(id)?;
        match (mode, self.get(id)?.xattrs.get(name)) {
            (XattrMode::Create, Some(_)) => return Err(Errno::EXIST),
            (XattrMode::Replace, None) => return Err(Errno::NODATA),
            // The value does not change, so there is nothing to make durable either.
            (_, Some(before)) if before == value => return done(id),
            _ => {}
        }
        let node = self.node_mut(id)?;
        node.xattrs.insert(name.to_vec(), value.to_vec());
        self.touched(id)
    }

    pub(super) fn remove_xattr(&mut self, id: NodeId, name: &[u8]) -> Step {
        if !self.may_have(id, name)? {
            return Ok(Outcome::Skipped);
        }
        self.check_changeable(id)?;
        let node = self.node_mut(id)?;
        node.xattrs.remove(name).ok_or(Errno::NODATA)?;
        self.touched(id)
    }

    pub(super) fn set_acl(&mut self, id: NodeId, is_default: bool, acl: &Acl) -> Step {
        let node = self.get(id)?;
        if matches!(node.body, Body::Symlink(_)) || (is_default && !node.is_directory()) {
            return Ok(Outcome::Skipped);
        }
        self.check_changeable(id)?;
        let node = self.node_mut(id)?;
        if is_default {
            node.default_acl = Some(acl.clone());
        } else {
            node.permissions = node.permissions & !0o777 | acl.permissions();
            node.acl = (!acl.is_minimal()).then(|| acl.clone());
        }
        self.touched(id)
    }

    pub(super) fn set_permissions(&mut self, id: NodeId, permissions: u16) -> Step {
        if matches!(self.get(id)?.body, Body::Symlink(_)) {
            return Ok(Outcome::Skipped);
        }
        self.check_changeable(id)?;
        let node = self.node_mut(id)?;
        node.permissions = permissions;
        if let Some(acl) = &mut node.acl {
            acl.set_permissions(permissions);
        }
        self.touched(id)
    }

    pub(super) fn set_owner(&mut self, id: NodeId, uid: Option<u32>, gid: Option<u32>) -> Step {
        if uid.is_none() && gid.is_none() {
            return Ok(Outcome::Skipped);
        }
        self.check_changeable(id)?;
        let node = self.node_mut(id)?;
        node.uid = uid.unwrap_or(node.uid);
        node.gid = gid.unwrap_or(node.gid);
        if !node.is_directory() {
            node.permissions &= !SET_USER_ID;
            if node.permissions & GROUP_MAY_EXECUTE != 0 {
                node.permissions &= !SET_GROUP_ID;
            }
        }
        self.touched(id)
    }

    pub(super) fn set_times(
        &mut self,
        id: NodeId,
        accessed: Timestamp,
        modified: Timestamp,
    ) -> Step {
        self.check_changeable(id)?;
        let wide = self.rules().wide_times;
        let stored = |time: Timestamp| {
            Stamp::Exact(Timestamp {
                seconds: time.seconds,
                nanoseconds: if wide { time.nanoseconds } else { 0 },
            })
        };
        let node = self.node_mut(id)?;
        node.times.accessed = stored(accessed);
        node.times.modified = stored(modified);
        self.touched(id)
    }

    pub(super) fn set_flags(&mut self, id: NodeId, flags: u32) -> Step {
        let node = self.node_mut(id)?;
        if !matches!(node.body, Body::File(_) | Body::Directory { .. }) {
            return Ok(Outcome::Skipped);
        }
        node.flags = flags & SETTABLE_FLAGS;
        self.touched(id)
    }
}
