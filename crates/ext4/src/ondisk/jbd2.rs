//! The journal superblock and the blocks of its log.
