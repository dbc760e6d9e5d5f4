//! The codec: bytes to values, no I/O.
