//! The body of a reply, which is read in pieces as it arrives.

use crate::error::Failure;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;

/// The body of a reply. It must have an expected length.
pub(crate) struct Body {
    parts: BoxStream<'static, object_store::Result<Bytes>>,
    /// The rest of the part that arrived last.
    part: Bytes,
    expected_bytes: u64,
    received_bytes: u64,
}

impl Body {
    pub(crate) fn new(
        parts: BoxStream<'static, object_store::Result<Bytes>>,
        expected_bytes: u64,
    ) -> Self {
        Self {
            parts,
            part: Bytes::new(),
            expected_bytes,
            received_bytes: 0,
        }
    }

    /// Returns whether all bytes were returned.
    pub(crate) fn is_complete(&self) -> bool {
        self.received_bytes == self.expected_bytes
    }

    /// Returns the next bytes of the body: at most `max_bytes`, and fewer only at its end. Before the last
    /// bytes are returned, it is checked that the body has no more bytes than expected.
    ///
    /// # Errors
    /// If the body has more or fewer bytes than expected, or cannot be received.
    pub(crate) async fn next(&mut self, max_bytes: u64) -> Result<Bytes, Failure> {
        let left = self.expected_bytes - self.received_bytes;
        let len = usize::try_from(left.min(max_bytes)).unwrap_or(usize::MAX);
        // The bytes are copied, so that they do not keep the memory of all parts that they touch.
        let mut piece = BytesMut::with_capacity(len);
        while piece.len() < len {
            if self.part.is_empty() && !self.next_part().await? {
                return Err(Failure::Short {
                    received: self.received_bytes,
                    expected: self.expected_bytes,
                });
            }
            let part = self.part.split_to(self.part.len().min(len - piece.len()));
            self.received_bytes += part.len() as u64;
            piece.extend_from_slice(&part);
        }
        if self.is_complete() && (!self.part.is_empty() || self.next_part().await?) {
            return Err(Failure::WrongReply("it has too many bytes".to_owned()));
        }
        Ok(piece.freeze())
    }

    /// Receives the next part that has bytes. Returns false at the end.
    async fn next_part(&mut self) -> Result<bool, Failure> {
        loop {
            let part = self.parts.try_next().await;
            match part.map_err(|error| Failure::of(&error))? {
                None => return Ok(false),
                Some(part) if part.is_empty() => {}
                Some(part) => {
                    self.part = part;
                    return Ok(true);
                }
            }
        }
    }
}
