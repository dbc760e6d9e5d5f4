//! What all operations that change a volume pass through: another try when space is about to become
//! free, and what is to happen when the image turns out to be damaged.
//!
//! Model: `ext4_should_retry_alloc` and `ext4_handle_error`.

use crate::read::Reader;
use crate::{Error, ErrorsMode, Result, Volume};
use larder_ext4::Error as Ext4;

impl Volume {
    /// As [`Reader::change`].
    pub(super) fn change<R>(&self, run: impl FnMut() -> Result<R>) -> Result<R> {
        self.reader.change(run)
    }

    /// As [`Reader::change_once`].
    pub(super) fn change_once<R>(&self, run: impl FnOnce() -> Result<R>) -> Result<R> {
        self.reader.change_once(run)
    }
}

impl Reader {
    /// Does `run`, as [`Reader::while_room_comes`] does. It must hold no lock.
    pub(super) fn change<R>(&self, run: impl FnMut() -> Result<R>) -> Result<R> {
        self.change_once(|| self.while_room_comes(run))
    }

    /// As [`Reader::change`], for what cannot be done again. Locks of inodes may be held.
    pub(super) fn change_once<R>(&self, run: impl FnOnce() -> Result<R>) -> Result<R> {
        let done = run();
        if let Err(error) = &done {
            self.handle_damage(error);
        }
        done
    }

    /// If `error`, of a change of the image, says that the image is damaged, does what `errors=`
    /// says.
    pub(crate) fn handle_damage(&self, error: &Error) {
        let Error::Ext4(error @ Ext4::Corrupt(_)) = error else {
            return;
        };
        if !self.inodes.fs.is_writable() {
            return;
        }
        tracing::error!(%error, "the image is damaged");
        match self.errors {
            ErrorsMode::Continue => {
                if let Err(error) = self.inodes.fs.record_damage(error) {
                    tracing::error!(%error, "recording the damage failed");
                }
            }
            ErrorsMode::RemountReadOnly | ErrorsMode::Abort => self.inodes.fs.abort(error),
        }
    }
}
